// What users read when their data is not as it should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/format/reader.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;

const char* const kTsv = R"(
  data_config { dataset_type: CriteoTsvDataset fg_mode: FG_DAG num_dense: 1 num_sparse: 1 }
  feature_configs { raw_feature { feature_name: "I1" } }
  feature_configs { id_feature { feature_name: "C1" num_buckets: 16 embedding_dim: 4 } }
)";

std::string with_data_config(const std::string& data_config) {
  return "data_config { fg_mode: FG_DAG " + data_config + R"( }
    feature_configs { raw_feature { feature_name: "I1" } }
    feature_configs { id_feature { feature_name: "C1" num_buckets: 16 embedding_dim: 4 } })";
}

class BadInput : public testing::Test {
 protected:
  // The message of the loader for a file of this name and content.
  std::string error(const std::string& pipeline, const std::string& name,
                    const std::string& content) {
    options_.input = folder_.write(name, content);
    return error(pipeline);
  }
  std::string error(const std::string& pipeline) {
    std::string message = loader_error(TestPipeline(pipeline), options_);
    const std::string folder = folder_.path() + "/";
    for (size_t at = 0; (at = message.find(folder)) != std::string::npos;)
      message.erase(at, folder.size());
    return message;
  }
  TempFolder folder_;
  LoaderOptions options_;
};

TEST_F(BadInput, ANumberThatIsNoneIsNamedWithFileLineAndColumn) {
  EXPECT_EQ(
      error(kTsv, "a.tsv", "0\t1\t00000001\n1\tabc\t00000002\n"),
      "a.tsv:2: column I1: \"abc\" is not a number (expected a decimal number or an empty field); "
      "fix the row or set data_config.max_bad_rows (--max-bad-rows N)");
  EXPECT_EQ(
      error(kTsv, "a.tsv", "0\t1\t00000001\n\n1\t1\txyz\n"),
      "a.tsv:3: column C1: \"xyz\" is not a category (expected a hexadecimal number or an empty "
      "field); fix the row or set data_config.max_bad_rows (--max-bad-rows N)");
}

TEST_F(BadInput, AnotherDelimiterInTheHeaderIsNamed) {
  const std::string pipeline = with_data_config("with_header: true");
  EXPECT_EQ(error(pipeline, "a.csv", "label;I1;C1\n0;1;2\n"),
            "a.csv has no column \"label\": its header looks as if the delimiter were \";\", but "
            "data_config.delimiter is \",\"; convert the file, or set data_config.delimiter");
  EXPECT_THAT(error(pipeline, "a.csv", "label\tI1\tC1\n0\t1\t2\n"),
              HasSubstr("as if the delimiter were \"\\t\""));
  EXPECT_THAT(error(pipeline, "a.csv", "label,J1,C1\n0,1,2\n"), HasSubstr("did you mean \"J1\""));
}

TEST_F(BadInput, AWrongNumberOfColumnsIsCounted) {
  EXPECT_EQ(
      error(kTsv, "a.tsv", "0\t1\t00000001\n0\t1\n"),
      "a.tsv:2: found 2 columns, expected 3 (label, 1 numbers, 1 categories, separated by tabs); "
      "fix the row or set data_config.max_bad_rows (--max-bad-rows N)");
  EXPECT_EQ(
      error(kTsv, "a.tsv", "0\t1\t00000001\n0\t1\t1\t1\n"),
      "a.tsv:2: found 4 columns, expected 3 (label, 1 numbers, 1 categories, separated by tabs); "
      "fix the row or set data_config.max_bad_rows (--max-bad-rows N)");
  EXPECT_EQ(error(with_data_config("with_header: true"), "a.csv", "label,I1,C1\n0,1,2\n0,1\n"),
            "a.csv:3: found 2 columns, expected 3 separated by \",\"; fix the row or set "
            "data_config.max_bad_rows (--max-bad-rows N)");
}

