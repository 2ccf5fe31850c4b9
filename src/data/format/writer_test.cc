#include "data/format/writer.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/math/half.h"
#include "core/text/text.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/format/encoder.h"
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

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

Column floats(std::vector<float> values) {
  Column column;
  column.floats.assign(values.begin(), values.end());
  return column;
}

Column ints(std::vector<int64_t> values, std::vector<uint8_t> missing = {}) {
  Column column;
  column.type = ColumnType::kInt64;
  column.ints.assign(values.begin(), values.end());
  column.missing.assign(missing.begin(), missing.end());
  return column;
}

Column text_column(const std::vector<std::string>& values) {
  Column column;
  column.type = ColumnType::kText;
  for (const std::string& value : values) {
    column.text += value;
    column.text_ends.push_back(static_cast<uint32_t>(column.text.size()));
  }
  return column;
}

// Two rows of label, I1, I2, C1, C2 that every format can hold.
Block two_rows() {
  Block block;
  block.rows = 2;
  block.columns = {floats({1, 0}), floats({5, -1}), floats({0, 2000000}), ints({7, 300}),
                   ints({40000, 0})};
  return block;
}

template <class T>
std::vector<T> numbers_in(const std::string& path) {
  const std::string bytes = read_text_file(path);
  std::vector<T> numbers(bytes.size() / sizeof(T));
  EXPECT_EQ(bytes.size() % sizeof(T), 0u);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

class WriterTest : public testing::Test {
 protected:
  void write(const std::string& format, const Block& block, const std::vector<ColumnSpec>& schema,
             const WriterOptions& options = {}) {
    const auto writer = make_writer(format, out_, schema, options);
    writer->write(block);
    writer->finish();
  }
  std::string file(const std::string& name) const { return out_ + "/" + name; }
  std::string text(const std::string& name) const { return read_text_file(file(name)); }

  TempFolder folder_;
  std::string out_ = folder_.path("out");
};

TEST_F(WriterTest, TsvIsCriteosText) {
  Block block = two_rows();
  block.columns[1].floats[1] = kNone;
  block.columns[2].floats[0] = 2.5f;
  block.columns[4].missing = {0, 1};
  write("tsv", block, criteo_schema(2, 2));
  EXPECT_EQ(text("part-00000.tsv"),
            "1\t5\t2.5\t00000007\t00009c40\n"
            "0\t\t2000000\t0000012c\t\n");
}

TEST_F(WriterTest, TsvKeepsKeysOf64Bits) {
  Block block = two_rows();
  block.columns[3].ints = {-1, int64_t{1} << 40};
  write("tsv", block, criteo_schema(2, 2));
  EXPECT_THAT(text("part-00000.tsv"),
              AllOf(HasSubstr("\tffffffffffffffff\t"), HasSubstr("\t0000010000000000\t")));
}

TEST_F(WriterTest, CsvHasAHeaderAndQuotesWhatNeedsThem) {
  Block block;
  block.rows = 4;
  block.columns = {floats({1, 0.1f, kNone, -3e20f}), ints({-5, 0, 12, 3}, {0, 1, 0, 0}),
                   text_column({"plain", "with, comma", "", "say \"hi\""})};
  write("csv", block,
        {{"label", ColumnType::kFloat}, {"a,b", ColumnType::kInt64}, {"t", ColumnType::kText}});
  EXPECT_EQ(text("part-00000.csv"),
            "label,\"a,b\",t\n"
            "1,-5,plain\n"
            "0.1,,\"with, comma\"\n"
            ",12,\n"
            "-3e+20,3,\"say \"\"hi\"\"\"\n");
}

TEST_F(WriterTest, CsvWritesBagsWithTheirWeights) {
  Column keys = ints({1, 2, 3});
  keys.offsets = {0, 2, 2, 3};
  Column weighted = ints({4, 5, 6});
  weighted.weights = {0.5f, 1, 2};
  Block block;
  block.rows = 3;
  block.columns = {keys, weighted};
  write("csv", block, {{"keys", ColumnType::kInt64}, {"weighted", ColumnType::kInt64}});
  EXPECT_EQ(text("part-00000.csv"),
            "keys,weighted\n1\x1d"
            "2,4:0.5\n,5:1\n3,6:2\n");
}

// Rows [[a, b], [], [c]], [], [[d]], [[]]; and numbers as the elements of sequences.
Block sequences() {
  Column bags = text_column({"a", "b", "c, d", "d"});
  bags.offsets = {0, 2, 2, 3, 4, 4};
  bags.sequence_offsets = {0, 3, 3, 4, 5};
  Column values = floats({1, 2.5f, kNone, 3, 4});
  values.offsets = {0, 2, 2, 3, 5};
  Block block;
  block.rows = 4;
  block.columns = {bags, values};
  return block;
}

const std::vector<ColumnSpec> kSequenceSchema = {{"bags", ColumnType::kText, 2},
                                                 {"values", ColumnType::kFloat, 1}};

TEST_F(WriterTest, CsvWritesSequencesWithTheirDelimiter) {
  write("csv", sequences(), kSequenceSchema,
        {.separator = '^', .sequence_delim = "|", .sequences = {"values"}});
  EXPECT_EQ(text("part-00000.csv"), "bags,values\n\"a^b||c, d\",1|2.5\n,\nd,NaN\n^,3|4\n");
}

TEST_F(WriterTest, CsvSequencesAreReadBack) {
  write("csv", sequences(), kSequenceSchema);
  const std::vector<ColumnRequest> requests = {
      {.name = "bags", .type = ColumnType::kText, .separators = "\x1d", .sequence_delim = ";"},
      {.name = "values", .separators = "\x1d"}};
  const DataSource source{.input = file("part-00000.csv"), .with_header = true};
  const std::unique_ptr<Decoder> decoder = make_decoder(source, &requests);
  DecodedPiece piece;
  decoder->decode(0, decoder->extent(0), RowSample{}, nullptr, piece);
  const Block expected = sequences();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(piece.block.columns[i].offsets, expected.columns[i].offsets);
    EXPECT_EQ(piece.block.columns[i].sequence_offsets, expected.columns[i].sequence_offsets);
  }
  EXPECT_EQ(piece.block.columns[0].text, expected.columns[0].text);
  EXPECT_EQ(piece.block.columns[1].floats[1], 2.5f);
}

