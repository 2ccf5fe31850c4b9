#include "optim/from_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

template <class Message>
Message parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}
SparseOptimizerSettings sparse(const std::string& text) {
  return sparse_optimizer_from(parse<config::SparseOptimizer>(text));
}
DenseOptimizerSettings dense(const std::string& text) {
  return dense_optimizer_from(parse<config::DenseOptimizer>(text));
}

TEST(SparseOptimizerFrom, ReadsEveryOptimizer) {
  EXPECT_FLOAT_EQ(std::get<Sgd>(sparse("sgd_optimizer { lr: 0.5 }").rule).learning_rate, 0.5f);
  const auto adagrad = sparse("adagrad_optimizer { lr: 0.1 initial_accumulator_value: 0.25 }");
  EXPECT_FLOAT_EQ(std::get<AdaGrad>(adagrad.rule).epsilon, 1e-8f);
  EXPECT_FLOAT_EQ(adagrad.learning_rate, 0.1f);
  EXPECT_FLOAT_EQ(adagrad.initial_accumulator, 0.25f);
  const auto adam = sparse("adam_optimizer { beta1: 0.8 beta2: 0.9 weight_decay: 0.01 eps: 1e-6 }");
  EXPECT_FLOAT_EQ(std::get<Adam>(adam.rule).beta1, 0.8f);
  EXPECT_FLOAT_EQ(std::get<Adam>(adam.rule).beta2, 0.9f);
  EXPECT_FLOAT_EQ(std::get<Adam>(adam.rule).epsilon, 1e-6f);
  EXPECT_FLOAT_EQ(adam.l2, 0.0f);  // FBGEMM's decay is decoupled
  EXPECT_FLOAT_EQ(std::get<Adam>(adam.rule).decoupled_decay, 0.01f);
  EXPECT_FLOAT_EQ(adam.learning_rate, 0.002f);
  EXPECT_TRUE(std::holds_alternative<RowWiseAdaGrad>(sparse("rowwise_adagrad_optimizer {}").rule));
  EXPECT_FLOAT_EQ(std::get<Momentum>(sparse("momentum_optimizer { momentum: 0.5 }").rule).momentum,
                  0.5f);
  const auto ftrl =
      std::get<Ftrl>(sparse("ftrl_optimizer { lr: 0.1 beta: 2 lambda1: 3 lambda2: 4 }").rule);
  EXPECT_FLOAT_EQ(ftrl.beta, 2.0f);
  EXPECT_FLOAT_EQ(ftrl.l1, 3.0f);
  EXPECT_FLOAT_EQ(ftrl.l2, 4.0f);
}

TEST(SparseOptimizerFrom, ReadsTheOptimizersOfFbgemm) {
  const auto partial = sparse("partial_rowwise_adam_optimizer { beta1: 0.5 weight_decay: 0.1 }");
  EXPECT_FLOAT_EQ(std::get<PartialRowWiseAdam>(partial.rule).beta1, 0.5f);
  EXPECT_FLOAT_EQ(std::get<PartialRowWiseAdam>(partial.rule).decoupled_decay, 0.1f);
  EXPECT_FLOAT_EQ(std::get<AdaDelta>(sparse("adadelta_optimizer {}").rule).rho, 0.95f);
  EXPECT_FLOAT_EQ(sparse("rmsprop_optimizer { weight_decay: 0.2 }").l2, 0.2f);
}

TEST(SparseOptimizerFrom, KnowsTheModesOfWeightDecay) {
  const auto l2 = sparse("rowwise_adagrad_optimizer { weight_decay: 0.1 weight_decay_mode: L2 }");
  EXPECT_FLOAT_EQ(l2.l2, 0.1f);
  EXPECT_FLOAT_EQ(std::get<RowWiseAdaGrad>(l2.rule).decoupled_decay, 0.0f);
  const auto decoupled =
      sparse("rowwise_adagrad_optimizer { weight_decay: 0.1 weight_decay_mode: DECOUPLE }");
  EXPECT_FLOAT_EQ(decoupled.l2, 0.0f);
  EXPECT_FLOAT_EQ(std::get<RowWiseAdaGrad>(decoupled.rule).decoupled_decay, 0.1f);
  EXPECT_THAT([] { sparse("rowwise_adagrad_optimizer { weight_decay: 0.1 }"); },
              ThrowsMessage<Error>(HasSubstr("weight_decay_mode is NONE, which ignores it")));
}

TEST(SparseOptimizerFrom, ReadsTheLimitOfGradients) {
  EXPECT_EQ(sparse("sgd_optimizer { max_gradient: 2 }").max_gradient, 0.0f);
  EXPECT_EQ(sparse("sgd_optimizer { gradient_clipping: true max_gradient: 2 }").max_gradient, 2.0f);
  EXPECT_EQ(sparse("adam_optimizer { gradient_clipping: true }").max_gradient, 1.0f);
  EXPECT_EQ(sparse("ftrl_optimizer {}").max_gradient, 0.0f);
  EXPECT_THAT([] { sparse("sgd_optimizer { gradient_clipping: true max_gradient: 0 }"); },
              ThrowsMessage<Error>(HasSubstr("sgd_optimizer.max_gradient is 0")));
}

