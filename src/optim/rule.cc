#include "optim/rule.h"

namespace emblem {

Rule at_step(Rule rule, float learning_rate, int64_t step) {
  std::visit([&](auto& r) { r.learning_rate = learning_rate; }, rule);
  if (auto* adam = std::get_if<Adam>(&rule)) {
    const double t = static_cast<double>(step);
    adam->correction1 = static_cast<float>(1.0 - std::pow(static_cast<double>(adam->beta1), t));
    adam->correction2 =
        static_cast<float>(std::sqrt(1.0 - std::pow(static_cast<double>(adam->beta2), t)));
  }
  if (auto* momentum = std::get_if<Momentum>(&rule); momentum != nullptr && step == 1)
    momentum->dampening = 0.0f;
  return rule;
}

int64_t state_floats(const Rule& rule, int64_t dim) {
  return std::visit(
      [&](const auto& r) { return static_cast<int64_t>(r.kStates) * (r.kRowWise ? 1 : dim); },
      rule);
}

const char* name_of(const Rule& rule) {
  static constexpr const char* kNames[] = {"sgd",  "momentum", "adagrad", "rowwise_adagrad",
                                           "adam", "ftrl"};
  return kNames[rule.index()];
}

}  // namespace emblem
