#include "train/report/train_metrics.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;

std::vector<HeadSpec> heads_with(const std::string& text, HeadKind kind = HeadKind::kBinary) {
  config::TaskTower tower;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &tower)) << text;
  HeadSpec head;
  head.name = tower.tower_name();
  head.kind = kind;
  head.train_metrics.assign(tower.train_metrics().begin(), tower.train_metrics().end());
  return {head};
}

void add(TrainMetrics& metrics, const std::vector<float>& labels,
         const std::vector<float>& logits) {
  Batch batch;
  batch.rows = static_cast<int64_t>(labels.size());
  batch.labels.assign(labels.begin(), labels.end());
  metrics.add(batch, {{logits.data(), batch.rows, 1}});
}

TEST(TrainMetrics, MoveTowardsTheValueOfTheLastSteps) {
  TrainMetrics metrics(heads_with(
      "tower_name: 'time' train_metrics { mean_absolute_error {} decay_rate: 0.75 decay_step: 2 }",
      HeadKind::kNumber));
  add(metrics, {0}, {1});
  EXPECT_THAT(metrics.values(), IsEmpty());
  add(metrics, {0}, {3});
  EXPECT_THAT(metrics.values(), ElementsAre(Pair("mean_absolute_error_time", 2.0)));
  add(metrics, {0}, {6});
  add(metrics, {0}, {6});
  EXPECT_THAT(metrics.values(), ElementsAre(Pair("mean_absolute_error_time", 3.0)));
}

TEST(TrainMetrics, OfAucMoveTheCounts) {
  TrainMetrics metrics(
      heads_with("train_metrics { auc { thresholds: 3 } decay_rate: 0.75 decay_step: 1 }"));
  add(metrics, {1, 0}, {5, -5});  // right
  EXPECT_EQ(metrics.values().at("auc"), 1.0);
  add(metrics, {1, 0}, {-5, 5});  // wrong: counts 0.75 and 0.25
  EXPECT_NEAR(metrics.values().at("auc"), 0.75 * 0.75 + 0.75 * 0.25, 1e-12);
}

TEST(TrainMetrics, RejectWhatTheyCannotDecay) {
  const auto fails = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { TrainMetrics{heads_with(text)}; }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  fails("train_metrics { auc { thresholds: 0 } }", "give a number of thresholds");
  fails("train_metrics { accuracy {} decay_rate: 1 }", "decay_rate is 1");
  fails("train_metrics { accuracy {} decay_step: 0 }", "decay_step is 0");
  fails("train_metrics {}", "names no metric");
  fails("train_metrics { recall_at_k {} }", "scores single rows");
  EXPECT_TRUE(TrainMetrics({}).empty());
}

}  // namespace
}  // namespace emblem
