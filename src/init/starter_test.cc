#include "init/starter.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "data/convert.h"
#include "data/format/columnar/columnar_decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class StarterTest : public testing::Test {
 protected:
  Starter start(const std::string& name, const std::string& text, StarterOptions options = {}) {
    options.input = folder_.write(name, text);
    options.pipeline.model_dir = "model";
    options.pipeline.train_input = options.input;
    if (options.columns.label.empty()) options.columns.label = "clk";
    return make_starter(options);
  }

  // clk follows city; `copy` is the label in words.
  static std::string rows(char delimiter, int count, bool with_copy = false) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      const int clk = i * 7919 % 5 < 2;
      text += fmt::format("{}{}{}{}{}", clk, delimiter, clk ? "ab"[i % 2] : "bc"[i % 2], delimiter,
                          i * 31 % 97 * 0.5);
      if (with_copy) text += fmt::format("{}{}", delimiter, clk ? "good" : "bad");
      text += "\n";
    }
    return text;
  }

  TempFolder folder_;
};

TEST_F(StarterTest, DelimitersAndHeadersAreFound) {
  for (const char delimiter : {',', '\t', ';', '|'}) {
    const std::string header = fmt::format("clk{0}city{0}age\n", delimiter);
    const PipelineConfig config =
        parse_pipeline(start("a.txt", header + rows(delimiter, 300)).pipeline, "p");
    EXPECT_EQ(config.data_config().delimiter(), std::string(1, delimiter));
    EXPECT_TRUE(config.data_config().with_header());
    EXPECT_EQ(config.feature_configs_size(), 2) << "few rows have no bins";
    EXPECT_EQ(config.data_config().holdout_ratio(), 0.1);
  }
}

TEST_F(StarterTest, NumbersHaveBinsOfEquallyManyRows) {
  std::string text = "clk,n,flag\n";
  for (int i = 0; i < 6400; ++i)
    text += fmt::format("{},{},{}\n", i % 3 == 0, i * i, i % 2 == 0 ? 0.5 : 1.5);
  const PipelineConfig config = parse_pipeline(start("a.csv", text).pipeline, "p");
  ASSERT_EQ(config.feature_configs_size(), 3) << "no bins for two values";
  const config::RawFeature& bins = config.feature_configs(1).raw_feature();
  EXPECT_EQ(bins.feature_name(), "n_bins");
  EXPECT_EQ(bins.expression(), "item:n");
  ASSERT_EQ(bins.piecewise_linear_size(), 33);
  EXPECT_EQ(bins.piecewise_linear(0), 0.0f);
  EXPECT_NEAR(bins.piecewise_linear(16), 3200.0 * 3200, 3200 * 20);  // the median
  EXPECT_NEAR(bins.piecewise_linear(32), 6399.0 * 6399, 1e3);
}

TEST_F(StarterTest, AveragesAreOverTwoEpochs) {
  const auto decay_for = [](double rows) {
    return choose_training(rows, LabelTask::kBinary).average;
  };
  EXPECT_NEAR(decay_for(3200), 1 - 1.0 / 200, 1e-9) << "100 batches of 32 an epoch";
  EXPECT_NEAR(decay_for(1e6), 0.998, 1e-3);
  EXPECT_EQ(decay_for(1e3), 0);
  EXPECT_EQ(decay_for(3e6), 0) << "rows are seen a few times";
  const PipelineConfig config =
      parse_pipeline(start("a.csv", "clk,city,age\n" + rows(',', 3200)).pipeline, "p");
  EXPECT_FLOAT_EQ(config.train_config().dense_optimizer().ema().decay(), 0.995f);
}

TEST_F(StarterTest, FewRowsGetAnEnsemble) {
  const auto ensemble_for = [&](int64_t count) {
    return parse_pipeline(start("a.csv", "clk,city,age\n" + rows(',', count)).pipeline, "p")
        .model_config()
        .ensemble_size();
  };
  EXPECT_EQ(ensemble_for(300), 4u);
  EXPECT_EQ(ensemble_for(30000), 1u);
}

// Whole numbers with many values are numbers, not ids, whatever the format.
TEST_F(StarterTest, ColumnarFilesGetTheFeaturesOfCsvFiles) {
  if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
  std::string text = "clk,city,age,few,user_id,price\n";
  for (int i = 0; i < 2000; ++i)
    text += fmt::format("{},{},{},{},{},{}\n", i * 7919 % 5 < 2, "abc"[i % 3], i * 31 % 97, i % 4,
                        i * 17 % 301, i * 13 % 89 * 0.123456789);
  const Starter csv = start("a.csv", text);
  const auto features = [](const std::string& pipeline) {
    const size_t begin = pipeline.find("feature_configs");
    return pipeline.substr(begin, pipeline.find("model_config") - begin);
  };
  for (const std::string format : {"parquet", "orc", "arrow"}) {
    ConvertOptions convert_options;
    convert_options.from = describe_input(folder_.path("a.csv"), {});
    convert_options.to = folder_.path(format);
    convert_options.format = format;
    convert(Context{}, convert_options);
    StarterOptions options;
    options.input = folder_.path(format);
    options.columns.label = "clk";
    options.pipeline.model_dir = "model";
    options.pipeline.train_input = options.input;
    const Starter columnar = make_starter(options);
    EXPECT_EQ(features(columnar.pipeline), features(csv.pipeline)) << format;
    EXPECT_EQ(columnar.summary, csv.summary) << format;
  }
}