TEST_F(BadInput, LabelsMustBeInZeroToOne) {
  EXPECT_EQ(
      error(kTsv, "a.tsv", "0\t1\t00000001\n2\t1\t00000001\n"),
      "a.tsv:2: label label is 2 (binary cross-entropy expects a number from 0 to 1; of two "
      "other values, set data_config.label_positive to the one that is 1); fix the row or set "
      "data_config.max_bad_rows (--max-bad-rows N)");
  for (const char* label : {"", "nan"}) {
    EXPECT_EQ(
        error(kTsv, "a.tsv", std::string(label) + "\t1\t00000001\n"),
        "a.tsv:1: label label is missing or NaN (binary cross-entropy expects a number from 0 to "
        "1); fix the row "
        "or set data_config.max_bad_rows (--max-bad-rows N)");
  }
  options_.label_check = LabelCheck::kIgnore;
  EXPECT_EQ(error(kTsv, "a.tsv", "what\t1\t00000001\n"), "");
}

TEST_F(BadInput, AnIdOutsideAStaticTableIsNamed) {
  EXPECT_EQ(error(kTsv, "a.tsv", "0\t1\t0000000f\n0\t1\t00000010\n"),
            "a.tsv:2: feature C1: id 16 is outside a static table of num_buckets 16 (expected 0 to "
            "15); fix "
            "the row or set data_config.max_bad_rows (--max-bad-rows N)");
  std::string raw = as_raw(random_rows(2, 1));
  raw[24 + 12] = 16;  // C1 of the second record
  raw[12] = 3;
  raw[13] = raw[24 + 13] = 0;
  EXPECT_EQ(
      error(with_data_config("dataset_type: RawDataset num_dense: 2 num_sparse: 3"), "a.bin", raw),
      "a.bin: record 2: feature C1: id 16 is outside a static table of num_buckets 16 (expected 0 "
      "to "
      "15); fix the row or set data_config.max_bad_rows (--max-bad-rows N)");
}

TEST_F(BadInput, FilesThatAreMissingEmptyOrTruncatedAreNamed) {
  options_.input = folder_.path("nowhere.tsv");
  EXPECT_THAT(error(kTsv), HasSubstr("nowhere.tsv"));
  EXPECT_EQ(error(kTsv, "a.tsv", ""), "a.tsv is empty; expected a file with rows");
  std::filesystem::create_directory(folder_.path("nothing"));
  options_.input = folder_.path("nothing");
  EXPECT_THAT(error(kTsv), HasSubstr("nothing"));
  EXPECT_EQ(error(kTsv, "a.tsv", "\n\n"),
            "the data set has no rows (after sampling, holdout_ratio and bad rows)");
  options_.input.clear();
  EXPECT_EQ(error(kTsv), "no input is given; set train_input_path or eval_input_path");
  const std::string raw = with_data_config("dataset_type: RawDataset num_dense: 2 num_sparse: 3");
  EXPECT_EQ(error(raw, "a.bin", std::string(53, '\0')),
            "a.bin is truncated: 53 bytes are 2 records of 24 bytes and 5 bytes more; expected a "
            "multiple of "
            "24 (label, 2 dense, 3 categories; see num_dense and num_sparse)");
}

TEST_F(BadInput, SplitFoldersAreCheckedFileByFile) {
  const std::string pipeline =
      with_data_config("dataset_type: SplitDataset num_dense: 2 num_sparse: 3");
  options_.input = folder_.path("split");
  EXPECT_THAT(error(pipeline), HasSubstr("split does not exist; a SplitDataset is a folder"));
  write_split_matrix(folder_, "split/train", random_rows(10, 1));
  EXPECT_THAT(error(pipeline), HasSubstr("split has no label.bin"));
  EXPECT_THAT(error(pipeline), HasSubstr("did you mean split/train?"));
  options_.input += "/train";
  folder_.write("split/train/dense.bin", std::string(77, '\0'));
  EXPECT_THAT(
      error(pipeline),
      HasSubstr(
          "split/train/dense.bin is truncated: 77 bytes, expected 80 (10 records of 8 bytes"));
  folder_.write("split/train/metadata.json", "{");
  EXPECT_EQ(error(pipeline), "split/train/metadata.json is not a JSON object");
  folder_.write("split/train/metadata.json", R"({"dense_raw_type": "int7"})");
  EXPECT_THAT(error(pipeline),
              HasSubstr("metadata.json's dense_raw_type is \"int7\"; expected int8"));
  write_split_columns(folder_, "columns", random_rows(10, 1));
  folder_.write("columns/category_1.bin", std::string(33, '\0'));
  options_.input = folder_.path("columns");
  EXPECT_THAT(error(pipeline),
              HasSubstr("columns/category_1.bin is truncated or does not fit: 33 bytes"));
}

