// train/run/early_stopping.h - watches a metric over evaluations.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/manifest.h"
#include "config/proto/train.pb.h"

namespace emblem {

class EarlyStopping {
 public:
  explicit EarlyStopping(const config::EarlyStopping& settings);

  const std::string& metric() const { return settings_.metric(); }
  // Takes the metric of an evaluation; true when it is the best so far. NaN never is.
  bool observe(double value, int64_t step);
  bool should_stop() const { return state_.bad_evaluations >= settings_.patience(); }

  const EarlyStoppingState& state() const { return state_; }
  // Ignores the state of another metric.
  void restore(const EarlyStoppingState& state);

 private:
  config::EarlyStopping settings_;
  EarlyStoppingState state_;
};

// "auc=0.8025": stop at the first evaluation that reaches it.
struct StopAt {
  std::string metric;
  double value = 0.0;
  std::string option = "--stop-at";  // that it comes from, for errors
  bool reached(double found) const;
};
// Throws Error, in which `option` names the text, unless it is METRIC=VALUE.
StopAt parse_stop_at(const std::string& text, const char* option = "--stop-at");

}  // namespace emblem
