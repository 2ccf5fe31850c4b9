#include "data/convert.h"

#include <gmock/gmock.h>

#include "core/threads/thread_pool.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/synth/synth.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ConvertTest : public testing::Test {
 protected:
  ConvertResult run(const std::string& from, const std::string& to, const std::string& format,
                    const WriterOptions& writing = {}, InputHints hints = {}) {
    ConvertOptions options;
    options.from = describe_input(folder_.path(from), hints);
    options.to = folder_.path(to);
    options.format = format;
    options.writing = writing;
    return convert(Context{}, options);
  }

  // A data set of 9000 rows under `name`/train.
  void synth(const std::string& name, double missing) {
    SynthOptions options;
    options.out = folder_.path(name);
    options.rows = 9'000;
    options.test_rows = 1;
    options.scale = 0.01;
    options.missing_dense = options.missing_sparse = missing;
    synthesize(Context{}, options);
  }

  std::string bytes(const std::string& name) const { return read_text_file(folder_.path(name)); }

  TempFolder folder_;
};

TEST_F(ConvertTest, RoundTripsThroughEveryFormatGiveTheSameBytes) {
  synth("d", 0);
  run("d/train", "raw", "raw");
  run("raw", "split", "split");
  run("split", "csv", "csv");
  const ConvertResult result = run("csv", "tsv", "tsv");
  EXPECT_EQ(result.rows, 9'000);
  EXPECT_EQ(result.bytes_written, static_cast<int64_t>(bytes("d/train/part-00000.tsv").size()));
  EXPECT_TRUE(bytes("tsv/part-00000.tsv") == bytes("d/train/part-00000.tsv"));
}

TEST_F(ConvertTest, ColumnarFormatsKeepAllValues) {
  if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
  synth("d", 0.1);
  WriterOptions writing;
  writing.columnar.row_group_rows = 2'000;
  run("d/train", "parquet", "parquet", writing);
  run("parquet", "orc", "orc", writing);
  run("orc", "arrow", "arrow", writing);
  run("arrow", "tsv", "tsv");
  EXPECT_TRUE(bytes("tsv/part-00000.tsv") == bytes("d/train/part-00000.tsv"));
}

// Not only the first time.
TEST_F(ConvertTest, TheOutputMayStandNextToTheInputAndBeReplaced) {
  folder_.write("a.csv", "label,C1\n1,2\n");
  WriterOptions writing;
  writing.overwrite = Overwrite::kReplace;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run("a.csv", "out", "csv", writing).rows, 1);
}

TEST_F(ConvertTest, TextKeepsMissingValues) {
  synth("d", 0.1);
  run("d/train", "csv", "csv");
  run("csv", "tsv", "tsv");
  EXPECT_TRUE(bytes("tsv/part-00000.tsv") == bytes("d/train/part-00000.tsv"));
}

TEST_F(ConvertTest, HexadecimalWordsOf32BitsSurviveRaw) {
  const std::string rows = "1\t3\tfedcba98\n0\t-1\t00000001\n";
  folder_.write("in.tsv", rows);
  InputHints hints;
  hints.num_dense = hints.num_sparse = 1;
  run("in.tsv", "raw", "raw", {}, hints);
  hints.format = "raw";
  run("raw", "tsv", "tsv", {}, hints);
  EXPECT_EQ(bytes("tsv/part-00000.tsv"), rows);
}

TEST_F(ConvertTest, ManyFilesBecomeOneAndOneBecomesMany) {
  synth("d", 0);
  WriterOptions bundled;
  bundled.bundle_bytes = 700'000;
  run("d/train", "many", "tsv", bundled);
  const auto files =
      std::distance(fs::directory_iterator(folder_.path("many")), fs::directory_iterator());
  EXPECT_GT(files, 1);
  run("many", "one", "tsv");
  EXPECT_TRUE(bytes("one/part-00000.tsv") == bytes("d/train/part-00000.tsv"));
}