TEST_F(BadInput, CsvColumnsMustBeKnown) {
  EXPECT_EQ(error(with_data_config(""), "a.csv", "0,1,2\n"),
            "a.csv: the names of its columns are not known; set data_config.with_header: true if "
            "its first "
            "line has them, else list data_config.input_fields");
  EXPECT_EQ(error(with_data_config("with_header: true"), "a.csv", "label,I1,category\n0,1,2\n"),
            "a.csv has no column \"C1\"; did you mean \"I1\"? It has label, I1, category");
  EXPECT_EQ(error(with_data_config("with_header: true"), "a.csv", "label,I1,C1\n"),
            "a.csv has no rows: nothing follows its header line");
  EXPECT_EQ(
      error(with_data_config("with_header: true delimiter: '||'"), "a.csv", "label,I1,C1\n0,1,2\n"),
      "data_config.delimiter is \"||\"; expected one character");
  EXPECT_EQ(
      error(with_data_config("with_header: true"), "a.csv", "label,I1,C1\n1,\"2,3\n"),
      "a.csv:2: column I1: a quoted field is not closed (expected a closing quote and a delimiter "
      "or "
      "a line end after it, within 64 KiB; quotes within a quoted field are doubled); fix the row "
      "or set data_config.max_bad_rows (--max-bad-rows N)");
  EXPECT_EQ(
      error(with_data_config("with_header: true"), "a.csv", "label,I1,C1\n1,2,x\n"),
      "a.csv:2: column C1: \"x\" is not an integer (expected a whole number of 64 bits or an empty "
      "field; text needs hash_bucket_size or dynamicemb in place of num_buckets); fix the row or "
      "set "
      "data_config.max_bad_rows (--max-bad-rows N)");
  folder_.write("csv/1.csv", "label,I1,C1\n1,2,3\n");
  folder_.write("csv/2.csv", "label,C1,I1\n1,2,3\n");
  options_.input = folder_.path("csv");
  EXPECT_EQ(
      error(with_data_config("with_header: true")),
      "csv/2.csv has another header than csv/1.csv; expected the same columns in the same order");
}

TEST_F(BadInput, LibfmEntriesMustBePairs) {
  const std::string pipeline = R"(data_config { dataset_type: LibfmDataset fg_mode: FG_DAG }
    feature_configs { id_feature { feature_name: "f2" num_buckets: 16 embedding_dim: 4 } })";
  EXPECT_EQ(
      error(pipeline, "a.libfm", "1 2:1 3:1\n-1 2:1 3\n"),
      "a.libfm:2: column f2: \"3\" is not a feature (expected index:value); fix the row or set "
      "data_config.max_bad_rows (--max-bad-rows N)");
  EXPECT_EQ(error(pipeline, "a.libfm", "x 2:1 3:1\n"),
            "a.libfm:1: column label: \"x\" is not a number (expected 1, -1 or 0) (is line 1 a "
            "header? Then "
            "set data_config.with_header); fix the row or set data_config.max_bad_rows "
            "(--max-bad-rows N)");
  EXPECT_EQ(error(pipeline, "a.libfm", "1 2:x 3:1\n"), "") << "only what is asked for is read";
}

