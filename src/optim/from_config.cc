#include "optim/from_config.h"

#include <google/protobuf/descriptor.h>

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

template <class R = Adam, class Message>
R adam_from(const char* name, const Message& m, float eps) {
  check_rate(name, m.lr());
  check_decay(name, "weight_decay", m.weight_decay());
  check_decay(name, "eps", eps);
  EMBLEM_REQUIRE(m.beta1() >= 0.0f && m.beta1() < 1.0f && m.beta2() >= 0.0f && m.beta2() < 1.0f,
                 name, ": beta1 is ", m.beta1(), " and beta2 ", m.beta2(),
                 ", but both must be at least 0 and below 1");
  R rule;
  rule.learning_rate = m.lr();
  rule.beta1 = m.beta1();
  rule.beta2 = m.beta2();
  rule.epsilon = eps;
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

template <class Message>
RmsProp rmsprop_from(const char* name, const Message& m) {
  check_rate(name, m.lr());
  check_decay(name, "eps", m.eps());
  check_decay(name, "weight_decay", m.weight_decay());
  EMBLEM_REQUIRE(m.alpha() >= 0.0f && m.alpha() < 1.0f, name, ".alpha is ", m.alpha(),
                 ", but must be at least 0 and below 1");
  return RmsProp{m.lr(), m.alpha(), m.eps()};
}

template <class Message>
AdaDelta adadelta_from(const char* name, const Message& m) {
  check_rate(name, m.lr());
  check_decay(name, "weight_decay", m.weight_decay());
  EMBLEM_REQUIRE(m.eps() > 0.0f, name, ".eps is ", m.eps(), ", but must be above 0");
  EMBLEM_REQUIRE(m.rho() >= 0.0f && m.rho() < 1.0f, name, ".rho is ", m.rho(),
                 ", but must be at least 0 and below 1");
  return AdaDelta{m.lr(), m.rho(), m.eps()};
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

// As FBGEMM: weight_decay of Adam's kinds shrinks the row and does not go through the gradient.
template <class R, class Message>
R sparse_adam_from(const char* name, const Message& m, float eps) {
  R rule = adam_from<R>(name, m, eps);
  rule.decoupled_decay = m.weight_decay();
  return rule;
}

SparseOptimizerSettings rowwise_adagrad_from(const config::FusedRowWiseAdagradOptimizer& m) {
  const char* name = "rowwise_adagrad_optimizer";
  check_rate(name, m.lr());
  check_decay(name, "eps", m.eps());
  check_decay(name, "weight_decay", m.weight_decay());
  EMBLEM_REQUIRE(m.weight_decay() == 0.0f || m.weight_decay_mode() != config::NONE, name,
                 ".weight_decay is ", m.weight_decay(),
                 ", but weight_decay_mode is NONE, which ignores it; set weight_decay_mode: L2 or "
                 "DECOUPLE");
  SparseOptimizerSettings settings{RowWiseAdaGrad{m.lr(), m.eps()}, m.lr()};
  if (m.weight_decay_mode() == config::L2) settings.l2 = m.weight_decay();
  if (m.weight_decay_mode() == config::DECOUPLE)
    std::get<RowWiseAdaGrad>(settings.rule).decoupled_decay = m.weight_decay();
  return settings;
}

template <class Optimizer>
[[noreturn]] void refuse_optimizer(const Optimizer& optimizer, const std::string& owner,
                                   const char* known) {
  const auto* field = optimizer.GetDescriptor()->FindFieldByNumber(optimizer.optimizer_case());
  if (field == nullptr)
    throw Error(ErrorCode::kInvalidArgument, cat(owner, " names no optimizer; set one of ", known));
  throw Error(ErrorCode::kInvalidArgument,
              cat(owner, ".", field->name(), " is not supported; use one of ", known));
}

constexpr const char* kSparse =
    "sgd_optimizer, adagrad_optimizer, adam_optimizer, rowwise_adagrad_optimizer, "
    "partial_rowwise_adam_optimizer, adadelta_optimizer, rmsprop_optimizer, momentum_optimizer, "
    "ftrl_optimizer";
constexpr const char* kDense =
    "sgd_optimizer, adagrad_optimizer, adam_optimizer, adamw_optimizer, adadelta_optimizer, "
    "rmsprop_optimizer";

// Settings without max_gradient.
SparseOptimizerSettings sparse_rule_from(const config::SparseOptimizer& optimizer) {
  using Case = config::SparseOptimizer;
  constexpr float kFbgemmEpsilon = 1e-8f;
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
      return {sparse_adam_from<Adam>("adam_optimizer", m, m.eps()), m.lr()};
    }
    case Case::kPartialRowwiseAdamOptimizer: {
      const auto& m = optimizer.partial_rowwise_adam_optimizer();
      return {
          sparse_adam_from<PartialRowWiseAdam>("partial_rowwise_adam_optimizer", m, kFbgemmEpsilon),
          m.lr()};
    }
    case Case::kRowwiseAdagradOptimizer:
      return rowwise_adagrad_from(optimizer.rowwise_adagrad_optimizer());
    case Case::kAdadeltaOptimizer: {
      const auto& m = optimizer.adadelta_optimizer();
      return {adadelta_from("adadelta_optimizer", m), m.lr(), 0.0f, m.weight_decay()};
    }
    case Case::kRmspropOptimizer: {
      const auto& m = optimizer.rmsprop_optimizer();
      return {rmsprop_from("rmsprop_optimizer", m), m.lr(), 0.0f, m.weight_decay()};
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
    default:
      refuse_optimizer(optimizer, "sparse_optimizer", kSparse);
  }
}

// 0 where the optimizer does not clip. The fields have one name in all messages of optimizers.
float max_gradient_of(const config::SparseOptimizer& optimizer) {
  const auto* chosen = optimizer.GetReflection()->GetOneofFieldDescriptor(
      optimizer, optimizer.GetDescriptor()->FindOneofByName("optimizer"));
  const auto& message = optimizer.GetReflection()->GetMessage(optimizer, chosen);
  const auto* clipping = message.GetDescriptor()->FindFieldByName("gradient_clipping");
  const auto* most = message.GetDescriptor()->FindFieldByName("max_gradient");
  if (clipping == nullptr || !message.GetReflection()->GetBool(message, clipping)) return 0.0f;
  const float value = message.GetReflection()->GetFloat(message, most);
  EMBLEM_REQUIRE(value > 0.0f, chosen->name(), ".max_gradient is ", value, ", but must be above 0");
  return value;
}

template <class Message>
DenseOptimizerSettings dense_adam_from(const char* name, const Message& m, bool decoupled) {
  DenseOptimizerSettings settings{Adam{}, m.lr(), 0.0f, decoupled ? 0.0f : m.weight_decay()};
  const auto set = [&](auto rule) {
    rule.decoupled_decay = decoupled ? m.weight_decay() : 0.0f;
    settings.rule = rule;
  };
  if (m.amsgrad())
    set(adam_from<AmsGrad>(name, m, m.eps()));
  else
    set(adam_from<Adam>(name, m, m.eps()));
  return settings;
}

template <class Optimizer>
DenseOptimizerSettings dense_from(const Optimizer& optimizer, const char* owner) {
  switch (optimizer.optimizer_case()) {
    case Optimizer::kSgdOptimizer:
      return sgd_from(optimizer.sgd_optimizer());
    case Optimizer::kAdagradOptimizer: {
      const auto& m = optimizer.adagrad_optimizer();
      check_decay("adagrad_optimizer", "weight_decay", m.weight_decay());
      return {adagrad_from("adagrad_optimizer", m), m.lr(), m.initial_accumulator_value(),
              m.weight_decay()};
    }
    case Optimizer::kAdamOptimizer:
      return dense_adam_from("adam_optimizer", optimizer.adam_optimizer(), false);
    case Optimizer::kAdamwOptimizer:
      return dense_adam_from("adamw_optimizer", optimizer.adamw_optimizer(), true);
    case Optimizer::kAdadeltaOptimizer: {
      const auto& m = optimizer.adadelta_optimizer();
      return {adadelta_from("adadelta_optimizer", m), m.lr(), 0.0f, m.weight_decay()};
    }
    case Optimizer::kRmspropOptimizer: {
      const auto& m = optimizer.rmsprop_optimizer();
      return {rmsprop_from("rmsprop_optimizer", m), m.lr(), 0.0f, m.weight_decay()};
    }
    default:
      refuse_optimizer(optimizer, owner, kDense);
  }
}

}  // namespace

SparseOptimizerSettings sparse_optimizer_from(const config::SparseOptimizer& optimizer) {
  SparseOptimizerSettings settings = sparse_rule_from(optimizer);
  settings.max_gradient = max_gradient_of(optimizer);
  return settings;
}

DenseOptimizerSettings dense_optimizer_from(const config::DenseOptimizer& optimizer) {
  return dense_from(optimizer, "dense_optimizer");
}

DenseOptimizerSettings dense_optimizer_from(const config::PartOptimizer& optimizer) {
  return dense_from(optimizer, "dense_optimizer.part_optimizers");
}

}  // namespace emblem