TEST_F(StarterTest, ColumnsWithoutAHeaderAreNumberedOrNamed) {
  StarterOptions options;
  options.columns.label = "1";
  PipelineConfig config = parse_pipeline(start("a.csv", rows(',', 300), options).pipeline, "p");
  EXPECT_FALSE(config.data_config().with_header());
  EXPECT_EQ(config.data_config().input_fields_size(), 3);
  EXPECT_EQ(config.data_config().label_fields(0), "column1");
  options.columns.label = "clk";
  options.csv.names = {"clk", "city", "age"};
  config = parse_pipeline(start("a.csv", rows(',', 300), options).pipeline, "p");
  EXPECT_EQ(config.data_config().input_fields(1).input_name(), "city");
}

TEST_F(StarterTest, AColumnThatEqualsTheLabelIsSkipped) {
  const Starter starter = start("a.csv", "clk,city,age,copy\n" + rows(',', 300, true));
  EXPECT_THAT(starter.summary, HasSubstr("skipped: equals the label"));
  EXPECT_THAT(starter.warnings, Contains(HasSubstr("column \"copy\": equals the label")));
  EXPECT_THAT(start("a.csv", "clk,city,age\n" + rows(',', 300)).warnings, IsEmpty());
}

TEST_F(StarterTest, DataToEvaluateOnAreLookedAt) {
  const std::string data = "clk,city,age\n" + rows(',', 300);
  StarterOptions options;
  options.pipeline.eval_input = folder_.write("other.csv", "clk,city\n0,a\n");
  EXPECT_THROW(start("a.csv", data, options), Error);
  options.pipeline.eval_input = folder_.write("eval.csv", "clk,city,age\n0,a,3\n0,b,4\n");
  const Starter starter = start("a.csv", data, options);
  EXPECT_THAT(starter.warnings, Contains(HasSubstr("have the same label")));
  EXPECT_THAT(starter.pipeline, Not(HasSubstr("holdout_ratio")));
}

TEST_F(StarterTest, ASampleIsSpreadOverTheFile) {
  std::string text = "clk,city\n";
  for (int i = 0; i < 200000; ++i) text += fmt::format("{},{}\n", i < 150000 ? 0 : 1, "abc"[i % 3]);
  StarterOptions options;
  options.sampled_rows = 60000;
  const Starter starter = start("a.csv", text, options);
  EXPECT_THAT(starter.warnings,
              ElementsAre(HasSubstr("up to 2000 rows that cannot be read are skipped")))
      << "both classes are seen";
  EXPECT_THAT(starter.pipeline, HasSubstr("max_bad_rows: 2000 "));
  EXPECT_THAT(starter.summary, HasSubstr("of about 200"));
}

TEST_F(StarterTest, LinesOfTheSummaryFitATerminal) {
  const Starter starter =
      start("a.csv", "clk," + std::string(120, 'n') + "," + "größe\n" + rows(',', 300));
  for (size_t begin = 0, end; begin < starter.summary.size(); begin = end + 1) {
    end = starter.summary.find('\n', begin);
    EXPECT_LE(end - begin, 102u) << starter.summary.substr(begin, end - begin);
  }
}

TEST_F(StarterTest, OtherEncodingsThanUtf8AreRefused) {
  const auto problem = [&](const std::string& text) -> std::string {
    try {
      start("a.csv", text);
    } catch (const Error& error) {
      return error.what();
    }
    return "fine";
  };
  EXPECT_THAT(problem("clk,gr\xf6\xdf"
                      "e\n" +
                      rows(',', 300)),
              HasSubstr("a.csv:1 is not UTF-8 (byte 0xf6); convert it: iconv -f CP1252 -t UTF-8 "));
  const std::string many = "clk,city,age\n" + rows(',', 20000);
  EXPECT_THAT(problem(many + "0,K\xf6ln,3\n"), HasSubstr("a.csv:20002 is not UTF-8 (byte 0xf6)"));
  EXPECT_THAT(problem(many + "0,Caf\xe9,3\n"), HasSubstr("a.csv:20002 is not UTF-8 (byte 0xe9)"));
  EXPECT_EQ(problem(many + "0,K\xc3\xb6ln,3\n"), "fine");
  StarterOptions options;
  options.pipeline.eval_input = folder_.write("e.csv", "clk,city,age\n0,K\xf6ln,3\n1,a,4\n");
  EXPECT_THROW(start("a.csv", many, options), Error);
}

