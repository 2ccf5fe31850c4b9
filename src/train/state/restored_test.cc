// Evaluation and prediction from a checkpoint: bad rows, kept columns, values without a row,
// memory.
#include "train/state/restored.h"

#include <gmock/gmock.h>

#include "checkpoint/checkpoint.h"
#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/text/text.h"
#include "model/check/check.h"
#include "model/layers/probability.h"
#include "train/learner/lookup_report.h"
#include "train/report/run_report.h"
#include "train/state/run_state.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr int kRestoredRows = 600, kBatch = 32;

std::string row_text(int i) {
  const int user = i * 7 % 50;
  return cat(user < 20 || i % 11 == 0 ? 1 : 0, ",a", user, ",", i % 9, ",", i % 70, ",\"n ", i,
             ",\"");
}

std::string bad_row(int i) {
  switch (i % 4) {
    case 0:
      return "x";  // too few columns
    case 1:
      return cat("1,a1,", i % 9, ",old,\"n ", i, ",\"");  // age is no number
    case 2:
      return cat("1,a1,99,20,\"n ", i, ",\"");  // shop is outside of its table
    default:
      return cat("1,a1,2,20,\"n ", i);  // the quote is not closed
  }
}

class RestoredTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("train.csv", file_of([](int i) { return row_text(i); }));
  }

  template <class Row>
  static std::string file_of(Row row, int begin = 0, int end = kRestoredRows) {
    std::string text = "label,user,shop,age,note\n";
    for (int i = begin; i < end; ++i) text += row(i) + "\n";
    return text;
  }

  // Bad rows are at both ends, a whole batch, and here and there.
  static bool is_bad(int i) {
    return i < 2 || i == kRestoredRows - 1 || (i >= 2 * kBatch && i < 3 * kBatch) || i % 17 == 0;
  }
  static std::string mixed_row(int i) { return is_bad(i) ? bad_row(i) : row_text(i); }
  static int bad_count() {
    int count = 0;
    for (int i = 0; i < kRestoredRows; ++i) count += is_bad(i) ? 1 : 0;
    return count;
  }
  // Two files with bad rows, and the same rows without them.
  std::string write_mixed() {
    folder_.write("mixed/1.csv", file_of(mixed_row, 0, 333));
    folder_.write("mixed/2.csv", file_of(mixed_row, 333, kRestoredRows));
    std::string good = file_of(row_text, 0, 0);
    for (int i = 0; i < kRestoredRows; ++i)
      if (!is_bad(i)) good += row_text(i) + "\n";
    folder_.write("good.csv", good);
    return folder_.path("mixed");
  }

  PipelineConfig config(const std::vector<std::string>& changes = {}) const {
    const PipelineConfig config =
        parse_pipeline(cat("train_input_path: '", folder_.path("train.csv"), "' eval_input_path: '",
                           folder_.path("train.csv"), "' model_dir: '", folder_.path("model"), R"('
        train_config { num_epochs: 3 save_checkpoints_steps: 0
                       sparse_optimizer { adam_optimizer { lr: 0.05 } }
                       dense_optimizer { adam_optimizer { lr: 0.01 } } }
        data_config { with_header: true label_fields: "label" fg_mode: FG_DAG num_workers: 2
                      batch_size: )",
                           kBatch, R"( }
        feature_configs { id_feature { feature_name: "user" embedding_dim: 16
                                       dynamicemb { max_capacity: 1000 } } }
        feature_configs { id_feature { feature_name: "shop" embedding_dim: 4 num_buckets: 9 } }
        feature_configs { raw_feature { feature_name: "age" default_value: "0" } }
        model_config {
          feature_groups { group_name: "deep" feature_names: "user" feature_names: "shop" feature_names: "age" }
          dnn { deep { hidden_units: 8 } }
          metrics { auc { thresholds: 0 } } metrics { log_loss {} } })"),
                       "test", changes);
    check_pipeline(config);
    return config;
  }

  RestoredModel restored(const std::vector<std::string>& changes = {}) const {
    return RestoredModel({}, folder_.path("model"), "", changes);
  }

  std::vector<std::string> lines(const std::string& file) const {
    std::vector<std::string> lines = split(read_text_file(folder_.path(file)), '\n');
    EXPECT_EQ(lines.back(), "");
    lines.pop_back();
    return lines;
  }

  TempFolder folder_;
};

