// api/evaluation.h - evaluations of the engine as the public headers have them.
#pragma once

#include "emblem/model.h"
#include "train/predict/evaluation.h"

namespace emblem {

inline api::Evaluation to_public(const Evaluation& evaluation) {
  return {evaluation.metrics, evaluation.rows, evaluation.bad_rows, evaluation.seconds};
}

}  // namespace emblem
