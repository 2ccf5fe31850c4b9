#include "emblem/pipeline.h"

#include "python/src/bindings.h"

namespace emblem::python {
namespace {

nb::tuple init(const Data& data, const std::string& label, const std::string& label_positive,
               const std::string& task, const std::string& weight, const std::string& model,
               const std::vector<std::string>& categories, const std::vector<std::string>& numbers,
               const std::vector<std::string>& skipped, const Data* valid, double holdout,
               int64_t sampled_rows) {
  const StarterOptions options{label,   label_positive, task,
                               weight,  model,          categories,
                               numbers, skipped,        valid != nullptr ? *valid : Data(),
                               holdout, sampled_rows};
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
             "(pipeline, summary, warnings) for the columns of `data`");
}

}  // namespace emblem::python