TEST_F(WriterTest, CsvRefusesListsThatWouldBeReadOtherwise) {
  Block block;
  block.rows = 2;
  block.columns = {text_column({"a", "b;c"})};
  block.columns[0].offsets = {0, 1, 2};
  const std::vector<ColumnSpec> schema = {{"h", ColumnType::kText, 1}};
  EXPECT_THAT([&] { write("csv", block, schema, {.sequences = {"h"}}); },
              ThrowsMessage<Error>(HasSubstr("row 2, column h: a value of a list, \"b;c\", holds "
                                             "\";\"")));
  EXPECT_THAT([&] { write("csv", block, schema, {.sequences = {"i"}}); },
              ThrowsMessage<Error>(HasSubstr("no column \"i\"")));
  EXPECT_THAT([&] { write("csv", block, schema, {.separator = ';'}); },
              ThrowsMessage<Error>(HasSubstr("values of lists cannot be separated by \";\"")));
  block.columns = {text_column({"a",
                                "b\x1d"
                                "c"})};
  block.columns[0].offsets = {0, 1, 2};
  EXPECT_THAT([&] { write("csv", block, schema); },
              ThrowsMessage<Error>(HasSubstr("holds \"\\x1d\" and would be read")));
}

TEST_F(WriterTest, CsvRejectsLineBreaksInText) {
  Block block;
  block.rows = 2;
  block.columns = {text_column({"fine", "two\nlines"})};
  EXPECT_THAT(
      [&] {
        write("csv", block, {{"t", ColumnType::kText}});
      },
      ThrowsMessage<Error>(HasSubstr("row 2, column t: the text holds a line break")));
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(WriterTest, ColumnarFilesSayThatADiskIsFull) {
  if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
  const std::vector<ColumnSpec> schema = {{"n", ColumnType::kInt64}};
  for (const auto make : {make_parquet_encoder, make_orc_encoder, make_arrow_encoder}) {
    const std::unique_ptr<RowEncoder> encoder = make(schema, {});
    Block block;
    block.rows = 2;
    block.columns = {ints({1, 2})};
    EncodedRows rows{.rows = 2};
    encoder->encode(block, 0, rows);
    EXPECT_THAT(
        [&] {
          const std::unique_ptr<RowSink> sink = encoder->open("/dev/full", 0);
          sink->write(rows);
          sink->finish();
        },
        ThrowsMessage<Error>(AllOf(HasSubstr("cannot write /dev/full: No space left on device"),
                                   HasSubstr("free some space"))));
  }
}

TEST_F(WriterTest, RawIsRecordsOfInt32) {
  Block block = two_rows();
  block.columns[3].ints[0] = 0xfedcba98;
  write("raw", block, criteo_schema(2, 2));
  EXPECT_THAT(
      numbers_in<int32_t>(file("part-00000.bin")),
      ElementsAre(1, 5, 0, static_cast<int32_t>(0xfedcba98), 40000, 0, -1, 2000000, 300, 0));
}

TEST_F(WriterTest, SplitByRowsIsThreeMatricesAndMetadata) {
  write("split", two_rows(), criteo_schema(2, 2));
  EXPECT_THAT(names_in(out_),
              UnorderedElementsAre("label.bin", "dense.bin", "category.bin", "metadata.json"));
  EXPECT_THAT(numbers_in<int32_t>(file("label.bin")), ElementsAre(1, 0));
  EXPECT_THAT(numbers_in<int32_t>(file("dense.bin")), ElementsAre(5, 0, -1, 2000000));
  EXPECT_THAT(numbers_in<int32_t>(file("category.bin")), ElementsAre(7, 40000, 300, 0));
  EXPECT_EQ(nlohmann::json::parse(text("metadata.json")), nlohmann::json::parse(R"({
    "vocab_sizes": [301, 40001], "label_raw_type": "int32", "dense_raw_type": "int32",
    "category_raw_type": "int32", "dense_log": true})"));
}

TEST_F(WriterTest, SplitByColumnsNarrowsKeysAndTakesLogarithms) {
  Block block = two_rows();
  block.columns.push_back(ints({125, 3}));
  WriterOptions options;
  options.split_layout = SplitLayout::kColumns;
  write("split", block, criteo_schema(2, 3), options);
  EXPECT_THAT(numbers_in<uint8_t>(file("label.bin")), ElementsAre(1, 0));
  std::vector<float> dense;
  for (const uint16_t bits : numbers_in<uint16_t>(file("dense.bin")))
    dense.push_back(F16{bits}.to_float());
  EXPECT_THAT(
      dense, testing::Pointwise(testing::FloatNear(0.01f), {std::log(8.0f), std::log(3.0f),
                                                            std::log(2.0f), std::log(2000003.0f)}));
  EXPECT_THAT(numbers_in<int16_t>(file("category_0.bin")), ElementsAre(7, 300));
  EXPECT_THAT(numbers_in<int32_t>(file("category_1.bin")), ElementsAre(40000, 0));
  EXPECT_THAT(numbers_in<int8_t>(file("category_2.bin")), ElementsAre(125, 3));
  const auto metadata = nlohmann::json::parse(text("metadata.json"));
  EXPECT_EQ(metadata["category_raw_type"], nlohmann::json({"int16", "int32", "int8"}));
  EXPECT_EQ(metadata["vocab_sizes"], nlohmann::json({301, 40001, 126}));
}

TEST_F(WriterTest, SplitChecksKeysAgainstGivenCardinalities) {
  WriterOptions options;
  options.cardinalities = {300, 50000};
  EXPECT_THAT([&] { write("split", two_rows(), criteo_schema(2, 2), options); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("row 2, column C1: the key 300"), HasSubstr("below 300"))));
  options.cardinalities = {1000, 50000};
  write("split", two_rows(), criteo_schema(2, 2), options);
  EXPECT_EQ(nlohmann::json::parse(text("metadata.json"))["vocab_sizes"],
            nlohmann::json({1000, 50000}));
}

