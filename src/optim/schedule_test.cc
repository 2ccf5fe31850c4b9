#include "optim/schedule.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <limits>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;
using testing::ThrowsMessage;

// A schedule around the base rate 0.01 (or `lr`).
std::unique_ptr<Schedule> schedule(const std::string& text, const std::string& lr = "0.01") {
  config::DenseOptimizer message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "sgd_optimizer { lr: " + lr + " } " + text, &message))
      << text;
  return make_schedule(message);
}

std::vector<double> rates(const Schedule& schedule, int64_t steps) {
  std::vector<double> result;
  for (int64_t step = 0; step < steps; ++step) result.push_back(schedule.rate(step, 0));
  return result;
}

// Rates are floats of the configuration.
MATCHER_P(AreRates, expected, "") {
  return testing::ExplainMatchResult(Pointwise(DoubleNear(1e-8), expected), arg, result_listener);
}
using Rates = std::vector<double>;

TEST(Schedule, IsConstantWhenNothingIsSaid) {
  EXPECT_THAT(rates(*schedule(""), 3), AreRates(Rates{0.01, 0.01, 0.01}));
  EXPECT_THAT(rates(*schedule("constant_learning_rate {}"), 3), AreRates(Rates{0.01, 0.01, 0.01}));
}

TEST(Schedule, AlsoComesFromTheSparseOptimizer) {
  config::SparseOptimizer message;
  message.mutable_adagrad_optimizer()->set_lr(0.5f);
  message.mutable_exponential_decay_learning_rate()->set_decay_size(1);
  message.mutable_exponential_decay_learning_rate()->set_decay_factor(0.5f);
  EXPECT_THAT(rates(*make_schedule(message), 3), AreRates(Rates{0.5, 0.25, 0.125}));
}

TEST(Schedule, ExponentialDecayIsAStaircaseByDefault) {
  EXPECT_THAT(
      rates(*schedule("exponential_decay_learning_rate { decay_size: 2 decay_factor: 0.5 }"), 6),
      AreRates(Rates{0.01, 0.01, 0.005, 0.005, 0.0025, 0.0025}));
}

TEST(Schedule, ExponentialDecayIsSmoothWithoutStairs) {
  EXPECT_THAT(rates(*schedule("exponential_decay_learning_rate { decay_size: 2 decay_factor: 0.25 "
                              "staircase: false }"),
                    4),
              AreRates(Rates{0.01, 0.005, 0.0025, 0.00125}));
}

TEST(Schedule, ExponentialDecayWarmsUpAndStopsAtTheMinimum) {
  EXPECT_THAT(
      rates(*schedule(
                "exponential_decay_learning_rate { decay_size: 1 decay_factor: 0.5 warmup_size: 2 "
                "warmup_learning_rate: 0.005 min_learning_rate: 0.002 }"),
            6),
      AreRates(Rates{0.005, 0.0075, 0.01, 0.005, 0.0025, 0.002}));
}

TEST(Schedule, CountsEpochsWhereAsked) {
  const auto s = schedule(
      "exponential_decay_learning_rate { decay_size: 1 decay_factor: 0.5 by_epoch: true }");
  EXPECT_NEAR(s->rate(1000, 0), 0.01, 1e-8);
  EXPECT_NEAR(s->rate(1001, 2), 0.0025, 1e-8);
}

TEST(Schedule, ManualStepsApplyAfterTheirSizes) {
  EXPECT_THAT(rates(*schedule("manual_step_learning_rate { schedule_sizes: [2, 4] learning_rates: "
                              "[0.008, 0.004] }"),
                    7),
              AreRates(Rates{0.01, 0.01, 0.01, 0.008, 0.008, 0.004, 0.004}));
}

TEST(Schedule, ManualStepsWarmUpFromTheBaseToTheFirstRate) {
  EXPECT_THAT(rates(*schedule("manual_step_learning_rate { schedule_sizes: [2, 4] learning_rates: "
                              "[0.008, 0.004] warmup: true }",
                              "0.004"),
                    6),
              AreRates(Rates{0.004, 0.006, 0.008, 0.008, 0.008, 0.004}));
}

TEST(Schedule, CosineAnnealingFallsToTheMinimumAndStays) {
  EXPECT_THAT(rates(*schedule("cosine_annealing_learning_rate { T_max: 4 }"), 7),
              AreRates(Rates{0.01, 0.00853553391, 0.005, 0.00146446609, 0.0, 0.0, 0.0}));
  EXPECT_THAT(rates(*schedule("cosine_annealing_learning_rate { T_max: 2 warmup_size: 2 "
                              "warmup_learning_rate: 0.002 min_learning_rate: 0.001 }"),
                    6),
              AreRates(Rates{0.002, 0.006, 0.01, 0.0055, 0.001, 0.001}));
}

