#include "data/synth/synth.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/threads/thread_pool.h"
#include "data/format/reader.h"
#include "data/synth/planted_truth.h"
#include "data/synth/score_summary.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

SynthShape small_shape() {
  SynthShape shape;
  shape.num_dense = 3;
  shape.cardinalities = {500, 40, 20, 2};
  return shape;
}

std::vector<SynthRow> rows_of(const SynthModel& model, SynthSplit split, int64_t count) {
  std::vector<SynthRow> rows(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) model.draw(split, i, rows[i]);
  return rows;
}

double plain_auc(const std::vector<SynthRow>& rows) {
  double won = 0, pairs = 0;
  for (const SynthRow& positive : rows) {
    if (positive.label == 0) continue;
    for (const SynthRow& negative : rows) {
      if (negative.label != 0) continue;
      ++pairs;
      won += positive.logit > negative.logit ? 1 : positive.logit == negative.logit ? 0.5 : 0;
    }
  }
  return won / pairs;
}

TEST(ScoreSummaryTest, AgreesWithAPlainComputation) {
  const auto rows = rows_of(SynthModel(small_shape()), SynthSplit::kTest, 3000);
  ScoreSummary summary;
  double loss = 0, positives = 0;
  for (const SynthRow& row : rows) {
    summary.add(row.logit, row.label);
    const double p = 1 / (1 + std::exp(-row.logit));
    loss -= std::log(row.label != 0 ? p : 1 - p) / 3000;
    positives += row.label;
  }
  EXPECT_NEAR(summary.auc(), plain_auc(rows), 1e-5);
  EXPECT_NEAR(summary.log_loss(), loss, 1e-12);
  EXPECT_DOUBLE_EQ(summary.label_mean(), positives / 3000);
}

TEST(ScoreSummaryTest, CountsTiesAsHalfAndHoldsAnyLogit) {
  ScoreSummary summary;
  EXPECT_EQ(summary.auc(), 0.5);
  summary.add(0.25, 1);
  summary.add(0.25, 0);
  EXPECT_EQ(summary.auc(), 0.5);
  summary.add(1e6, 1);
  summary.add(-1e6, 0);
  EXPECT_DOUBLE_EQ(summary.auc(), 3.5 / 4);
  EXPECT_TRUE(std::isfinite(summary.log_loss()));
}

