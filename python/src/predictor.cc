#include "emblem/predictor.h"

#include "python/src/arrays.h"
#include "python/src/bindings.h"

namespace emblem::python {
namespace {

using HeldPredictor = Held<Predictor>;

void make_predictor(HeldPredictor* self, const std::string& checkpoint,
                    const std::vector<std::string>& outputs, int threads,
                    const std::string& precision, const std::string& row_precision) {
  const PredictorOptions options{outputs, threads, precision, row_precision};
  new (self)
      HeldPredictor(unlocked([&] { return std::make_unique<Predictor>(checkpoint, options); }));
}

nb::object predict_batch(const HeldPredictor& predictor, const Data& rows) {
  std::vector<float> values;
  unlocked([&] { predictor.get().predict(rows, values); });
  const size_t columns = predictor.get().columns().size();
  const size_t count = values.size() / columns;
  return to_numpy(std::move(values), {count, columns});
}

}  // namespace

void add_predictor(nb::module_& module) {
  nb::class_<HeldPredictor>(module, "Predictor")
      .def("__init__", &make_predictor, "checkpoint"_a, "outputs"_a, "threads"_a, "precision"_a,
           "row_precision"_a)
      .def("predict", &predict_batch, "rows"_a, "float32 [rows, columns]")
      .def_prop_ro("columns",
                   [](const HeldPredictor& predictor) { return predictor.get().columns(); });
}

}  // namespace emblem::python
