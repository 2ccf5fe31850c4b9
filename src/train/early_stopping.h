// train/early_stopping.h - watches a metric over evaluations.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/manifest.h"
#include "config/train.pb.h"

namespace emblem {

class EarlyStopping {
 public:
  explicit EarlyStopping(const config::EarlyStopping& settings) : settings_(settings) {}

  const std::string& metric() const { return settings_.metric(); }
  // Takes the value of an evaluation; true when it is the best so far. NaN never is.
  bool observe(double value, int64_t step);
  bool should_stop() const { return state_.bad_evaluations >= settings_.patience(); }

  const EarlyStoppingState& state() const { return state_; }
  void restore(const EarlyStoppingState& state) { state_ = state; }

 private:
  config::EarlyStopping settings_;
  EarlyStoppingState state_;
};

// "auc=0.8025": stop as soon as an evaluation reaches it.
struct StopAt {
  std::string metric;
  double value = 0.0;
  bool reached(double found) const;
};
// `option` names it in errors.
StopAt parse_stop_at(const std::string& text, const char* option = "--stop-at");

// Whether smaller values of a metric are better (losses and errors).
bool lower_is_better(const std::string& metric);

}  // namespace emblem
