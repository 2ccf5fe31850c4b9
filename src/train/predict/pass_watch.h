// train/predict/pass_watch.h - who watches a pass over a data set.
#pragma once

#include <cstdint>
#include <functional>

#include "core/system/cancel_token.h"

namespace emblem {

struct PassProgress {
  enum class State { kRuns, kEnded, kStopped };  // kStopped: cancelled, or by an error
  int64_t rows = 0;                              // rows so far
  int64_t expected_rows = 0;                     // 0: not known yet
  State state = State::kRuns;
};

struct OwnMetrics;

struct PassWatch {
  CancelToken cancel;
  std::function<void(const PassProgress&)> progress;  // called on rank 0; may be empty
  const OwnMetrics* own_metrics = nullptr;            // of evaluations, of one process alone
};

}  // namespace emblem
