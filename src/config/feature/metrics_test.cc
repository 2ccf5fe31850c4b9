#include "config/feature/metrics.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include "config/load/load.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MetricDirection, IsKnownForEveryMetric) {
  const auto* metrics = config::MetricConfig::descriptor()->FindOneofByName("metric");
  std::map<MetricDirection, std::vector<std::string>> by_direction;
  for (int i = 0; i < metrics->field_count(); ++i) {
    const std::string& name = metrics->field(i)->name();
    ASSERT_TRUE(direction_of_metric(name)) << name;
    by_direction[*direction_of_metric(name)].push_back(name);
  }
  EXPECT_THAT(by_direction[MetricDirection::kHigherIsBetter],
              ElementsAre("auc", "multiclass_auc", "recall_at_k", "accuracy", "grouped_auc", "xauc",
                          "grouped_xauc", "ndcg_at_k"));
  EXPECT_THAT(
      by_direction[MetricDirection::kLowerIsBetter],
      ElementsAre("mean_absolute_error", "mean_squared_error", "normalized_entropy", "log_loss"));
  EXPECT_THAT(by_direction[MetricDirection::kNone],
              ElementsAre("calibration", "mean_label", "mean_prediction"));
}

TEST(MetricDirection, OfASecondAucIsThatOfTheFirst) {
  EXPECT_EQ(direction_of_metric("auc_8000"), MetricDirection::kHigherIsBetter);
  EXPECT_EQ(direction_of_metric("auc_exact"), MetricDirection::kHigherIsBetter);
  EXPECT_EQ(direction_of_metric("loss"), std::nullopt);
  EXPECT_EQ(direction_of_metric("aucs"), std::nullopt);
  EXPECT_TRUE(lower_is_better("log_loss"));
  EXPECT_FALSE(lower_is_better("calibration"));
}

TEST(MetricDirection, OfATowerIsThatOfItsMetricOrLoss) {
  for (const char* name : {"auc_ctr", "grouped_auc_ctr", "ndcg@10_ctr", "recall@5", "xauc_time"})
    EXPECT_EQ(direction_of_metric(name), MetricDirection::kHigherIsBetter) << name;
  for (const char* name : {"log_loss_ctr", "binary_cross_entropy", "l2_loss_time", "jrc_loss_cvr",
                           "mean_absolute_error_time"})
    EXPECT_EQ(direction_of_metric(name), MetricDirection::kLowerIsBetter) << name;
  EXPECT_EQ(direction_of_metric("mean_label_ctr"), MetricDirection::kNone);
}

HeadSpec head(HeadKind kind, int64_t classes = 1) {
  HeadSpec spec;
  spec.kind = kind;
  spec.classes = classes;
  spec.losses.emplace_back().mutable_binary_cross_entropy();
  return spec;
}

TEST(MetricNames, FollowTheKindOfTheHeadUnlessSomeAreListed) {
  EXPECT_THAT(metric_names(head(HeadKind::kBinary)), ElementsAre("auc", "log_loss"));
  EXPECT_THAT(metric_names(head(HeadKind::kClass, 2)), ElementsAre("auc", "log_loss"));
  EXPECT_THAT(metric_names(head(HeadKind::kClass, 3)), ElementsAre("accuracy", "log_loss"));
  EXPECT_THAT(metric_names(head(HeadKind::kNumber)),
              ElementsAre("mean_absolute_error", "mean_squared_error"));
}

TEST(MetricNames, OfTowersEndInTheirNameAndIncludeTheLosses) {
  HeadSpec ctr = head(HeadKind::kBinary), cvr = ctr;
  ctr.name = "ctr";
  cvr.name = "cvr";
  ctr.metrics.emplace_back().mutable_auc();
  ctr.metrics.emplace_back().mutable_auc()->set_thresholds(0);
  ctr.metrics.emplace_back().mutable_ndcg_at_k()->set_top_k(5);
  EXPECT_THAT(metric_names(std::vector<HeadSpec>{ctr, cvr}),
              ElementsAre("auc_ctr", "auc_exact_ctr", "ndcg@5_ctr", "binary_cross_entropy_ctr",
                          "auc_cvr", "log_loss_cvr"));
  ctr.metrics.emplace_back().mutable_auc()->set_thresholds(0);
  EXPECT_THAT([&] { metric_names(ctr); },
              ThrowsMessage<Error>(HasSubstr("is configured twice in the metrics of tower ctr")));
}

void require_watchable_metrics(const PipelineConfig& config,
                               const std::vector<std::string>& own = {}) {
  require_watchable_metrics(heads_of(config, {}), config.train_config(), own);
}

