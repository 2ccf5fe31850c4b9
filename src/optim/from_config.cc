#include "optim/from_config.h"

#include "emblem/error.h"

namespace emblem {
namespace {

void check_rate(const char* message, float learning_rate) {
  EMBLEM_REQUIRE(learning_rate >= 0.0f, message, ".lr is ", learning_rate,
                 ", but must be 0 or more");
}

void check_decay(const char* message, const char* field, float value) {
  EMBLEM_REQUIRE(value >= 0.0f, message, ".", field, " is ", value, ", but must be 0 or more");
}

template <class Message>
Adam adam_from(const char* name, const Message& m) {
  check_rate(name, m.lr());
  check_decay(name, "weight_decay", m.weight_decay());
  check_decay(name, "eps", m.eps());
  EMBLEM_REQUIRE(m.beta1() >= 0.0f && m.beta1() < 1.0f && m.beta2() >= 0.0f && m.beta2() < 1.0f,
                 name, ": beta1 is ", m.beta1(), " and beta2 ", m.beta2(),
                 ", but both must be at least 0 and below 1");
  Adam rule;
  rule.learning_rate = m.lr();
  rule.beta1 = m.beta1();
  rule.beta2 = m.beta2();
  rule.epsilon = m.eps();
  return rule;
}

Momentum momentum_from(const char* name, float lr, float momentum) {
  check_rate(name, lr);
  EMBLEM_REQUIRE(momentum >= 0.0f && momentum < 1.0f, name, ".momentum is ", momentum,
                 ", but must be at least 0 and below 1");
  Momentum rule;
  rule.learning_rate = lr;
  rule.momentum = momentum;
  return rule;
}

template <class Message>
AdaGrad adagrad_from(const char* name, const Message& m) {
  check_rate(name, m.lr());
  check_decay(name, "initial_accumulator_value", m.initial_accumulator_value());
  check_decay(name, "eps", m.eps());
  return AdaGrad{m.lr(), m.eps()};
}

DenseOptimizerSettings sgd_from(const config::SGDOptimizer& m) {
  const char* name = "sgd_optimizer";
  check_decay(name, "weight_decay", m.weight_decay());
  Momentum rule = momentum_from(name, m.lr(), m.momentum());
  rule.dampening = m.dampening();
  rule.nesterov = m.nesterov() ? 1.0f : 0.0f;
  EMBLEM_REQUIRE(!m.nesterov() || (m.momentum() > 0.0f && m.dampening() == 0.0f), name,
                 ".nesterov needs a momentum above 0 and no dampening, but they are ", m.momentum(),
                 " and ", m.dampening());
  if (m.momentum() == 0.0f) return {Sgd{m.lr()}, m.lr(), 0.0f, m.weight_decay()};
  return {rule, m.lr(), 0.0f, m.weight_decay()};
}

}  // namespace

SparseOptimizerSettings sparse_optimizer_from(const config::SparseOptimizer& optimizer) {
  using Case = config::SparseOptimizer;
  switch (optimizer.optimizer_case()) {
    case Case::kSgdOptimizer: {
      const auto& m = optimizer.sgd_optimizer();
      check_rate("sgd_optimizer", m.lr());
      return {Sgd{m.lr()}, m.lr()};
    }
    case Case::kAdagradOptimizer: {
      const auto& m = optimizer.adagrad_optimizer();
      return {adagrad_from("adagrad_optimizer", m), m.lr(), m.initial_accumulator_value()};
    }
    case Case::kAdamOptimizer: {
      const auto& m = optimizer.adam_optimizer();
      return {adam_from("adam_optimizer", m), m.lr(), 0.0f, m.weight_decay()};
    }
    case Case::kRowwiseAdagradOptimizer: {
      const auto& m = optimizer.rowwise_adagrad_optimizer();
      check_rate("rowwise_adagrad_optimizer", m.lr());
      check_decay("rowwise_adagrad_optimizer", "eps", m.eps());
      return {RowWiseAdaGrad{m.lr(), m.eps()}, m.lr()};
    }
    case Case::kMomentumOptimizer: {
      const auto& m = optimizer.momentum_optimizer();
      return {momentum_from("momentum_optimizer", m.lr(), m.momentum()), m.lr()};
    }
    case Case::kFtrlOptimizer: {
      const auto& m = optimizer.ftrl_optimizer();
      EMBLEM_REQUIRE(m.lr() > 0.0f, "ftrl_optimizer.lr is ", m.lr(), ", but must be above 0");
      check_decay("ftrl_optimizer", "lambda1", m.lambda1());
      check_decay("ftrl_optimizer", "lambda2", m.lambda2());
      return {Ftrl{m.lr(), m.beta(), m.lambda1(), m.lambda2()}, m.lr()};
    }
    case Case::OPTIMIZER_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "sparse_optimizer names no optimizer; set one of sgd_optimizer, adagrad_optimizer, "
              "adam_optimizer, "
              "rowwise_adagrad_optimizer, momentum_optimizer, ftrl_optimizer");
}

DenseOptimizerSettings dense_optimizer_from(const config::DenseOptimizer& optimizer) {
  using Case = config::DenseOptimizer;
  switch (optimizer.optimizer_case()) {
    case Case::kSgdOptimizer:
      return sgd_from(optimizer.sgd_optimizer());
    case Case::kAdagradOptimizer: {
      const auto& m = optimizer.adagrad_optimizer();
      check_decay("adagrad_optimizer", "weight_decay", m.weight_decay());
      return {adagrad_from("adagrad_optimizer", m), m.lr(), m.initial_accumulator_value(),
              m.weight_decay()};
    }
    case Case::kAdamOptimizer: {
      const auto& m = optimizer.adam_optimizer();
      return {adam_from("adam_optimizer", m), m.lr(), 0.0f, m.weight_decay()};
    }
    case Case::kAdamwOptimizer: {
      const auto& m = optimizer.adamw_optimizer();
      Adam rule = adam_from("adamw_optimizer", m);
      rule.decoupled_decay = m.weight_decay();
      return {rule, m.lr()};
    }
    case Case::OPTIMIZER_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "dense_optimizer names no optimizer; set one of sgd_optimizer, adagrad_optimizer, "
              "adam_optimizer, "
              "adamw_optimizer");
}

}  // namespace emblem
