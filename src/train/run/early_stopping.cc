#include "train/run/early_stopping.h"

#include <cmath>
#include <cstdlib>

#include "config/feature/metrics.h"
#include "emblem/error.h"

namespace emblem {

EarlyStopping::EarlyStopping(const config::EarlyStopping& settings) : settings_(settings) {
  state_.metric = settings.metric();
}

void EarlyStopping::restore(const EarlyStoppingState& state) {
  if (!state.metric.empty() && state.metric != settings_.metric()) return;
  state_ = state;
  state_.metric = settings_.metric();
}

bool EarlyStopping::observe(double value, int64_t step) {
  // check_pipeline refuses a setting that contradicts the metric.
  const bool lower = settings_.has_higher_is_better() ? !settings_.higher_is_better()
                                                      : lower_is_better(settings_.metric());
  const double gain = lower ? state_.best - value : value - state_.best;
  const bool better = !std::isnan(value) && (!state_.has_best || gain > settings_.min_delta());
  if (better) {
    state_.has_best = true;
    state_.best = value;
    state_.best_step = step;
    state_.bad_evaluations = 0;
  } else {
    ++state_.bad_evaluations;
  }
  return better;
}

bool StopAt::reached(double found) const {
  if (std::isnan(found)) return false;
  return lower_is_better(metric) ? found <= value : found >= value;
}

StopAt parse_stop_at(const std::string& text, const char* option) {
  const size_t equals = text.find('=');
  char* end = nullptr;
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  const StopAt stop{text.substr(0, equals), std::strtod(number.c_str(), &end), option};
  EMBLEM_REQUIRE(equals != std::string::npos && equals > 0 && !number.empty() && *end == '\0' &&
                     std::isfinite(stop.value),
                 option, " \"", text, "\" is not METRIC=VALUE; write for example ", option,
                 " auc=0.8025");
  return stop;
}

}  // namespace emblem