PipelineConfig pipeline(const std::string& train, const std::string& metrics = "") {
  return parse_pipeline("train_config { " + train + " } model_config { " + metrics + " }", "test");
}

TEST(WatchedMetrics, MustBeEvaluated) {
  EXPECT_NO_THROW(require_watchable_metrics(pipeline("early_stopping { metric: 'log_loss' }")));
  EXPECT_THAT([] { require_watchable_metrics(pipeline("early_stopping { metric: 'acc' }")); },
              ThrowsMessage<Error>("train_config.early_stopping.metric is \"acc\", but evaluations "
                                   "report auc, log_loss; watch one of these, or add it to "
                                   "model_config.metrics"));
  EXPECT_THAT(
      [] {
        require_watchable_metrics(pipeline("dense_optimizer { reduce_on_plateau_learning_rate {} }",
                                           "metrics { log_loss {} }"));
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("train_config.dense_optimizer.reduce_on_plateau_learning_rate.metric is "
                          "\"auc\""),
                HasSubstr("evaluations report log_loss;"))));
  EXPECT_THAT(
      [] {
        require_watchable_metrics(
            pipeline("sparse_optimizer { reduce_on_plateau_learning_rate { metric: 'nothing' } }"));
      },
      ThrowsMessage<Error>(HasSubstr("sparse_optimizer.reduce_on_plateau_learning_rate.metric")));
}

TEST(WatchedMetrics, MayBeOfTheCallerWhereHigherIsBetterIsSet) {
  EXPECT_NO_THROW(require_watchable_metrics(
      pipeline("early_stopping { metric: 'mine' higher_is_better: false }"), {"mine"}));
  EXPECT_THAT(
      [] { require_watchable_metrics(pipeline("early_stopping { metric: 'mine' }"), {"mine"}); },
      ThrowsMessage<Error>("train_config.early_stopping.metric is \"mine\", a metric of one's own; "
                           "set higher_is_better to true or false"));
}

TEST(WatchedMetrics, MustHaveABetterDirection) {
  EXPECT_THAT(
      [] {
        require_watchable_metrics(
            pipeline("early_stopping { metric: 'calibration' }", "metrics { calibration {} }"));
      },
      ThrowsMessage<Error>(HasSubstr("neither a higher nor a lower value is better")));
}

std::string train_verdict(const std::string& train) {
  try {
    check_metric_watchers(pipeline(train).train_config());
  } catch (const Error& error) {
    return error.what();
  }
  return "fine";
}

TEST(MetricWatchers, FollowTheDirectionOfTheirMetric) {
  EXPECT_EQ(train_verdict("early_stopping { metric: 'log_loss' }"), "fine");
  EXPECT_EQ(train_verdict("early_stopping { metric: 'log_loss' higher_is_better: false }"), "fine");
  EXPECT_EQ(train_verdict("early_stopping { metric: 'auc' higher_is_better: true }"), "fine");
  EXPECT_EQ(train_verdict("early_stopping { metric: 'log_loss' higher_is_better: true }"),
            "train_config.early_stopping.higher_is_better is true, but lower log_loss is better; "
            "remove higher_is_better, it follows from the metric");
  EXPECT_EQ(train_verdict("sparse_optimizer { reduce_on_plateau_learning_rate { metric: 'auc' "
                          "higher_is_better: false } }"),
            "train_config.sparse_optimizer.reduce_on_plateau_learning_rate.higher_is_better is "
            "false, but higher auc is better; remove higher_is_better, it follows from the metric");
}

TEST(MetricWatchers, HaveSettingsInRange) {
  EXPECT_THAT(train_verdict("early_stopping { patience: 0 }"),
              HasSubstr("early_stopping.patience is 0, expected at least 1"));
  EXPECT_THAT(train_verdict("early_stopping { min_delta: -0.1 }"),
              HasSubstr("early_stopping.min_delta is -0.1, expected at least 0"));
  EXPECT_THAT(train_verdict("early_stopping { min_delta: nan }"), HasSubstr("min_delta is nan"));
  const auto plateau = [](const std::string& settings) {
    return train_verdict("dense_optimizer { reduce_on_plateau_learning_rate { " + settings +
                         " } }");
  };
  EXPECT_EQ(plateau("patience: 0"), "fine");
  EXPECT_THAT(plateau("factor: 1"), HasSubstr("factor is 1, expected more than 0 and less than 1"));
  EXPECT_THAT(plateau("factor: 0"), HasSubstr("factor is 0"));
  EXPECT_THAT(plateau("min_delta: -1"), HasSubstr("min_delta is -1"));
  EXPECT_THAT(plateau("min_learning_rate: -1"), HasSubstr("min_learning_rate is -1"));
}

}  // namespace
}  // namespace emblem
