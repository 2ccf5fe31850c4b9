#include "metric/metric.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Metrics, RejectSpansOfDifferentLengths) {
  const auto metric = make_log_loss();
  const std::vector<float> two = {0.5f, 0.5f}, three = {1, 0, 1};
  EXPECT_THAT([&] { metric->add({.predictions = two, .labels = three}); },
              ThrowsMessage<Error>(HasSubstr("3 labels for 2 predictions")));
  EXPECT_THAT([&] { metric->add({.predictions = two, .labels = two, .weights = three}); },
              ThrowsMessage<Error>(HasSubstr("3 weights for 2 predictions")));
}

TEST(Metrics, RejectNumbersThatAreNotFiniteAndAddNothing) {
  const auto metric = make_mean_prediction();
  const std::vector<float> good = {0.25f, 0.75f};
  metric->add({.predictions = good, .labels = good});
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    const std::vector<float> values = {0.5f, bad};
    EXPECT_THAT([&] { metric->add({.predictions = values, .labels = good}); },
                ThrowsMessage<Error>(HasSubstr("the prediction of row 1 of the batch is")));
    EXPECT_THAT([&] { metric->add({.predictions = good, .labels = values}); },
                ThrowsMessage<Error>(HasSubstr("the label of row 1")));
    EXPECT_THAT([&] { metric->add({.predictions = good, .labels = good, .logits = values}); },
                ThrowsMessage<Error>(HasSubstr("the logit of row 1")));
    EXPECT_THAT([&] { metric->add({.predictions = good, .labels = good, .weights = values}); },
                ThrowsMessage<Error>(HasSubstr("the weight of row 1")));
  }
  EXPECT_EQ(metric->value(), 0.5);
}

TEST(Metrics, RejectNegativeWeights) {
  const auto metric = make_mean_prediction();
  const std::vector<float> one = {1}, minus = {-1};
  EXPECT_THAT([&] { metric->add({.predictions = one, .labels = one, .weights = minus}); },
              ThrowsMessage<Error>(HasSubstr("must not be negative")));
}

TEST(Metrics, RefuseToMergeDifferentKinds) {
  EXPECT_THAT([] { make_exact_auc()->merge(*make_log_loss()); },
              ThrowsMessage<Error>(HasSubstr("cannot merge metric log_loss into auc")));
}

}  // namespace
}  // namespace emblem
