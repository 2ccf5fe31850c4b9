// bench/plan/backtest.h - the planner's cost function compared with published results of larger
// clusters: one constant is fitted to 8 GPUs, and 64 and 128 are predicted.
#pragma once

#include <string>
#include <vector>

namespace emblem {

struct BacktestRow {
  std::string system;  // "64 H100, 8 hosts"
  int gpus = 0;
  int64_t batch = 0;
  double published_ms = 0, predicted_ms = 0;
  bool is_fitted = false;

  double error() const { return predicted_ms / published_ms - 1; }
};

// MLPerf Training, DLRM-DCNv2 (HugeCTR), milliseconds a batch over the whole run, evaluations
// included.
std::vector<BacktestRow> backtest_mlperf();

}  // namespace emblem
