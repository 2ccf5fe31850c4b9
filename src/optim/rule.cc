#include "optim/rule.h"

#include <iterator>

namespace emblem {

Rule at_step(Rule rule, float learning_rate, int64_t step) {
  std::visit([&](auto& r) { r.learning_rate = learning_rate; }, rule);
  std::visit(
      [&](auto& r) {
        if constexpr (kHasCorrections<std::decay_t<decltype(r)>>) {
          const double t = static_cast<double>(step);
          r.correction1 = static_cast<float>(1.0 - std::pow(static_cast<double>(r.beta1), t));
          r.correction2 =
              static_cast<float>(std::sqrt(1.0 - std::pow(static_cast<double>(r.beta2), t)));
        }
      },
      rule);
  if (auto* momentum = std::get_if<Momentum>(&rule); momentum != nullptr && step == 1)
    momentum->dampening = 0.0f;
  return rule;
}

int64_t state_floats(const Rule& rule, int64_t dim) {
  return std::visit(
      [&](const auto& r) { return static_cast<int64_t>(r.kStates) * dim + (r.kRowWise ? 1 : 0); },
      rule);
}

const char* name_of(const Rule& rule) {
  static constexpr const char* kNames[] = {"sgd",     "momentum", "adagrad", "rowwise_adagrad",
                                           "adam",    "ftrl",     "amsgrad", "partial_rowwise_adam",
                                           "rmsprop", "adadelta"};
  static_assert(std::size(kNames) == std::variant_size_v<Rule>);
  return kNames[rule.index()];
}

bool is_row_wise(const Rule& rule) {
  return std::visit([](const auto& r) { return std::decay_t<decltype(r)>::kRowWise; }, rule);
}

}  // namespace emblem