TEST(OptimizerFrom, RefusesByNameWhatIsNotSupported) {
  for (const std::string name :
       {"lars_sgd_optimizer", "lamb_optimizer", "partial_rowwise_lamb_optimizer"}) {
    EXPECT_THAT([&] { sparse(name + " {}"); },
                ThrowsMessage<Error>(HasSubstr("sparse_optimizer." + name + " is not supported")));
  }
}

TEST(DenseOptimizerFrom, ReadsTheOptimizersOfTorch) {
  EXPECT_FLOAT_EQ(std::get<AdaDelta>(dense("adadelta_optimizer { rho: 0.8 }").rule).rho, 0.8f);
  EXPECT_FLOAT_EQ(std::get<RmsProp>(dense("rmsprop_optimizer { alpha: 0.8 }").rule).alpha, 0.8f);
  EXPECT_TRUE(std::holds_alternative<AmsGrad>(dense("adam_optimizer { amsgrad: true }").rule));
  const auto adamw = dense("adamw_optimizer { amsgrad: true weight_decay: 0.1 }");
  EXPECT_FLOAT_EQ(std::get<AmsGrad>(adamw.rule).decoupled_decay, 0.1f);
  const auto part = dense_optimizer_from(
      parse<config::PartOptimizer>("regex_pattern: '.*' sgd_optimizer { momentum: 0 lr: 3 }"));
  EXPECT_FLOAT_EQ(part.learning_rate, 3.0f);
}

TEST(DenseOptimizerFrom, ReadsEveryOptimizer) {
  const auto momentum = std::get<Momentum>(dense("sgd_optimizer { lr: 0.1 nesterov: true }").rule);
  EXPECT_FLOAT_EQ(momentum.momentum, 0.9f);
  EXPECT_FLOAT_EQ(momentum.nesterov, 1.0f);
  EXPECT_TRUE(std::holds_alternative<Sgd>(dense("sgd_optimizer { momentum: 0 }").rule));
  EXPECT_FLOAT_EQ(std::get<AdaGrad>(dense("adagrad_optimizer {}").rule).epsilon, 1e-10f);
  const auto adam = dense("adam_optimizer { weight_decay: 0.1 }");
  EXPECT_FLOAT_EQ(adam.weight_decay, 0.1f);
  EXPECT_FLOAT_EQ(std::get<Adam>(adam.rule).decoupled_decay, 0.0f);
}

TEST(DenseOptimizerFrom, AdamWDecaysDecoupledAndNotThroughTheGradient) {
  const auto adamw = dense("adamw_optimizer { weight_decay: 0.1 }");
  EXPECT_FLOAT_EQ(adamw.weight_decay, 0.0f);
  EXPECT_FLOAT_EQ(std::get<Adam>(adamw.rule).decoupled_decay, 0.1f);
}

TEST(OptimizerFrom, SaysWhichOptimizersThereAreWhenNoneIsSet) {
  EXPECT_THAT([] { sparse(""); },
              ThrowsMessage<Error>(
                  HasSubstr("sparse_optimizer names no optimizer; set one of sgd_optimizer")));
  EXPECT_THAT([] { dense(""); },
              ThrowsMessage<Error>(
                  HasSubstr("dense_optimizer names no optimizer; set one of sgd_optimizer")));
}

TEST(OptimizerFrom, RejectsSettingsOutOfRange) {
  EXPECT_THAT([] { sparse("sgd_optimizer { lr: -1 }"); },
              ThrowsMessage<Error>(HasSubstr("sgd_optimizer.lr is -1, but must be 0 or more")));
  EXPECT_THAT([] { dense("adam_optimizer { beta1: 1 }"); },
              ThrowsMessage<Error>(HasSubstr("beta1 is 1")));
  EXPECT_THAT([] { dense("sgd_optimizer { momentum: 1.5 }"); },
              ThrowsMessage<Error>(HasSubstr("momentum is 1.5")));
  EXPECT_THAT([] { dense("sgd_optimizer { momentum: 0 nesterov: true }"); },
              ThrowsMessage<Error>(HasSubstr("nesterov needs a momentum above 0")));
  EXPECT_THAT([] { dense("adagrad_optimizer { weight_decay: -0.1 }"); },
              ThrowsMessage<Error>(HasSubstr("weight_decay is -0.1")));
  EXPECT_THAT([] { sparse("ftrl_optimizer { lr: 0 }"); },
              ThrowsMessage<Error>(HasSubstr("must be above 0")));
}

}  // namespace
}  // namespace emblem
