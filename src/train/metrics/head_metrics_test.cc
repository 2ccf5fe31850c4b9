#include "train/metrics/head_metrics.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cmath>

#include "model/layers/probability.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// `text` is that of a task tower.
HeadSpec head_with(const std::string& text, HeadKind kind = HeadKind::kBinary,
                   int64_t classes = 1) {
  config::TaskTower tower;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &tower)) << text;
  HeadSpec head;
  head.name = tower.tower_name();
  head.kind = kind;
  head.classes = classes;
  head.losses.assign(tower.losses().begin(), tower.losses().end());
  head.metrics.assign(tower.metrics().begin(), tower.metrics().end());
  head.weight = tower.weight();
  return head;
}

FeatureLayout layout() {
  FeatureLayout layout;
  FeatureSpec user, age, part;
  user.name = "user";
  user.kind = FeatureKind::kSparse;
  user.sparse_index = 0;
  age.name = "age";
  age.kind = FeatureKind::kDense;
  part.name = part.settings.name = "part";
  part.kind = FeatureKind::kSparse;
  part.is_intermediate = part.settings.stub_type = true;
  layout.features = {user, age, part};
  return layout;
}

// Two labels per row; the third row is bad.
Batch head_batch(std::vector<float> labels, std::vector<int64_t> users) {
  Batch batch;
  batch.rows = static_cast<int64_t>(users.size());
  batch.labels.assign(labels.begin(), labels.end());
  batch.resize_sparse(1);
  batch.sparse[0].keys.assign(users.begin(), users.end());
  batch.bad.assign(users.size(), 0);
  return batch;
}