TEST(Schedule, CosineRestartsWithEqualOrGrowingPeriods) {
  EXPECT_THAT(rates(*schedule("cosine_annealing_warm_restarts_learning_rate { T_0: 3 }"), 7),
              AreRates(Rates{0.01, 0.0075, 0.0025, 0.01, 0.0075, 0.0025, 0.01}));
  EXPECT_THAT(
      rates(*schedule("cosine_annealing_warm_restarts_learning_rate { T_0: 2 T_mult: 2 }"), 8),
      AreRates(Rates{0.01, 0.005, 0.01, 0.00853553391, 0.005, 0.00146446609, 0.01, 0.00961939766}));
}

TEST(Schedule, WarmsUpFromZeroHoldsAndDecaysByAPolynomial) {
  EXPECT_THAT(rates(*schedule("warmup_polynomial_decay_learning_rate { warmup_size: 2 decay_start: "
                              "4 decay_size: 4 }",
                              "24"),
                    10),
              AreRates(Rates{0.0, 12.0, 24.0, 24.0, 24.0, 13.5, 6.0, 1.5, 0.0, 0.0}));
  EXPECT_THAT(rates(*schedule("warmup_polynomial_decay_learning_rate { decay_start: 0 decay_size: "
                              "4 power: 1 end_learning_rate: 0.003 }"),
                    6),
              AreRates(Rates{0.01, 0.0075, 0.005, 0.003, 0.003, 0.003}));
}

TEST(Schedule, ARateOfZeroStaysZero) {
  EXPECT_THAT(
      rates(*schedule("cosine_annealing_learning_rate { T_max: 4 min_learning_rate: 0.1 }", "0"),
            2),
      AreRates(Rates{0.0, 0.0}));
}

TEST(Schedule, ReducesOnAPlateauOfTheWatchedMetric) {
  const auto s = schedule(
      "reduce_on_plateau_learning_rate { factor: 0.5 patience: 1 min_learning_rate: 0.003 }");
  s->observe("auc", 0.7);
  s->observe("auc", 0.69);
  s->observe("loss", 0.1);
  EXPECT_NEAR(s->rate(0, 0), 0.01, 1e-8) << "one bad evaluation is within patience";
  s->observe("auc", 0.7);
  EXPECT_NEAR(s->rate(0, 0), 0.005, 1e-8);
  s->observe("auc", 0.8);
  for (int i = 0; i < 2; ++i) s->observe("auc", std::numeric_limits<double>::quiet_NaN());
  EXPECT_NEAR(s->rate(0, 0), 0.003, 1e-8) << "not below the minimum";
}

TEST(Schedule, PlateausOfALossLookDownwards) {
  const auto s = schedule("reduce_on_plateau_learning_rate { metric: 'log_loss' }");
  for (const double loss : {0.5, 0.4, 0.3}) s->observe("log_loss", loss);
  EXPECT_NEAR(s->rate(0, 0), 0.01, 1e-8);
  s->observe("log_loss", 0.3);
  EXPECT_NEAR(s->rate(0, 0), 0.001, 1e-8);
}

TEST(Schedule, PlateausGoOnFromASavedState) {
  const std::string text = "reduce_on_plateau_learning_rate { factor: 0.5 patience: 1 }";
  const auto first = schedule(text), second = schedule(text);
  first->observe("auc", 0.7);
  first->observe("auc", 0.6);
  second->restore(first->state());
  second->observe("auc", 0.65);
  EXPECT_NEAR(second->rate(0, 0), 0.005, 1e-8);
}

TEST(Schedule, SaysWhatIsMissingOrWrong) {
  const auto fails = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { schedule(text); }, ThrowsMessage<Error>(HasSubstr(message))) << text;
  };
  fails("exponential_decay_learning_rate {}",
        "exponential_decay_learning_rate.decay_size is missing");
  fails("exponential_decay_learning_rate { decay_size: 0 }", "decay_size is 0");
  fails("exponential_decay_learning_rate { decay_size: 1 decay_factor: 0 }", "decay_factor is 0");
  fails("manual_step_learning_rate { schedule_sizes: 3 }", "1 schedule_sizes and 0 learning_rates");
  fails("manual_step_learning_rate { schedule_sizes: [3, 2] learning_rates: [1, 2] }",
        "do not ascend");
  fails("cosine_annealing_learning_rate {}", "T_max is missing");
  fails("cosine_annealing_warm_restarts_learning_rate {}", "T_0 is missing");
  fails("cosine_annealing_warm_restarts_learning_rate { T_0: 1 T_mult: 0 }", "T_mult is 0");
  fails("warmup_polynomial_decay_learning_rate { decay_start: 5 }", "decay_size is missing");
  fails("warmup_polynomial_decay_learning_rate { decay_size: 5 }", "decay_start is missing");
  fails("warmup_polynomial_decay_learning_rate { warmup_size: 9 decay_start: 5 decay_size: 1 }",
        "before the end of the warm-up at 9");
  fails("reduce_on_plateau_learning_rate { factor: 1.5 }", "factor is 1.5");
}

}  // namespace
}  // namespace emblem
