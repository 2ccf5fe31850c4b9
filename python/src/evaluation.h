// python/src/evaluation.h - evaluations as dicts, and metrics that functions of Python compute.
#pragma once

#include "emblem/model.h"
#include "python/src/arrays.h"
#include "python/src/bindings.h"

namespace emblem::python {

inline nb::dict to_dict(const Evaluation& evaluation) {
  nb::dict made;
  made["metrics"] = evaluation.metrics;
  made["rows"] = evaluation.rows;
  made["bad_rows"] = evaluation.bad_rows;
  made["seconds"] = evaluation.seconds;
  return made;
}

// `function` gets float32 arrays of labels and predictions, [rows, columns] each, and returns
// values by name. None: no metrics.
inline OwnMetrics own_metrics_of(const std::vector<std::string>& names, nb::object function) {
  if (function.is_none()) return {};
  return {names, [call = Shared(std::move(function))](const EvaluatedRows& evaluated) {
            const nb::gil_scoped_acquire lock;
            const auto rows = static_cast<size_t>(evaluated.rows);
            const auto matrix = [&](std::span<const float> values) {
              return to_numpy(std::vector<float>(values.begin(), values.end()),
                              {rows, values.size() / rows});
            };
            return nb::cast<std::map<std::string, double>>(
                call.get()(matrix(evaluated.labels), matrix(evaluated.predictions)));
          }};
}

}  // namespace emblem::python
