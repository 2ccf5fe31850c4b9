// python/src/evaluation.h - evaluations as dicts.
#pragma once

#include "emblem/model.h"
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

}  // namespace emblem::python
