#include "emblem/pipeline.h"

#include <chrono>

#include "python/src/bindings.h"

namespace emblem::python {
namespace {

// Lets Ctrl-C through, and calls `function` up to ten times a second.
std::function<void(int64_t, const std::string&)> tuning_callback(nb::object function) {
  using Clock = std::chrono::steady_clock;
  return [call = Shared(std::move(function)), called = Clock::time_point()](
             int64_t steps, const std::string& trial) mutable {
    if (Clock::now() - called < std::chrono::milliseconds(100)) return;
    called = Clock::now();
    const nb::gil_scoped_acquire lock;
    check_signals();
    if (!call.get().is_none()) call.get()(steps, trial);
  };
}

nb::tuple init(const Data& data, const std::string& label, const std::string& label_positive,
               const std::string& task, const std::string& weight, const std::string& model,
               const std::vector<std::string>& categories, const std::vector<std::string>& numbers,
               const std::vector<std::string>& skipped, const Data* valid, double holdout,
               int64_t sampled_rows, int64_t tune, uint64_t seed, const std::string& device,
               int threads, nb::object on_tuning) {
  const StarterOptions options{label,
                               label_positive,
                               task,
                               weight,
                               model,
                               categories,
                               numbers,
                               skipped,
                               valid != nullptr ? *valid : Data(),
                               holdout,
                               sampled_rows,
                               {.steps = tune,
                                .seed = seed,
                                .device = device,
                                .threads = threads,
                                .on_step = tuning_callback(std::move(on_tuning)),
                                .is_cancelled = Entry::is_ending}};
  const Starter made = unlocked([&] { return Pipeline::for_data(data, options); });
  return nb::make_tuple(made.pipeline, made.summary, made.warnings);
}

nb::dict field_dict(const Field& field) {
  nb::dict made;
  made["name"] = field.name;
  made["type"] = field.type;
  made["is_repeated"] = field.is_repeated;
  made["is_set"] = field.is_set;
  made["count"] = field.count;
  made["values"] = field.values;
  made["choices"] = field.choices;
  return made;
}

nb::list fields(const Pipeline& pipeline, const std::string& path) {
  nb::list made;
  for (const Field& field : pipeline.fields(path)) made.append(field_dict(field));
  return made;
}

}  // namespace

void add_pipeline(nb::module_& module) {
  nb::class_<Pipeline>(module, "Pipeline")
      .def_static("from_text", &Pipeline::from_text, "text"_a, "name"_a = "pipeline")
      .def_static(
          "from_file",
          [](const std::string& path) {
            return unlocked([&] { return Pipeline::from_file(path); });
          },
          "path"_a)
      .def("set", &Pipeline::set, "field"_a, "value"_a)
      .def("remove", &Pipeline::remove, "field"_a)
      .def("fields", &fields, "path"_a = "", "a dict of each field of the message at `path`")
      .def("copy", [](const Pipeline& pipeline) { return Pipeline(pipeline); })
      .def_prop_ro("text", &Pipeline::text)
      .def_prop_ro("labels", &Pipeline::labels);
  module.def("init", &init, "data"_a, "label"_a, "label_positive"_a = "", "task"_a = "",
             "weight"_a = "", "model"_a = "", "categories"_a = std::vector<std::string>(),
             "numbers"_a = std::vector<std::string>(), "skipped"_a = std::vector<std::string>(),
             "valid"_a.none() = nb::none(), "holdout"_a = -1.0, "sampled_rows"_a = 200'000,
             "tune"_a = 0, "seed"_a = 1, "device"_a = "cpu", "threads"_a = 0,
             "on_tuning"_a = nb::none(), "(pipeline, summary, warnings) for the columns of `data`");
}

}  // namespace emblem::python
