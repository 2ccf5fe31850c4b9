#include "train/early_stopping.h"

#include <cmath>
#include <cstdlib>

#include "emblem/error.h"

namespace emblem {

bool EarlyStopping::observe(double value, int64_t step) {
  const double gain = settings_.higher_is_better() ? value - state_.best : state_.best - value;
  const bool better = !std::isnan(value) && (!state_.has_best || gain > settings_.min_delta());
  if (better) {
    state_ = {.has_best = true, .best = value, .best_step = step, .bad_evaluations = 0};
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
  StopAt stop{text.substr(0, equals), std::strtod(number.c_str(), &end)};
  EMBLEM_REQUIRE(equals != std::string::npos && equals > 0 && !number.empty() && *end == '\0',
                 option, " \"", text, "\" is not METRIC=VALUE; write for example ", option,
                 " auc=0.8025");
  return stop;
}

bool lower_is_better(const std::string& metric) {
  for (const char* name : {"loss", "entropy", "error"}) {
    if (metric.find(name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace emblem