TEST_F(StarterTest, SpellingsThatMatterAreWarnedAboutOnce) {
  std::string text = "clk,rooms,floor,city\n";
  for (int i = 0; i < 400; ++i)
    text += fmt::format("{},{}.0,{}.0, {}\n", i * 7919 % 5 < 2, i % 7, i % 3, "abc"[i % 3]);
  const Starter starter = start("a.csv", text);
  EXPECT_THAT(starter.warnings, Contains(HasSubstr("1 column (\"city\") have spaces")));
  EXPECT_THAT(starter.warnings, Not(Contains(HasSubstr("3.0")))) << "\"3\" is the same later";
  for (int i = 0; i < 100; ++i)
    text += fmt::format("{},{}.0,{}, {}\n", i * 7919 % 5 < 2, i % 7, i % 3, "abc"[i % 3]);
  EXPECT_THAT(start("a.csv", text).warnings,
              Contains(HasSubstr("whole numbers of 1 column (\"floor\") are written in two ways, "
                                 "\"3\" and \"3.0\"")));
}

TEST_F(StarterTest, TheTableCountsTextsForMissingValuesAsTrainingDoes) {
  std::string text = "clk,city,age\n";
  for (int i = 0; i < 400; ++i)
    text += fmt::format("{},{},{}\n", i * 7919 % 5 < 2, i % 4 ? "x" : "NA", i * 31 % 97 * 0.5);
  const Starter starter = start("a.csv", text);
  EXPECT_THAT(starter.summary, HasSubstr("text            -          2  category"));
  EXPECT_THAT(starter.pipeline, HasSubstr("# text, 2 distinct values\n"));
}

TEST_F(StarterTest, AModelThatCannotReadTheColumnsIsRefused) {
  StarterOptions options;
  options.pipeline.model = "dlrm";
  std::string text = "clk,age\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("{},{}\n", i % 2, i * 31 % 97 * 0.5);
  EXPECT_THROW(start("a.csv", text, options), Error);
  EXPECT_THROW(start("a.csv", "clk,city\n0,a\n1,b\n", options), Error) << "nothing to multiply";
  for (const std::string& model : starter_models()) {
    options.pipeline.model = model;
    EXPECT_NO_THROW(start("a.csv", "clk,city,age\n" + rows(',', 300), options)) << model;
  }
}

// check_pipeline accepts what is written for each kind of label, by each model that can learn it.
TEST_F(StarterTest, EveryLabelGetsItsLoss) {
  std::string text = "kind,price,city,age,when,tags\n";
  for (int i = 0; i < 400; ++i)
    text += fmt::format("{},{},{},{},2024-05-{:02} {:02}:00,{}|{}\n", "xyz"[i * 7919 % 3],
                        i * 31 % 397 * 0.25, "abcdefg"[i % 7], i * 31 % 97 * 0.5, i % 28 + 1,
                        i % 24, "abcdefg"[i % 5], "abcdefg"[i % 7]);
  for (const std::string& model : starter_models()) {
    StarterOptions options;
    options.pipeline.model = model;
    options.columns.label = "price";
    const PipelineConfig number = parse_pipeline(start("a.csv", text, options).pipeline, "p");
    EXPECT_TRUE(number.model_config().losses(0).has_l2_loss()) << model;
    EXPECT_NEAR(number.model_config().losses(0).l2_loss().mean(), 49.5, 1) << model;
    if (model == "lr" || model == "fm") continue;
    options.columns.label = "kind";
    const PipelineConfig classes = parse_pipeline(start("a.csv", text, options).pipeline, "p");
    EXPECT_TRUE(classes.model_config().losses(0).has_softmax_cross_entropy()) << model;
    EXPECT_EQ(classes.model_config().num_class(), 3u) << model;
    EXPECT_EQ(classes.data_config().label_classes_size(), 3) << model;
  }
}

TEST_F(StarterTest, RowsAreHeldOutByAKeyOrTheirValues) {
  const auto fields = [&](const std::string& text) {
    const PipelineConfig config = parse_pipeline(start("a.csv", text).pipeline, "p");
    const auto& names = config.data_config().holdout_fields();
    return std::vector<std::string>(names.begin(), names.end());
  };
  std::string keyed = "clk,order,city\n", valued = "clk,city,price\n", equal = "clk,city\n";
  for (int i = 0; i < 400; ++i) {
    equal += fmt::format("{},{}\n", i % 2, "abc"[i % 3]);
    keyed += fmt::format("{},o{},{}\n", i % 2, i * 7919 % 1000003, "abc"[i % 3]);
    valued += fmt::format("{},{},{}\n", i % 2, "abc"[i % 3], i * 7919 % 1009 * 0.25);
  }
  EXPECT_THAT(fields(equal), IsEmpty()) << "few rows differ";
  std::string hidden = "clk,city,note\n";
  for (int i = 0; i < 400; ++i)
    hidden += fmt::format("{},{},2024-05-01 {:02}:{:02}\n", i % 2, "abc"[i % 3], i % 24, i / 24);
  EXPECT_THAT(fields(hidden), IsEmpty()) << "rows differ in a column that does not count";
  EXPECT_THAT(fields(keyed), testing::ElementsAre("order"));
  EXPECT_THAT(fields(valued), testing::ElementsAre("price", "city"));
}

}  // namespace
}  // namespace emblem