TEST_F(ConvertTest, ThreadsDoNotChangeTheBytes) {
  synth("d", 0.05);
  ThreadPool pool(3);
  Context threaded;
  threaded.threads = &pool;
  ConvertOptions options;
  options.from = describe_input(folder_.path("d/train"), {});
  options.to = folder_.path("threaded");
  options.format = "csv";
  convert(threaded, options);
  run("d/train", "plain", "csv");
  EXPECT_TRUE(bytes("threaded/part-00000.csv") == bytes("plain/part-00000.csv"));
}

TEST_F(ConvertTest, TextKeepsIdsAndNumbersAsTheyAreWritten) {
  const std::string rows =
      "zip,id,price,C1\n05064,18446744073709551615,53346166043.0,0000000a\n"
      "5064,7,0.123456789012,0000000b\n";
  folder_.write("a.csv", rows);
  run("a.csv", "csv", "csv");
  EXPECT_EQ(bytes("csv/part-00000.csv"), rows);
  if (!has_columnar_formats()) return;
  for (const std::string format : {"parquet", "orc", "arrow"}) {
    run("a.csv", format, format);
    run(format, format + "-csv", "csv");
    EXPECT_EQ(bytes(format + "-csv/part-00000.csv"),
              "zip,id,price,C1\n05064,18446744073709551615,53346166043,0000000a\n"
              "5064,7,0.123456789012,0000000b\n")
        << format;
  }
}

TEST_F(ConvertTest, LibfmBecomesCsv) {
  folder_.write("in.libfm", "1 5:1 9:1\n-1 6:1 8:1\n");
  run("in.libfm", "csv", "csv");
  EXPECT_EQ(bytes("csv/part-00000.csv"), "label,f1,f2\n1,5,9\n0,6,8\n");
}

TEST_F(ConvertTest, WhatCannotBeRepresentedIsAnErrorThatLeavesNothing) {
  folder_.write("in.csv", "label,price,city\n1,2.5,Oslo\n0,1,Rome\n");
  EXPECT_THAT([&] { run("in.csv", "out", "raw"); },
              ThrowsMessage<Error>(HasSubstr("column 'city' is text")));
  folder_.write("missing.tsv", "1\t\t0000000a\n");
  InputHints hints;
  hints.num_dense = hints.num_sparse = 1;
  EXPECT_THAT([&] { run("missing.tsv", "out", "raw", {}, hints); },
              ThrowsMessage<Error>(HasSubstr("row 1, column I1: the value is missing")));
  folder_.write("bad.tsv", "1\t2\t0000000a\n1\tx\t0000000a\n");
  hints.format = "tsv";
  EXPECT_THAT([&] { run("bad.tsv", "out", "raw", {}, hints); },
              ThrowsMessage<Error>(HasSubstr("bad.tsv:2")));
  EXPECT_FALSE(fs::exists(folder_.path("out")));
  EXPECT_FALSE(fs::exists(folder_.path(".out.partial")));
}

TEST_F(ConvertTest, BadRowsAreSkippedAndCountedUpToTheLimit) {
  folder_.write("in.tsv", "1\t2\t0000000a\nnonsense\n0\t3\t0000000b\n");
  InputHints hints;
  hints.format = "tsv";
  hints.num_dense = hints.num_sparse = 1;
  hints.max_bad_rows = 1;
  const ConvertResult result = run("in.tsv", "out", "tsv", {}, hints);
  EXPECT_EQ(result.bad_rows, 1);
  EXPECT_EQ(result.rows, 2);
}

TEST_F(ConvertTest, UnknownFormatsListTheChoices) {
  folder_.write("in.tsv", "1\t2\t0000000a\n");
  InputHints hints;
  hints.format = "xml";
  EXPECT_THAT([&] { run("in.tsv", "out", "tsv", {}, hints); },
              ThrowsMessage<Error>(HasSubstr(
                  "unknown input format 'xml'; expected one of tsv, csv, raw, split, libfm")));
}

}  // namespace
}  // namespace emblem
