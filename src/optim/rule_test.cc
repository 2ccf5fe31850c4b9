#include "optim/rule.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace emblem {
namespace {

using testing::FloatNear;
using testing::Pointwise;

constexpr float kFirst[3] = {0.5f, -1.25f, 2.0f};
constexpr float kGradients[4][3] = {
    {0.1f, -0.2f, 0.3f}, {-0.4f, 0.05f, 1.5f}, {0.25f, 0.25f, -0.75f}, {1e-3f, -2.0f, 0.0f}};

// Four steps from kFirst at rate 0.1, the gradients plus l2 times the weight.
std::vector<float> run(Rule rule, float l2 = 0.0f, float first_state = 0.0f) {
  std::vector<float> weights(kFirst, kFirst + 3), state(state_floats(rule, 3), first_state);
  for (int64_t step = 1; step <= 4; ++step) {
    std::visit(
        [&](const auto& r) {
          if constexpr (!std::decay_t<decltype(r)>::kRowWise) {
            for (int i = 0; i < 3; ++i) {
              r(kGradients[step - 1][i] + l2 * weights[i], weights[i], state.data() + i, 3);
            }
          }
        },
        at_step(rule, 0.1f, step));
  }
  return weights;
}

Momentum momentum(float nesterov, float dampening = 0.0f) {
  Momentum rule;
  rule.nesterov = nesterov;
  rule.dampening = dampening;
  return rule;
}

Adam adam(float beta1, float beta2, float epsilon, float decoupled_decay) {
  Adam rule;
  rule.beta1 = beta1;
  rule.beta2 = beta2;
  rule.epsilon = epsilon;
  rule.decoupled_decay = decoupled_decay;
  return rule;
}

AmsGrad amsgrad(float decoupled_decay) {
  AmsGrad rule;
  rule.beta2 = 0.5f;  // the second moment falls
  rule.decoupled_decay = decoupled_decay;
  return rule;
}

// The expected weights were computed by torch.optim with the same settings.
struct Expected {
  std::string name;
  Rule rule;
  float l2, first_state;
  std::vector<float> weights;
};

class RuleAgainstTorch : public testing::TestWithParam<Expected> {};

TEST_P(RuleAgainstTorch, GivesTheSameWeightsAfterFourSteps) {
  const Expected& expected = GetParam();
  EXPECT_THAT(run(expected.rule, expected.l2, expected.first_state),
              Pointwise(FloatNear(2e-6f), expected.weights));
}

INSTANTIATE_TEST_SUITE_P(
    , RuleAgainstTorch,
    testing::Values(
        Expected{"Sgd", Sgd{}, 0, 0, {0.504900038f, -1.05999994f, 1.8950001f}},
        Expected{"SgdWithL2", Sgd{}, 0.01f, 0, {0.502877951f, -1.05503249f, 1.88732684f}},
        Expected{"Momentum", momentum(0), 0, 0, {0.526410043f, -1.04227006f, 1.6328299f}},
        Expected{"Nesterov", momentum(1), 0, 0, {0.528669f, -0.873043001f, 1.56454706f}},
        Expected{"MomentumWithDampening",
                 momentum(0, 0.5f),
                 0,
                 0,
                 {0.496009976f, -1.11174512f, 1.76483011f}},
        Expected{
            "MomentumWithL2", momentum(0), 0.05f, 0, {0.503776073f, -0.986825109f, 1.54685128f}},
        Expected{"AdaGrad", AdaGrad{0.1f, 1e-10f}, 0, 0, {0.444959253f, -1.15269244f, 1.84596443f}},
        Expected{"AdaGradFromATenth",
                 AdaGrad{0.1f, 1e-10f},
                 0,
                 0.1f,
                 {0.503299952f, -1.16747689f, 1.87843084f}},
        Expected{"Adam", Adam{}, 0, 0, {0.462821603f, -1.07535064f, 1.75636935f}},
        Expected{"AdamWithL2",
                 adam(0.8f, 0.99f, 1e-6f, 0),
                 0.02f,
                 0,
                 {0.452974588f, -1.0565033f, 1.75535846f}},
        Expected{"AdamW",
                 adam(0.9f, 0.999f, 1e-8f, 0.1f),
                 0,
                 0,
                 {0.444937885f, -1.02973771f, 1.68256116f}},
        Expected{"AmsGrad", amsgrad(0), 0, 0, {0.455139339f, -1.09474492f, 1.77758181f}},
        Expected{"AmsGradW", amsgrad(0.1f), 0, 0, {0.437393665f, -1.04905486f, 1.70351434f}},
        Expected{"RmsProp", RmsProp{}, 0, 0, {-0.0521570817f, -0.280884027f, 0.461310238f}},
        Expected{"RmsPropWithL2",
                 RmsProp{0.1f, 0.9f, 1e-6f},
                 0.02f,
                 0,
                 {0.308709413f, -0.903129816f, 1.50643456f}},
        Expected{"AdaDelta", AdaDelta{}, 0, 0, {0.499785066f, -1.24959671f, 1.99952888f}},
        Expected{"AdaDeltaWithL2",
                 AdaDelta{0.1f, 0.95f, 1e-4f},
                 0.02f,
                 0,
                 {0.496876508f, -1.24325776f, 1.99285829f}}),
    [](const auto& info) { return info.param.name; });

TEST(Rule, FtrlFollowsTheFormulaOfItsAuthorsAndKeepsSmallWeightsAtZero) {
  const Ftrl rule{0.1f, 1.0f, 0.05f, 0.2f};
  // From a plain double-precision evaluation of the published recurrences.
  struct Row {
    std::vector<float> gradients;
    float weight, z, n;
  };
  const Row rows[] = {{{0.1f, -0.4f, 0.25f, 1e-3f}, 0.0f, -0.0465731f, 0.232501f},
                      {{-0.2f, 0.05f, 0.25f, -2.0f}, 0.0594321f, -1.8603505f, 4.105f},
                      {{0.02f, 0.01f, -0.005f, 0.0f}, 0.0f, 0.025f, 0.000525f}};
  for (const Row& row : rows) {
    float weight = 0.0f, state[2] = {};
    for (const float gradient : row.gradients) rule(gradient, weight, state, 1);
    EXPECT_NEAR(weight, row.weight, 1e-6f);
    EXPECT_NEAR(state[0], row.z, 1e-5f);
    EXPECT_NEAR(state[1], row.n, 1e-5f);
  }
}

TEST(Rule, RowWiseAdaGradScalesARowByTheRootOfItsSummedMeanSquares) {
  const RowWiseAdaGrad rule{0.1f, 0.0f};
  float state = 0.0f;
  EXPECT_FLOAT_EQ(rule.factor(4.0f, &state), 0.05f);
  EXPECT_FLOAT_EQ(rule.factor(12.0f, &state), 0.025f);
  EXPECT_FLOAT_EQ(state, 16.0f);
}

TEST(Rule, TellsTheStateOfARowAndItsName) {
  EXPECT_EQ(state_floats(Sgd{}, 16), 0);
  EXPECT_EQ(state_floats(Momentum{}, 16), 16);
  EXPECT_EQ(state_floats(RowWiseAdaGrad{}, 16), 1);
  EXPECT_EQ(state_floats(Ftrl{}, 16), 32);
  EXPECT_EQ(state_floats(AmsGrad{}, 16), 48);
  EXPECT_EQ(state_floats(PartialRowWiseAdam{}, 16), 17);
  EXPECT_STREQ(name_of(RowWiseAdaGrad{}), "rowwise_adagrad");
  EXPECT_STREQ(name_of(Ftrl{}), "ftrl");
  EXPECT_STREQ(name_of(AdaDelta{}), "adadelta");
  EXPECT_TRUE(is_row_wise(PartialRowWiseAdam{}));
  EXPECT_FALSE(is_row_wise(RmsProp{}));
}

}  // namespace
}  // namespace emblem
