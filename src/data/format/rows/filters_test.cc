// data_config.filters: the same rows in every format, in files and in messages.
#include <gmock/gmock.h>

#include <functional>

#include "data/format/binary/message_decoder.h"
#include "data/format/formats_test.h"
#include "data/format/text/text_filters.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::ThrowsMessage;

class FilteredFormats : public testing::TestWithParam<TestFormat> {
 protected:
  void SetUp() override {
    if (!GetParam().is_there()) GTEST_SKIP() << "built without Arrow";
    options_.input = GetParam().write(folder_, rows_);
    options_.batch_size = 97;
    options_.piece_bytes = 1000;
  }

  TestPipeline pipeline(const std::vector<std::string>& filters) const {
    TestPipeline made = GetParam().pipeline();
    for (const std::string& filter : filters)
      made.config.mutable_data_config()->add_filters(filter);
    return made;
  }

  // The keys of C3, which are the ids themselves.
  std::vector<int64_t> ids(const std::vector<std::string>& filters) const {
    const TestPipeline made = pipeline(filters);
    Loader loader(made.config.data_config(), made.features, options_);
    std::vector<int64_t> found;
    Batch batch;
    while (loader.next(batch))
      found.insert(found.end(), batch.sparse[2].keys.begin(), batch.sparse[2].keys.end());
    return found;
  }
  std::vector<int64_t> expected(const std::function<bool(const TestRow&)>& keeps) const {
    std::vector<int64_t> found;
    for (const TestRow& row : rows_)
      if (keeps(row)) found.push_back(row.categories[2]);
    return found;
  }

  const std::vector<TestRow> rows_ = random_rows(1000, 5);
  TempFolder folder_;
  LoaderOptions options_;
};

TEST_P(FilteredFormats, ReadTheRowsThatFulfilAllConditions) {
  EXPECT_EQ(ids({"label = 1"}), expected([](const TestRow& row) { return row.label == 1; }));
  if (!GetParam().has_dense) {  // libfm: the index of a value
    EXPECT_EQ(ids({"f1 < 30", "f2 not in [1, 2]"}), expected([](const TestRow& row) {
                return row.categories[0] < 30 && row.categories[1] != 1 && row.categories[1] != 2;
              }));
    return;
  }
  EXPECT_EQ(ids({"I1 >= 500", "I1 < 1500.5", "I2 in [1, 2, 3]"}), expected([](const TestRow& row) {
              return row.dense[0] >= 500 && row.dense[0] < 1500.5 && row.dense[1] >= 1 &&
                     row.dense[1] <= 3;
            }));
  if (std::string(GetParam().name) == "Tsv") {  // words
    EXPECT_EQ(ids({"C1 in [00000007, 0000000a]"}), expected([](const TestRow& row) {
                return row.categories[0] == 7 || row.categories[0] == 10;
              }));
  } else {
    EXPECT_EQ(ids({"C1 in [7, 10]"}), expected([](const TestRow& row) {
                return row.categories[0] == 7 || row.categories[0] == 10;
              }));
  }
}

TEST_P(FilteredFormats, NameUnknownColumnsAndBadConditions) {
  EXPECT_THAT(loader_error(pipeline({"lable = 1"}), options_),
              AllOf(HasSubstr("has no column \"lable\""), HasSubstr("label")));
  EXPECT_THAT(loader_error(pipeline({"label ~ 1"}), options_),
              HasSubstr("the filter \"label ~ 1\" is not a condition; expected COLUMN OP VALUE"));
  EXPECT_THAT(loader_error(pipeline({"label = 7"}), options_),
              HasSubstr("no rows that fulfil data_config.filters"));
}

INSTANTIATE_TEST_SUITE_P(AllFormats, FilteredFormats, testing::ValuesIn(kFormats),
                         [](const auto& info) { return std::string(info.param.name); });

class FilteredCsv : public testing::Test {
 protected:
  std::vector<float> numbers(const std::string& text, const std::string& filter,
                             const std::string& data = "") {
    const TestPipeline made = pipeline(filter, data);
    options_.input = folder_.write("a.csv", text);
    Loader loader(made.config.data_config(), made.features, options_);
    std::vector<float> found;
    Batch batch;
    while (loader.next(batch)) found.insert(found.end(), batch.dense.begin(), batch.dense.end());
    return found;
  }
  std::string error(const std::string& text, const std::string& filter) {
    options_.input = folder_.write("a.csv", text);
    return loader_error(pipeline(filter, ""), options_);
  }
  static TestPipeline pipeline(const std::string& filter, const std::string& data) {
    return TestPipeline(cat("data_config { fg_mode: FG_DAG with_header: true filters: '", filter,
                            "' ", data,
                            " } feature_configs { raw_feature { feature_name: 'x' } }"));
  }

  TempFolder folder_;
  LoaderOptions options_;
};