double value_of(HeadMetrics& metrics, const std::string& name) {
  for (size_t i = 0; i < metrics.names().size(); ++i)
    if (metrics.names()[i] == name) return metrics.value(i);
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

void expect_refused(const HeadSpec& head, const std::string& message) {
  EXPECT_THAT([&] { HeadMetrics(head, layout()); }, ThrowsMessage<Error>(HasSubstr(message)));
}

TEST(HeadMetrics, ReadTheLabelOfTheirHeadAndSkipBadRows) {
  HeadSpec head = head_with(
      "tower_name: 'cvr' metrics { mean_label {} } metrics { auc {} } "
      "losses { binary_cross_entropy {} }");
  head.label = 1;
  HeadMetrics metrics(head, layout());
  EXPECT_THAT(metrics.names(),
              ElementsAre("mean_label_cvr", "auc_cvr", "binary_cross_entropy_cvr"));
  Batch batch = head_batch({0, 1, 0, 0, 0, 1, 0, 1}, {1, 2, 3, 4});
  batch.bad[2] = 1;
  const std::vector<float> logits = {1.0f, -1.0f, NAN, 2.0f};
  metrics.add(batch, {logits.data(), 4, 1});
  EXPECT_NEAR(value_of(metrics, "mean_label_cvr"), 2.0 / 3, 1e-12);
  EXPECT_EQ(value_of(metrics, "auc_cvr"), 1.0);
  const double loss =
      (std::log1p(std::exp(-1.0)) + std::log1p(std::exp(-1.0)) + std::log1p(std::exp(-2.0))) / 3;
  EXPECT_NEAR(value_of(metrics, "binary_cross_entropy_cvr"), loss, 1e-12);
  EXPECT_EQ(metrics.only_label(), std::nullopt);
}

TEST(HeadMetrics, DoNotCountRowsWithoutTheirLabel) {
  const std::string text =
      "tower_name: 't' metrics { mean_label {} } metrics { grouped_auc { grouping_key: 'user' } } "
      "losses { binary_cross_entropy {} }";
  HeadSpec head = head_with(text);
  head.label = 1;
  head.indicator = 0;
  head.in_space = 2.0f;
  HeadMetrics metrics(head, layout()), without(head, layout());
  metrics.add(head_batch({0, 1, 1, NAN, NAN, 0, 1, 1}, {1, 1, 1, 1}),
              {std::vector<float>{1, 9, 3, 2}.data(), 4, 1});
  without.add(head_batch({0, 1, NAN, 0, 1, 1}, {1, 1, 1}),
              {std::vector<float>{1, 3, 2}.data(), 3, 1});
  for (size_t i = 0; i < metrics.names().size(); ++i)
    EXPECT_EQ(metrics.value(i), without.value(i)) << metrics.names()[i];
}

TEST(HeadMetrics, AreWeightedBySampleWeightsAndLossesByTheTaskSpaceToo) {
  HeadSpec head =
      head_with("metrics { mean_label {} } losses { binary_cross_entropy {} } weight: 3");
  head.name = "t";
  head.sample_weight = 1;
  head.indicator = 1;
  head.in_space = 1.0f;
  head.out_space = 0.0f;
  HeadMetrics metrics(head, layout());
  Batch batch = head_batch({1, 1, 1, 0, 0, 1}, {1, 2, 3});
  batch.sample_weights = {9, 1, 9, 2, 9, 5};
  const std::vector<float> logits = {0.0f, 5.0f, -1.0f};
  metrics.add(batch, {logits.data(), 3, 1});
  EXPECT_NEAR(value_of(metrics, "mean_label_t"), 3.0 / 8, 1e-12);
  const double loss = (1 * std::log(2.0) + 5 * std::log1p(std::exp(-1.0))) / 6;
  EXPECT_NEAR(value_of(metrics, "binary_cross_entropy_t"), 3 * loss, 1e-7);
}

TEST(HeadMetrics, OfTwoClassesUseTheProbabilityOfTheSecond) {
  HeadMetrics metrics(head_with("metrics { auc {} } metrics { mean_prediction {} } "
                                "metrics { normalized_entropy {} } metrics { accuracy {} }",
                                HeadKind::kClass, 2),
                      layout());
  const Batch batch = head_batch({1, 0, 1}, {1, 2, 3});
  const std::vector<float> logits = {1, 3, 2, 0, -1, 0};
  metrics.add(batch, {logits.data(), 3, 2});
  EXPECT_EQ(value_of(metrics, "auc"), 1.0);
  EXPECT_EQ(value_of(metrics, "accuracy"), 1.0);
  EXPECT_NEAR(value_of(metrics, "mean_prediction"),
              (probability_of(2) + probability_of(-2) + probability_of(1)) / 3, 1e-7);
}

TEST(HeadMetrics, OfManyClassesAndOfNumbers) {
  HeadMetrics classes(head_with("metrics { multiclass_auc { average: 'weighted' } } "
                                "metrics { accuracy { top_k: 2 } } metrics { log_loss {} }",
                                HeadKind::kClass, 3),
                      layout());
  const Batch batch = head_batch({2, 0}, {1, 2});
  const std::vector<float> logits = {0, 1, 2, 0, 3, 1};
  classes.add(batch, {logits.data(), 2, 3});
  EXPECT_EQ(value_of(classes, "accuracy"), 0.5);
  EXPECT_EQ(value_of(classes, "multiclass_auc"), 0.5);  // class 2 right, class 0 wrong
  HeadMetrics numbers(head_with("metrics { mean_squared_error {} } metrics { xauc {} } "
                                "losses { l2_loss {} }",
                                HeadKind::kNumber),
                      layout());
  const std::vector<float> values = {3.0f, 0.5f};
  numbers.add(batch, {values.data(), 2, 1});
  EXPECT_NEAR(value_of(numbers, "mean_squared_error"), (1 + 0.25) / 2, 1e-12);
  EXPECT_EQ(value_of(numbers, "l2_loss"), value_of(numbers, "mean_squared_error"));
  EXPECT_EQ(value_of(numbers, "xauc"), 1.0);
}

TEST(HeadMetrics, OfDomainsReadTheLogitsOfTheRowsDomain) {
  HeadSpec head = head_with("metrics { mean_prediction {} }");
  head.domains = 2;
  head.domain = 1;
  HeadMetrics metrics(head, layout());
  const Batch batch = head_batch({1, 1, 0, 0}, {1, 2});
  const std::vector<float> logits = {7, 0, 0, 7};
  metrics.add(batch, {logits.data(), 2, 2});
  EXPECT_EQ(value_of(metrics, "mean_prediction"), 0.5);
}

TEST(HeadMetrics, GroupByFeaturesOfTheirOwn) {
  HeadMetrics metrics(head_with("metrics { grouped_auc { grouping_key: 'user' } } "
                                "metrics { ndcg_at_k { top_k: 1 grouping_key: 'user' } }"),
                      layout());
  const Batch batch = head_batch({1, 0, 1, 0}, {7, 7, 9, 9});
  const std::vector<float> logits = {1, 0, 0, 1};
  metrics.add(batch, {logits.data(), 4, 1});
  EXPECT_EQ(value_of(metrics, "grouped_auc"), 0.5);
  EXPECT_EQ(value_of(metrics, "ndcg@1"), 0.5);
}

TEST(HeadMetrics, SayWhatTheHeadCannotGive) {
  expect_refused(head_with("metrics { auc {} }", HeadKind::kNumber),
                 "metric auc is for labels 0 and 1; use mean_squared_error");
  expect_refused(head_with("metrics { auc {} }", HeadKind::kClass, 3),
                 "use multiclass_auc or accuracy");
  expect_refused(head_with("metrics { multiclass_auc {} }"), "is for num_class of at least 2");
  expect_refused(head_with("metrics { multiclass_auc { average: 'micro' } }", HeadKind::kClass, 3),
                 "has average: \"micro\", expected macro or weighted");
  expect_refused(head_with("metrics { xauc {} }", HeadKind::kClass, 3), "needs one number per row");
  expect_refused(head_with("metrics { recall_at_k {} }"), "this model scores single rows");
  expect_refused(head_with("metrics {}"), "names no metric; expected one of auc");
  expect_refused(head_with("metrics { grouped_auc {} }"), "has no grouping_key");
  expect_refused(head_with("metrics { grouped_auc { grouping_key: 'age' } }"),
                 "which is a numeric feature");
  expect_refused(head_with("metrics { grouped_auc { grouping_key: 'nobody' } }"),
                 "metric grouped_auc has grouping_key \"nobody\": there is no feature");
  expect_refused(head_with("metrics { grouped_auc { grouping_key: 'part' } }"),
                 "feature \"part\" has stub_type: true, so that only other features read it");
  expect_refused(head_with("metrics { accuracy { top_k: 3 } }", HeadKind::kClass, 3),
                 "has top_k: 3, but there are 3 classes");
  expect_refused(head_with("losses { jrc_loss {} } metrics { auc {} }", HeadKind::kClass, 2),
                 "has no session_name");
}

TEST(HeadMetrics, KnowWhenAllLabelsAreEqual) {
  HeadMetrics metrics(head_with(""), layout());
  const std::vector<float> logits = {1, 0};
  metrics.add(head_batch({0, 0}, {1, 2}), {logits.data(), 2, 1});
  EXPECT_EQ(metrics.only_label(), 0.0f);
  EXPECT_TRUE(std::isnan(value_of(metrics, "auc")));
}

TEST(HeadMetrics, ABatchOfBadRowsAddsNothing) {
  const HeadSpec heads[] = {
      head_with("metrics { accuracy {} } losses { softmax_cross_entropy {} }", HeadKind::kClass, 3),
      head_with("metrics { auc {} } losses { jrc_loss { session_name: 'user' } }", HeadKind::kClass,
                2)};
  for (const HeadSpec& head : heads) {
    HeadMetrics metrics(head, layout());
    Batch batch = head_batch({0, 1}, {1, 1});
    const std::vector<float> logits = {0.5f, 0.25f, 1.0f, -1.0f, 0.0f, 2.0f};
    batch.bad = {1, 1};
    metrics.add(batch, {logits.data(), 2, head.classes});
    EXPECT_TRUE(std::isnan(metrics.value(0)));
    batch.bad = {0, 0};
    metrics.add(batch, {logits.data(), 2, head.classes});
    EXPECT_FALSE(std::isnan(metrics.value(0)));
  }
}

const char* const kSavedHead =
    "tower_name: 'ctr' metrics { auc {} } metrics { grouped_auc { grouping_key: 'user' } } "
    "metrics { mean_label {} } losses { binary_cross_entropy {} }";

TEST(HeadMetrics, AsBytesMergeTheSameAndKnowTheOnlyLabel) {
  const HeadSpec head = head_with(kSavedHead);
  const std::vector<float> logits = {1.0f, -1.0f, 0.5f, 2.0f};
  HeadMetrics ones(head, layout()), zeros(head, layout()), all(head, layout());
  ones.add(head_batch({1, 1, 1, 1}, {1, 2, 1, 2}), {logits.data(), 4, 1});
  zeros.add(head_batch({0, 0, 0}, {1, 2, 3}), {logits.data() + 1, 3, 1});
  for (HeadMetrics* part : {&ones, &zeros}) {
    HeadMetrics copy(head, layout());
    copy.restore(part->to_bytes());
    EXPECT_EQ(copy.only_label(), part == &ones ? 1.0f : 0.0f);
    all.merge(copy);
  }
  EXPECT_EQ(all.only_label(), std::nullopt);
  ones.merge(zeros);
  for (size_t i = 0; i < all.names().size(); ++i) EXPECT_EQ(all.value(i), ones.value(i));
  EXPECT_EQ(value_of(all, "mean_label_ctr"), 4.0 / 7);
}

TEST(HeadMetrics, DamagedBytesAreRefused) {
  const HeadSpec head = head_with(kSavedHead);
  HeadMetrics metrics(head, layout());
  const std::vector<float> logits = {1.0f, -1.0f};
  metrics.add(head_batch({1, 0}, {1, 1}), {logits.data(), 2, 1});
  const std::string bytes = metrics.to_bytes();
  const auto code_of = [&](const std::string& damaged) {
    try {
      HeadMetrics(head, layout()).restore(damaged);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(code_of(damaged), ErrorCode::kCorruption) << at;
    EXPECT_EQ(code_of(bytes.substr(0, at)), ErrorCode::kCorruption) << at;
  }
  EXPECT_EQ(code_of(bytes + "x"), ErrorCode::kCorruption);
}

TEST(HeadMetrics, BytesOfOtherMetricsAreRefused) {
  HeadMetrics metrics(head_with(kSavedHead), layout());
  const HeadMetrics fewer(head_with("metrics { auc {} }"), layout());
  const HeadMetrics other(
      head_with("tower_name: 'cvr' metrics { auc {} } metrics { mean_label {} } "
                "metrics { log_loss {} } losses { binary_cross_entropy {} }"),
      layout());
  EXPECT_THAT([&] { metrics.restore(fewer.to_bytes()); },
              ThrowsMessage<Error>(HasSubstr("1 metrics, not 4")));
  EXPECT_THAT([&] { metrics.restore(other.to_bytes()); },
              ThrowsMessage<Error>(HasSubstr("metric auc_cvr in place of auc_ctr")));
  EXPECT_THROW(metrics.merge(other), Error);
}

}  // namespace
}  // namespace emblem
