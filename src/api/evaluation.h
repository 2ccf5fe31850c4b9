// api/evaluation.h - evaluations of the engine as the public headers have them.
#pragma once

#include "emblem/model.h"
#include "train/predict/evaluation.h"
#include "train/predict/own_metrics.h"

namespace emblem {

inline api::Evaluation to_public(const Evaluation& evaluation) {
  return {evaluation.metrics, evaluation.rows, evaluation.bad_rows, evaluation.seconds};
}

inline OwnMetrics to_internal(const api::OwnMetrics& own) {
  if (!own.compute) return {};
  return {own.names, [compute = own.compute](const EvaluatedRows& rows) {
            return compute({rows.rows, rows.labels, rows.predictions});
          }};
}

}  // namespace emblem