TEST_F(BadInput, AFormatThatCannotBeGuessedListsTheFormats) {
  const std::string path = folder_.write("a.data", "hello world\n");
  try {
    guess_format(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot tell its format; expected Parquet, ORC, Arrow IPC, "
                                        "Criteo TSV, CSV (.csv)"));
  }
  EXPECT_EQ(guess_format(folder_.write("b.data", "1 3:1 4:1\n")), config::LibfmDataset);
  EXPECT_EQ(guess_format(folder_.write("c.data", "1,2,3\n")), config::CsvDataset);
  EXPECT_EQ(guess_format(folder_.write("d.data", as_tsv(random_rows(2, 1)))),
            config::CriteoTsvDataset);
}

TEST_F(BadInput, TheSequentialReaderToleratesAndCountsToo) {
  DataSource source;
  source.type = config::CriteoTsvDataset;
  source.num_dense = source.num_sparse = 1;
  source.input = folder_.write("a.tsv", "0\t1\t00000001\n0\t1\n0\t2\t\n");
  source.max_bad_rows = 1;
  Block block;
  const auto reader = open_reader(source);
  ASSERT_TRUE(reader->next(block));
  EXPECT_EQ(block.rows, 2);
  EXPECT_EQ(reader->bad_rows(), 1);
  EXPECT_THAT(block.columns[2].missing, testing::ElementsAre(0, 1));
  EXPECT_FALSE(reader->next(block));
  source.max_bad_rows = 0;
  EXPECT_THROW(open_reader(source)->next(block), Error);
}

TEST_F(BadInput, ColumnsOfAHeaderDiffer) {
  EXPECT_EQ(error(with_data_config("with_header: true"), "a.csv", "label,I1,C1,I1\n1,2,3,4\n"),
            "a.csv: columns 2 and 4 of the header are both called \"I1\"; rename one of them");
  EXPECT_EQ(error(with_data_config("with_header: true"), "a.csv", "label,I1,C1,,\n1,2,3,,\n"), "")
      << "columns without a name are not read";
}

TEST_F(BadInput, AQuoteThatIsNotClosedEndsWithItsLine) {
  EXPECT_THAT(error(with_data_config("with_header: true"), "a.csv",
                    "label,I1,C1,note\n1,2,3,\"two\n0,3,4,\"x\"\n"),
              HasSubstr("a.csv:2: column note: a quoted field is not closed"));
  EXPECT_THAT(
      error(with_data_config("with_header: true"), "a.csv", "label,I1,C1,note\n1,2,3,\"a\"b\n"),
      HasSubstr("a.csv:2: column note: text follows the closing quote of a field"));
}

TEST_F(BadInput, BytesThatAreNotTextAreEscapedInMessages) {
  EXPECT_THAT(error(kTsv, "a.tsv", "0\t\xff\x1b[31m\t00000001\n"),
              HasSubstr("\"\\xff\\x1b[31m\" is not a number"));
  const std::string message =
      error(with_data_config("with_header: true"), "a.csv", "label,\xfe\x07,C1\n1,2,3\n");
  EXPECT_THAT(message, HasSubstr("has no column \"I1\""));
  EXPECT_THAT(message, HasSubstr("label, \\xfe\\x07, C1"));
  EXPECT_THAT(error(with_data_config("with_header: true"), "a.csv", "label,I1,C1\n1,größe,3\n"),
              HasSubstr("\"größe\" is not a number"))
      << "UTF-8 is text";
}

TEST_F(BadInput, FilesThatAreNotTextAreNamedAsWhatTheyAre) {
  EXPECT_EQ(error(kTsv, "a.tsv",
                  std::string("\xff\xfe"
                              "0\0\t\0",
                              6)),
            "a.tsv is UTF-16 text; convert it to UTF-8: iconv -f UTF-16 -t UTF-8");
  EXPECT_EQ(error(kTsv, "a.parquet", std::string("PAR1\0\0", 6)),
            "a.parquet is Parquet; set data_config { dataset_type: ParquetDataset }");
}

}  // namespace
}  // namespace emblem