TEST_F(WriterTest, SplitCanHoldFractionsAsFloats) {
  Block block = two_rows();
  block.columns[1].floats[0] = 0.5f;
  WriterOptions options;
  options.split_dense = SplitDense::kFloat32;
  write("split", block, criteo_schema(2, 2), options);
  EXPECT_THAT(numbers_in<float>(file("dense.bin")), ElementsAre(0.5f, 0, -1, 2000000));
  EXPECT_EQ(nlohmann::json::parse(text("metadata.json"))["dense_raw_type"], "float32");
}

TEST_F(WriterTest, BinaryFormatsSayWhatTheyCannotHold) {
  const auto message_of = [&](void (*spoil)(Block&), const char* format) {
    Block block = two_rows();
    spoil(block);
    try {
      write(format, block, criteo_schema(2, 2));
    } catch (const Error& error) {
      EXPECT_FALSE(fs::exists(out_)) << error.what();
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const char* format : {"raw", "split"}) {
    EXPECT_THAT(message_of([](Block& b) { b.columns[1].floats[1] = 0.5f; }, format),
                HasSubstr("row 2, column I1: 0.5 is not a 32-bit whole number"));
    EXPECT_THAT(message_of([](Block& b) { b.columns[2].floats[0] = 3e9f; }, format),
                HasSubstr("row 1, column I2: 3e+09 is not a 32-bit whole number"));
    EXPECT_THAT(message_of([](Block& b) { b.columns[2].floats[0] = kNone; }, format),
                HasSubstr("row 1, column I2: the value is missing"));
    EXPECT_THAT(message_of([](Block& b) { b.columns[0].floats[0] = kNone; }, format),
                HasSubstr("row 1, column label: the label is missing"));
    EXPECT_THAT(message_of([](Block& b) { b.columns[4].ints[1] = int64_t{1} << 32; }, format),
                HasSubstr("row 2, column C2: the key 4294967296 does not fit 32 bits"));
    EXPECT_THAT(message_of(
                    [](Block& b) {
                      b.columns[4].missing = {1, 0};
                    },
                    format),
                HasSubstr("row 1, column C2: the value is missing"));
    EXPECT_THAT(message_of(
                    [](Block& b) {
                      b.columns[4].offsets = {0, 1, 2};
                    },
                    format),
                HasSubstr("column 'C2' holds several or weighted values per row"));
  }
}

TEST_F(WriterTest, MissingValuesCanBeZeros) {
  Block block = two_rows();
  block.columns[1].floats[0] = kNone;
  block.columns[3].missing = {0, 1};
  WriterOptions options;
  options.missing = MissingValues::kZero;
  write("raw", block, criteo_schema(2, 2), options);
  EXPECT_THAT(numbers_in<int32_t>(file("part-00000.bin")),
              ElementsAre(1, 0, 0, 7, 40000, 0, -1, 2000000, 0, 0));
}

TEST_F(WriterTest, ColumnsFindTheirRolesByNameTypeOrOption) {
  Block block;
  block.rows = 1;
  block.columns = {ints({8}), floats({2}), floats({1}), ints({9})};
  const std::vector<ColumnSpec> schema = {{"key", ColumnType::kInt64},
                                          {"price", ColumnType::kFloat},
                                          {"label", ColumnType::kFloat},
                                          {"age", ColumnType::kInt64}};
  WriterOptions options;
  options.overwrite = Overwrite::kReplace;
  write("tsv", block, schema, options);
  EXPECT_EQ(text("part-00000.tsv"), "1\t2\t00000008\t00000009\n");
  options.dense_fields = {"age", "price"};
  options.sparse_fields = {"key"};
  write("tsv", block, schema, options);
  EXPECT_EQ(text("part-00000.tsv"), "1\t9\t2\t00000008\n");
  options.sparse_fields = {"kye"};
  EXPECT_THAT([&] { write("tsv", block, schema, options); },
              ThrowsMessage<Error>(HasSubstr("did you mean 'key'?")));
}

TEST_F(WriterTest, TextColumnsGoIntoCsvOnly) {
  EXPECT_THAT(
      [&] {
        make_writer("raw", out_, {{"label", ColumnType::kFloat}, {"city", ColumnType::kText}});
      },
      ThrowsMessage<Error>(HasSubstr("column 'city' is text")));
}

TEST_F(WriterTest, BundlesStartANewFileBeforeTheyPassTheirSize) {
  WriterOptions options;
  options.bundle_bytes = 100;
  const auto writer = make_writer("raw", out_, criteo_schema(2, 2), options);
  for (int i = 0; i < 5; ++i) writer->write(two_rows());  // 40 bytes each
  writer->finish();
  EXPECT_THAT(names_in(out_),
              UnorderedElementsAre("part-00000.bin", "part-00001.bin", "part-00002.bin"));
  EXPECT_EQ(fs::file_size(file("part-00000.bin")), 80u);
  EXPECT_EQ(fs::file_size(file("part-00002.bin")), 40u);
  EXPECT_EQ(writer->rows_written(), 10);
  EXPECT_EQ(writer->bytes_written(), 200);
}

TEST_F(WriterTest, EveryBundleOfCsvHasTheHeader) {
  WriterOptions options;
  options.bundle_bytes = 1;
  const auto writer = make_writer("csv", out_, criteo_schema(2, 2), options);
  for (int i = 0; i < 2; ++i) writer->write(two_rows());
  writer->finish();
  EXPECT_EQ(text("part-00000.csv"), text("part-00001.csv"));
  EXPECT_EQ(text("part-00001.csv").substr(0, 17), "label,I1,I2,C1,C2");
}

TEST_F(WriterTest, SplitCannotBeBundled) {
  WriterOptions options;
  options.bundle_bytes = 1000;
  EXPECT_THAT([&] { make_writer("split", out_, criteo_schema(2, 2), options); },
              ThrowsMessage<Error>(HasSubstr("cannot be bundled")));
}

TEST_F(WriterTest, UnknownFormatsListTheChoices) {
  EXPECT_THAT([&] { make_writer("parquett", out_, criteo_schema(2, 2)); },
              ThrowsMessage<Error>(HasSubstr(
                  "unknown output format 'parquett'; expected one of tsv, csv, raw, split")));
}

TEST_F(WriterTest, NothingAppearsBeforeFinishAndNothingRemainsWithoutIt) {
  {
    const auto writer = make_writer("tsv", folder_.path("a/b/out"), criteo_schema(2, 2));
    writer->write(two_rows());
    EXPECT_FALSE(fs::exists(folder_.path("a/b/out")));
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(WriterTest, ADataSetWithoutRowsHasItsFiles) {
  make_writer("csv", out_, criteo_schema(1, 1))->finish();
  EXPECT_EQ(text("part-00000.csv"), "label,I1,C1\n");
}

TEST_F(WriterTest, AFolderThatIsNotEmptyIsKeptUnlessReplaced) {
  write("raw", two_rows(), criteo_schema(2, 2));
  EXPECT_THAT([&] { make_writer("tsv", out_, criteo_schema(2, 2)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("is not empty"), HasSubstr("--force"))));
  EXPECT_THAT(names_in(out_), ElementsAre("part-00000.bin"));
  WriterOptions options;
  options.overwrite = Overwrite::kReplace;
  write("tsv", two_rows(), criteo_schema(2, 2), options);
  EXPECT_THAT(names_in(out_), ElementsAre("part-00000.tsv"));
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("out"));
}

TEST_F(WriterTest, ForceDoesNotReplaceWhatIsNoDataSet) {
  folder_.write("out/thesis.txt", "years of work");
  WriterOptions options;
  options.overwrite = Overwrite::kReplace;
  EXPECT_THAT(
      [&] { make_writer("tsv", out_, criteo_schema(2, 2), options); },
      ThrowsMessage<Error>(HasSubstr("holds 'thesis.txt', which is not part of a data set")));
  EXPECT_TRUE(fs::exists(file("thesis.txt")));
}

TEST_F(WriterTest, ForceDoesNotReplaceFilesOfOthersAtAnyDepth) {
  WriterOptions options;
  options.overwrite = Overwrite::kReplace;
  for (const char* name :
       {"train/thesis.txt", "test/old/part-00000.tsv", "model.bin", "part-1/x"}) {
    SCOPED_TRACE(name);
    folder_.write(cat("out/", name), "years of work");
    EXPECT_THAT([&] { make_writer("tsv", out_, criteo_schema(2, 2), options); },
                ThrowsMessage<Error>(HasSubstr("which is not part of a data set")));
    EXPECT_TRUE(fs::exists(file(name)));
    fs::remove_all(out_);
  }
}

TEST_F(WriterTest, FilesThatOthersAddMeanwhileAreNotReplaced) {
  for (const Overwrite overwrite : {Overwrite::kRefuse, Overwrite::kReplace}) {
    WriterOptions options;
    options.overwrite = overwrite;
    const auto writer = make_writer("tsv", out_, criteo_schema(2, 2), options);
    writer->write(two_rows());
    folder_.write("out/thesis.txt", "years of work");
    EXPECT_THROW(writer->finish(), Error);
    EXPECT_TRUE(fs::exists(file("thesis.txt")));
    fs::remove_all(out_);
  }
}

TEST_F(WriterTest, TwoWritersCannotFillOneFolder) {
  const auto first = make_writer("tsv", out_, criteo_schema(2, 2));
  EXPECT_THAT([&] { make_writer("tsv", out_, criteo_schema(2, 2)); },
              ThrowsMessage<Error>(HasSubstr("another process is writing")));
  first->write(two_rows());
  first->finish();
  EXPECT_THAT(names_in(out_), ElementsAre("part-00000.tsv"));
}

TEST_F(WriterTest, WhatAKilledRunLeftBehindDoesNotGetIntoTheNext) {
  folder_.write(".out.partial/part-00009.tsv", "half a row");
  write("tsv", two_rows(), criteo_schema(2, 2));
  EXPECT_THAT(names_in(out_), ElementsAre("part-00000.tsv"));
}

TEST_F(WriterTest, AFileInTheWayIsAnError) {
  folder_.write("out", "a file");
  EXPECT_THAT([&] { make_writer("tsv", out_, criteo_schema(2, 2)); },
              ThrowsMessage<Error>(HasSubstr("is a file")));
}

}  // namespace
}  // namespace emblem