TEST_F(RestoredTest, PredictionsHaveALineForEveryRowAndNoneForTheValueOfABadOne) {
  train({}, config(), {});
  const std::string mixed = write_mixed();
  restored().predict(folder_.path("train.csv"), folder_.path("all.csv"));
  const std::vector<std::string> all = lines("all.csv");
  ASSERT_EQ(all.size(), kRestoredRows + 1);
  EXPECT_EQ(all[0], "prediction");
  for (const char* workers : {"1", "3"}) {
    for (const char* batch : {"32", "5", "1000"}) {
      const auto pass =
          restored({"data_config.max_bad_rows=1000", cat("data_config.num_workers=", workers),
                    cat("data_config.eval_batch_size=", batch)})
              .predict(mixed, folder_.path("out.csv"));
      EXPECT_EQ(pass.rows, kRestoredRows - bad_count());
      EXPECT_EQ(pass.bad_rows, bad_count());
      const std::vector<std::string> found = lines("out.csv");
      ASSERT_EQ(found.size(), all.size());
      for (int i = 0; i < kRestoredRows; ++i)
        ASSERT_EQ(found[i + 1], is_bad(i) ? "\"\"" : all[i + 1]) << "row " << i;
    }
  }
}

TEST_F(RestoredTest, KeptColumnsComeBeforeThePredictionAlsoInBadRows) {
  train({}, config(), {});
  const std::string mixed = write_mixed();
  restored().predict(folder_.path("train.csv"), folder_.path("all.csv"));
  const std::vector<std::string> all = lines("all.csv");
  restored({"data_config.max_bad_rows=1000"})
      .predict(mixed, folder_.path("out.csv"), {"note", "user"});
  const std::vector<std::string> found = lines("out.csv");
  ASSERT_EQ(found.size(), all.size());
  EXPECT_EQ(found[0], "note,user,prediction");
  for (int i = 0; i < kRestoredRows; ++i) {
    const bool too_short = is_bad(i) && i % 4 == 0, unclosed = is_bad(i) && i % 4 == 3;
    const std::string note = too_short || unclosed ? "" : cat("\"n ", i, ",\"");
    const std::string user = too_short ? "" : is_bad(i) ? "a1" : cat("a", i * 7 % 50);
    ASSERT_EQ(found[i + 1], cat(note, ",", user, ",", is_bad(i) ? "" : all[i + 1])) << "row " << i;
  }
}

TEST_F(RestoredTest, AnEvaluationSkipsBadRows) {
  train({}, config(), {});
  const std::string mixed = write_mixed();
  const Evaluation good = restored().evaluate(folder_.path("good.csv"));
  const Evaluation found = restored({"data_config.max_bad_rows=1000"}).evaluate(mixed);
  EXPECT_EQ(good.bad_rows, 0);
  EXPECT_EQ(found.bad_rows, bad_count());
  EXPECT_EQ(found.rows, kRestoredRows - bad_count());
  EXPECT_EQ(found.rows, good.rows);
  EXPECT_EQ(found.at("auc"), good.at("auc"));
  EXPECT_NEAR(found.at("log_loss"), good.at("log_loss"), 1e-12);  // other batches, other sums
  for (size_t i = 0; i < good.lookups.size(); ++i)
    EXPECT_EQ(found.lookups[i].counts, good.lookups[i].counts) << good.lookups[i].feature;
  EXPECT_THAT([&] { restored({"data_config.max_bad_rows=3"}).evaluate(mixed); },
              ThrowsMessage<Error>(HasSubstr("max_bad_rows")));
}

TEST_F(RestoredTest, AnEvaluationOfBadRowsAloneIsAnError) {
  train({}, config(), {});
  folder_.write("bad.csv", file_of(bad_row, 0, 8));
  EXPECT_THAT(
      [&] { restored({"data_config.max_bad_rows=8"}).evaluate(folder_.path("bad.csv")); },
      ThrowsMessage<Error>(AllOf(HasSubstr("no rows to evaluate"), HasSubstr("all 8 are bad"))));
}