TEST(SynthModelTest, LimitAndMeanLabelAreLikeCriteosForEveryShape) {
  std::vector<SynthShape> shapes(4, small_shape());
  shapes[1].num_dense = 0;
  shapes[2].cardinalities = {};
  shapes[3].seed = 99;
  shapes[3].missing_dense = 0.3;
  for (const SynthShape& shape : shapes) {
    const SynthModel model(shape);
    ScoreSummary summary;
    for (const SynthRow& row : rows_of(model, SynthSplit::kTrain, 30'000))
      summary.add(row.logit, row.label);
    EXPECT_NEAR(summary.label_mean(), 0.25, 0.02) << shape.seed;
    // The sum of a handful of effects is less like a normal distribution than that of many.
    EXPECT_GT(summary.auc(), 0.74) << shape.seed;
    EXPECT_LT(summary.auc(), 0.84) << shape.seed;
  }
}

TEST(SynthModelTest, LabelsFollowTheProbabilities) {
  // Calibration: among rows with a probability near p, a share p is positive.
  std::map<int, std::pair<double, double>> bins;
  double rows_in_bin[10] = {};
  for (const SynthRow& row : rows_of(SynthModel(small_shape()), SynthSplit::kTrain, 60'000)) {
    const double p = 1 / (1 + std::exp(-row.logit));
    const int bin = std::min(9, static_cast<int>(p * 10));
    bins[bin].first += p;
    bins[bin].second += row.label;
    ++rows_in_bin[bin];
  }
  for (const auto& [bin, sums] : bins) {
    if (rows_in_bin[bin] < 500) continue;
    EXPECT_NEAR(sums.first / rows_in_bin[bin], sums.second / rows_in_bin[bin],
                3.5 * 0.5 / std::sqrt(rows_in_bin[bin]));
  }
}

TEST(SynthModelTest, KeysFollowThePowerLawAndCountsHaveHeavyTails) {
  SynthShape shape = small_shape();
  shape.missing_dense = 0.1;
  shape.missing_sparse = 0.2;
  const SynthModel model(shape);
  const auto rows = rows_of(model, SynthSplit::kTrain, 40'000);
  double first = 0, tenth = 0, missing_keys = 0, missing_counts = 0;
  std::vector<float> counts;
  for (const SynthRow& row : rows) {
    first += row.ranks[0] == 0;
    tenth += row.ranks[0] == 9;
    missing_keys += row.ranks[1] < 0;
    missing_counts += std::isnan(row.dense[1]);
    if (!std::isnan(row.dense[0])) counts.push_back(row.dense[0]);
  }
  EXPECT_NEAR(first / tenth, std::pow(10, 1.05), 2.0);
  EXPECT_NEAR(missing_keys / 40'000, 0.2, 0.01);
  EXPECT_NEAR(missing_counts / 40'000, 0.1, 0.01);
  std::sort(counts.begin(), counts.end());
  EXPECT_GE(counts.front(), 0);
  EXPECT_GT(counts[counts.size() * 99 / 100], 5 * counts[counts.size() / 2]);
  EXPECT_EQ(counts.back(), std::floor(counts.back()));
}

TEST(SynthModelTest, SplitsDifferAndTheTruthDoesNotDependOnTheOrderOfDrawing) {
  const SynthModel model(small_shape());
  SynthRow late, early, test;
  model.draw(SynthSplit::kTrain, 1000, late);
  model.draw(SynthSplit::kTrain, 0, early);
  model.draw(SynthSplit::kTest, 1000, test);
  SynthRow again;
  model.draw(SynthSplit::kTrain, 1000, again);
  EXPECT_EQ(again.logit, late.logit);
  EXPECT_EQ(again.ranks, late.ranks);
  EXPECT_NE(test.logit, late.logit);
}

TEST(SynthModelTest, RejectsShapesThatMakeNoSense) {
  const auto message = [](auto change) {
    SynthShape shape = small_shape();
    change(shape);
    return [shape] { SynthModel model(shape); };
  };
  EXPECT_THAT(message([](SynthShape& s) { s.alpha = -1; }),
              ThrowsMessage<Error>(HasSubstr("alpha is -1")));
  EXPECT_THAT(message([](SynthShape& s) { s.cardinalities[1] = 0; }),
              ThrowsMessage<Error>(HasSubstr("the cardinality of C2 is 0")));
  EXPECT_THAT(message([](SynthShape& s) { s.missing_dense = 1; }),
              ThrowsMessage<Error>(HasSubstr("share of missing")));
  EXPECT_THAT(message([](SynthShape& s) { s.num_dense = 0, s.cardinalities.clear(); }),
              ThrowsMessage<Error>(HasSubstr("at least one dense or sparse column")));
}

class SynthTest : public testing::Test {
 protected:
  SynthOptions options(const std::string& name, const std::string& format = "tsv") const {
    SynthOptions options;
    options.out = folder_.path(name);
    options.format = format;
    options.rows = 10'000;
    options.test_rows = 3'000;
    options.scale = 0.01;
    return options;
  }
  std::string bytes(const std::string& name) const { return read_text_file(folder_.path(name)); }
  nlohmann::json metadata(const std::string& name) const {
    return nlohmann::json::parse(bytes(name + "/metadata.json"));
  }

  TempFolder folder_;
};

TEST_F(SynthTest, TheSameSeedGivesTheSameBytesWithAnyNumberOfThreads) {
  ThreadPool three(3);
  Context threaded;
  threaded.threads = &three;
  SynthOptions first = options("one");
  synthesize(Context{}, first);
  synthesize(threaded, options("three"));
  for (const char* file : {"/train/part-00000.tsv", "/test/part-00000.tsv", "/metadata.json"}) {
    EXPECT_EQ(bytes(std::string("one") + file), bytes(std::string("three") + file)) << file;
  }
  first.seed = 2;
  first.out = folder_.path("two");
  synthesize(Context{}, first);
  EXPECT_NE(bytes("one/test/part-00000.tsv"), bytes("two/test/part-00000.tsv"));
}

TEST_F(SynthTest, MoreRowsBeginWithTheSameRows) {
  SynthOptions more = options("more");
  more.rows = 12'000;
  synthesize(Context{}, options("few"));
  synthesize(Context{}, more);
  EXPECT_THAT(bytes("more/train/part-00000.tsv"),
              testing::StartsWith(bytes("few/train/part-00000.tsv")));
  EXPECT_EQ(bytes("more/test/part-00000.tsv"), bytes("few/test/part-00000.tsv"));
}

TEST_F(SynthTest, MetadataHoldsTheLimitsOfBothSplits) {
  const SynthResult result = synthesize(Context{}, options("d"));
  const auto json = metadata("d");
  EXPECT_EQ(json["rows"], 10'000);
  EXPECT_EQ(json["test_rows"], 3'000);
  EXPECT_EQ(json["num_sparse"], 26);
  EXPECT_EQ(json["cardinalities"].size(), 26u);
  EXPECT_EQ(json["cardinalities"][0], 2039);
  EXPECT_EQ(json["cardinalities"][5], 2);
  EXPECT_DOUBLE_EQ(json["best_auc"], result.test.best_auc);
  EXPECT_DOUBLE_EQ(json["train"]["best_log_loss"], result.train.best_log_loss);
  EXPECT_GT(result.test.best_auc, 0.76);
  EXPECT_LT(result.test.best_auc, 0.84);
  EXPECT_THAT(result.cardinalities, testing::SizeIs(26));
}

TEST_F(SynthTest, WrittenRowsReadBackWithKeysInTheirTablesAndTheSharesOfMissingValues) {
  const SynthResult result = synthesize(Context{}, options("d"));
  for (const char* split : {"train", "test"}) {
    DataSource source = guess_source(folder_.path("d/") + split);
    ASSERT_EQ(source.type, config::CriteoTsvDataset);
    const auto reader = open_reader(source);
    Block block;
    double rows = 0, labels = 0, missing_counts = 0, missing_keys = 0;
    while (reader->next(block)) {
      rows += static_cast<double>(block.rows);
      for (int64_t row = 0; row < block.rows; ++row) {
        labels += block.columns[0].floats[row];
        for (int i = 1; i <= 13; ++i) missing_counts += std::isnan(block.columns[i].floats[row]);
        for (int i = 0; i < 26; ++i) {
          const Column& keys = block.columns[14 + i];
          ASSERT_LT(keys.ints[row], result.cardinalities[i]);
          missing_keys += !keys.missing.empty() && keys.missing[row];
        }
      }
    }
    const auto& written = std::string(split) == "train" ? result.train : result.test;
    EXPECT_EQ(rows, static_cast<double>(written.rows));
    EXPECT_NEAR(labels / rows, written.label_mean, 1e-9);
    EXPECT_NEAR(missing_counts / rows / 13, 0.05, 0.005);
    EXPECT_NEAR(missing_keys / rows / 26, 0.03, 0.004);
  }
}

TEST_F(SynthTest, EveryFormatHoldsTheSameRows) {
  std::vector<std::vector<double>> rows_by_format;  // all values, row by row
  for (const std::string format : {"tsv", "csv", "raw", "split"}) {
    SynthOptions one = options(format, format);
    one.missing_dense = one.missing_sparse = 0;
    synthesize(Context{}, one);
    const auto reader = open_reader(guess_source(folder_.path(format + "/train")));
    std::vector<double>& values = rows_by_format.emplace_back();
    Block block;
    while (reader->next(block)) {
      for (int64_t row = 0; row < block.rows; ++row) {
        for (const Column& column : block.columns) {
          values.push_back(column.type == ColumnType::kFloat
                               ? column.floats[row]
                               : static_cast<double>(column.ints[row]));
        }
      }
    }
    ASSERT_EQ(values.size(), 10'000u * 40) << format;
    EXPECT_TRUE(values == rows_by_format[0]) << format;
    EXPECT_EQ(metadata(format)["best_auc"], metadata("tsv")["best_auc"]);
  }
}

TEST_F(SynthTest, SplitFoldersHaveTheirOwnMetadata) {
  synthesize(Context{}, options("d", "split"));
  EXPECT_EQ(metadata("d/train")["vocab_sizes"], metadata("d")["cardinalities"]);
  EXPECT_EQ(metadata("d/test")["vocab_sizes"], metadata("d")["cardinalities"]);
}

TEST_F(SynthTest, TablesAreChosenByNameScaleOrList) {
  SynthOptions one;
  EXPECT_EQ(synth_cardinalities(one)[0], 203931);
  one.tables = "criteo-40m";
  EXPECT_EQ(synth_cardinalities(one)[19], 39979771);
  one.cardinalities = {10, 20};
  one.scale = 100;
  EXPECT_THAT(synth_cardinalities(one), ElementsAre(10, 20));
  one.num_sparse = 3;
  EXPECT_THAT(synth_cardinalities(one), ElementsAre(10, 20, 10));
  one = {};
  one.tables = "kagle";
  EXPECT_THAT([&] { synth_cardinalities(one); },
              ThrowsMessage<Error>(HasSubstr("expected one of kaggle, fl15, criteo-40m")));
}

TEST_F(SynthTest, BadOptionsLeaveNothingBehind) {
  const auto run = [&](auto change) {
    SynthOptions bad = options("bad");
    change(bad);
    return [bad] { synthesize(Context{}, bad); };
  };
  EXPECT_THAT(run([](SynthOptions& o) { o.format = "parquett"; }),
              ThrowsMessage<Error>(HasSubstr(
                  "unknown output format 'parquett'; expected one of tsv, csv, raw, split")));
  EXPECT_THAT(run([](SynthOptions& o) { o.rows = 0; }),
              ThrowsMessage<Error>(HasSubstr("number of rows is 0")));
  EXPECT_THAT(run([](SynthOptions& o) { o.format = "raw", o.missing_dense = 0.1; }),
              ThrowsMessage<Error>(HasSubstr("missing values cannot be written as raw")));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

}  // namespace
}  // namespace emblem
