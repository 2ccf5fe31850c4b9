#include "emblem/model.h"

#include <nanobind/ndarray.h>

#include "python/src/bindings.h"
#include "python/src/evaluation.h"

namespace emblem::python {
namespace {

// Called by the thread that is in a call, now and then: shows progress and lets Ctrl-C through.
std::function<void(int64_t, int64_t)> progress_of(nb::object progress) {
  return [take = Shared(std::move(progress))](int64_t rows, int64_t expected) {
    const nb::gil_scoped_acquire lock;
    check_signals();
    if (!take.get().is_none()) take.get()(rows, expected);
  };
}

using HeldModel = Held<Model>;

void make_model(HeldModel* self, const std::string& checkpoint, const std::string& device,
                int threads, const std::string& precision, nb::object progress) {
  const ModelOptions options{.device = device,
                             .threads = threads,
                             .precision = precision,
                             .is_cancelled = Entry::is_ending,
                             .on_progress = progress_of(std::move(progress))};
  new (self) HeldModel(unlocked([&] { return std::make_unique<Model>(checkpoint, options); }));
}

nb::tuple predict(const HeldModel& model, const Data& data,
                  const std::vector<std::string>& outputs) {
  auto made =
      std::make_unique<Predictions>(unlocked([&] { return model.get().predict(data, outputs); }));
  const size_t shape[] = {static_cast<size_t>(made->rows), made->columns.size()};
  const std::vector<std::string> columns = made->columns;
  float* const values = made->values.data();
  const nb::capsule owner(made.release(),
                          [](void* held) noexcept { delete static_cast<Predictions*>(held); });
  return nb::make_tuple(columns,
                        nb::ndarray<nb::numpy, float, nb::ndim<2>>(values, 2, shape, owner));
}

}  // namespace

void add_model(nb::module_& module) {
  nb::class_<HeldModel>(module, "Model")
      .def("__init__", &make_model, "checkpoint"_a, "device"_a = "cpu", "threads"_a = 0,
           "precision"_a = "", "progress"_a = nb::none())
      .def(
          "evaluate",
          [](const HeldModel& model, const Data* data, nb::object own_metrics) {
            const OwnMetrics own = own_metrics_of({}, std::move(own_metrics));
            return to_dict(unlocked(
                [&] { return model.get().evaluate(data != nullptr ? *data : Data(), own); }));
          },
          "data"_a.none() = nb::none(), "own_metrics"_a = nb::none())
      .def("predict", &predict, "data"_a, "outputs"_a = std::vector<std::string>(),
           "(names of columns, float32 [rows, columns])")
      .def(
          "export_to",
          [](const HeldModel& model, const std::string& folder) {
            return unlocked([&] { return model.get().export_to(folder); });
          },
          "folder"_a)
      .def(
          "export_onnx",
          [](const HeldModel& model, const std::string& folder,
             const std::vector<std::string>& outputs) {
            unlocked([&] { model.get().export_onnx(folder, outputs); });
          },
          "folder"_a, "outputs"_a)
      .def_prop_ro("pipeline", [](const HeldModel& model) { return model.get().pipeline(); })
      .def_prop_ro("checkpoint", [](const HeldModel& model) { return model.get().checkpoint(); })
      .def_prop_ro("step", [](const HeldModel& model) { return model.get().step(); });
}

}  // namespace emblem::python