TEST_F(FilteredCsv, AValueInQuotesIsTextAndAPlainNumberANumber) {
  const std::string text = "label,x,z\n0,1,7\n1,2,007\n0,3,\"7.0\"\n1,4,\n0,5,NA\n";
  EXPECT_THAT(numbers(text, "z = 7"), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbers(text, "z = \"7\""), ElementsAre(1));
  EXPECT_THAT(numbers(text, "z = 007"), ElementsAre(2)) << "written as an id";
  EXPECT_THAT(numbers(text, "z != 7.5"), ElementsAre(1, 2, 3)) << "missing values fulfil nothing";
  EXPECT_THAT(numbers(text, "z != \"7\""), ElementsAre(2, 3, 5)) << "NA is a text";
  EXPECT_THAT(numbers(text, "z in [007, 7.0]"), ElementsAre(2, 3)) << "not all are numbers";
  const std::string typed = "input_fields { input_name: 'z' input_type: STRING }";
  EXPECT_THAT(numbers(text, "z = 7", typed), ElementsAre(1));
}

TEST_F(FilteredCsv, NumbersAreComparedWithAllTheirDigits) {
  const std::string text = "label,x,z\n0,1,20261100.0\n1,2,20261101\n0,3,20261101.0\n1,4,1e8\n";
  EXPECT_THAT(numbers(text, "z >= 20261101"), ElementsAre(2, 3, 4));
  EXPECT_THAT(numbers(text, "z < 20261101.0"), ElementsAre(1));
  const std::string typed = "input_fields { input_name: 'z' input_type: DOUBLE }";
  EXPECT_THAT(numbers(text, "z >= 20261101", typed), ElementsAre(2, 3, 4));
}

TEST_F(FilteredCsv, BoolsAndDatesAreComparedByWhatTheyMean) {
  const std::string text =
      "label,x,ok,at\n0,1,True,2026-11-16\n1,2,0,2026-11-15T23:59:59Z\n"
      "0,3,TRUE,2026-11-16 00:00:00.5\n1,4,false,2026-11-17\n0,5,,\n";
  for (const char* const condition : {"ok = true", "ok = 1", "ok = True", "ok != false"})
    EXPECT_THAT(numbers(text, condition), ElementsAre(1, 3)) << condition;
  EXPECT_THAT(numbers(text, "ok = \"True\""), ElementsAre(1));
  EXPECT_THAT(numbers(text, "at > 2026-11-16"), ElementsAre(3, 4));
  EXPECT_THAT(numbers(text, "at < 2026-11-16T00:00:00.000"), ElementsAre(2));
  EXPECT_THAT(error("label,x,at\n0,1,11/16/2026\n", "at > 2026-11-16"),
              AllOf(HasSubstr("a.csv:2: column at: \"11/16/2026\" is not a date"),
                    HasSubstr("put the values of the filter in quotes")));
}

TEST_F(FilteredCsv, ATextThatIsComparedToANumberIsABadRowWithTheRemedy) {
  EXPECT_THAT(error("label,x,z\n0,1,7\n1,2,abc\n", "z > 5"),
              AllOf(HasSubstr("a.csv:3: column z: \"abc\" is not a number"),
                    HasSubstr("put the values of the filter in quotes")));
}

TEST_F(FilteredCsv, ARowThatIsNotReadCannotBeBad) {
  EXPECT_THAT(numbers("label,x,z\n0,1,a\n1,what,b\n7,3,b\n1,4,a\n", "z = a"), ElementsAre(1, 4));
  EXPECT_THAT(error("label,x,z\n0,1,a\n1,2\n", "z = a"), HasSubstr("found 2 columns"));
}

MessageChunk messages(const std::vector<std::string>& texts) {
  MessageChunk chunk;
  for (const std::string& text : texts) {
    chunk.bytes += text;
    chunk.ends.push_back(chunk.bytes.size());
    chunk.offsets.push_back(static_cast<int64_t>(chunk.offsets.size()));
  }
  return chunk;
}

TEST(FilteredMessages, OfTextAreReadAsFilesAre) {
  config::DataConfig data;
  data.set_stream_format(config::JSON_ROWS);
  data.add_filters("day >= 3");
  data.add_filters("ok = true");
  const std::vector<ColumnRequest> requests = {{.name = "x"}};
  DecodedPiece piece;
  make_message_decoder(data, requests)
      ->decode(messages({R"({"x": 1, "day": 2, "ok": true})", R"({"x": 2, "day": 3, "ok": true})",
                         R"({"x": 3, "day": "4", "ok": "true"})", R"({"x": 4, "ok": true})",
                         R"({"x": 5, "day": 9, "ok": false})",
                         R"({"x": 6, "day": [5], "ok": true})", R"({"x": 7, )"}),
               {}, piece);
  EXPECT_THAT(piece.block.columns[0].floats, ElementsAre(2, 3));
  EXPECT_EQ(piece.bad.count, 2) << "the list, and what is no JSON";
  EXPECT_THAT(piece.bad.what, HasSubstr("column day holds several values"));

  data.set_stream_format(config::CSV_ROWS);
  data.add_input_fields()->set_input_name("x");
  data.add_input_fields()->set_input_name("day");
  data.add_input_fields()->set_input_name("ok");
  make_message_decoder(data, requests)
      ->decode(messages({"1,2,true\n2,3,true", "3,4,false\n4,5"}), {}, piece);
  EXPECT_THAT(piece.block.columns[0].floats, ElementsAre(2));
  EXPECT_EQ(piece.bad.count, 1);
  data.add_filters("dya = 1");
  EXPECT_THAT([&] { make_message_decoder(data, requests); },
              ThrowsMessage<Error>(HasSubstr("has no column \"dya\"; did you mean \"day\"?")));
}

}  // namespace
}  // namespace emblem