TEST_F(RestoredTest, ValuesThatTheModelNeverSawAreCountedByFeature) {
  train({}, config(), {});
  const Evaluation known = restored().evaluate(folder_.path("train.csv"));
  EXPECT_THAT(features_to_report(known.lookups), IsEmpty());
  for (const FeatureLookups& one : known.lookups) {
    EXPECT_EQ(one.counts.values, kRestoredRows) << one.feature;
    EXPECT_EQ(one.counts.missing, 0) << one.feature;
  }
  std::string text = read_text_file(folder_.path("train.csv"));
  for (size_t at = 0; (at = text.find(",a", at)) != std::string::npos;) text.replace(at, 2, ",A");
  folder_.write("other.csv", text.replace(text.find(",Age"), 4, ",age"));
  RestoredModel model = restored();
  const Evaluation other = model.evaluate(folder_.path("other.csv"));
  EXPECT_THAT(features_to_report(other.lookups), ElementsAre("user"));
  EXPECT_EQ(missing_share(other.lookups[0].counts), 1.0);
  EXPECT_EQ(other.lookups[1].counts.missing, 0);  // a static table has a row for every id
  const auto pass = model.predict(folder_.path("other.csv"), folder_.path("out.csv"));
  EXPECT_THAT(features_to_report(pass.lookups), ElementsAre("user"));
}

const Table& table_of(const Model& model, std::string_view name) {
  for (const Table* table : model.tables())
    if (table->settings().name == name) return *table;
  throw Error(ErrorCode::kNotFound, std::string(name));
}

TEST_F(RestoredTest, TablesHaveNoOptimizerState) {
  // Rows that are large compared to all else that a table holds; dynamic tables grow in large
  // steps.
  const PipelineConfig wide = config({"feature_configs[1].id_feature.num_buckets=20000",
                                      "feature_configs[1].id_feature.embedding_dim=64"});
  train({}, wide, {});
  const Context context;
  Learner learner(context, wide, layout_of(wide), kBatch);
  load_run(find_checkpoint(folder_.path("model")), learner);
  RestoredModel model = restored();
  for (const char* name : {"user_emb", "shop_emb"}) {
    const Table& trained = table_of(learner.model(), name);
    const Table& evaluated = table_of(model.model(), name);
    EXPECT_EQ(trained.state_floats(), 2 * trained.dim());
    EXPECT_EQ(evaluated.state_floats(), 0);
    EXPECT_EQ(evaluated.size(), trained.size());
    EXPECT_LE(evaluated.bytes(), trained.bytes());
  }
  const auto bytes = static_cast<double>(table_of(learner.model(), "shop_emb").bytes());
  EXPECT_NEAR(static_cast<double>(table_of(model.model(), "shop_emb").bytes()), bytes / 3,
              0.05 * bytes);
}

TEST_F(RestoredTest, PredictionsAreThoseOfTheModelWithOptimizerState) {
  const PipelineConfig trained = config();
  const TrainSummary summary = train({}, trained, {});
  EXPECT_EQ(restored().evaluate("").metrics, summary.evaluation->metrics);

  const Context context;
  const FeatureLayout layout = layout_of(trained);
  Learner learner(context, trained, layout, kBatch);
  load_run(find_checkpoint(folder_.path("model")), learner);
  LoaderOptions loading = evaluation_loader_options(trained);
  std::vector<float> expected;
  for_each_prediction(
      context, learner.model(), trained, layout, loading, World::alone(), {},
      [&](size_t, const Batch& batch, const std::vector<View<const float>>& logits) {
        for (int64_t row = 0; row < batch.rows; ++row)
          expected.push_back(probability_of(logits[0].data[row]));
      });
  restored().predict(folder_.path("train.csv"), folder_.path("out.csv"));
  const std::vector<std::string> found = lines("out.csv");
  ASSERT_EQ(found.size(), expected.size() + 1);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(std::stof(found[i + 1]), expected[i]);
}

}  // namespace
}  // namespace emblem
