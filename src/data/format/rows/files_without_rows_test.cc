// Files without rows among others, as exports of days and partitions without events are.
#include "data/format/rows/files_without_rows.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "data/format/columnar/columnar_decoder.h"
#include "data/format/decoder.h"
#include "data/format/formats_test.h"

namespace emblem {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

class FilesWithoutRowsTest : public testing::Test {
 protected:
  // a and c have rows; b and 0 are empty, d has nothing but a header.
  void SetUp() override {
    const auto rows = [](int first) {
      std::string text = "label,id\n";
      for (int i = first; i < first + 300; ++i) text += cat(i % 2, ",", i, "\n");
      return text;
    };
    for (const char* const folder : {"some/", "all/"}) {
      folder_.write(cat(folder, "a.csv"), rows(0));
      folder_.write(cat(folder, "c.csv"), rows(300));
    }
    folder_.write("some/0.csv", "");
    folder_.write("some/00.csv", "label,id\n");
    folder_.write("some/b.csv", "");
    folder_.write("some/d.csv", "\xef\xbb\xbflabel,id");
  }

  LoaderOptions options(const std::string& name) const {
    LoaderOptions options;
    options.input = folder_.path(name);
    options.batch_size = 32;
    options.epochs = 2;
    options.holdout_ratio = 0.2;
    options.rows = RowPart::kTraining;
    return options;
  }

  // Batches, and where each is continued from.
  std::vector<std::string> contents(const LoaderOptions& options) const {
    std::vector<std::string> contents;
    for (const SeenBatch& seen : read_all(pipeline_, options)) contents.push_back(seen.content);
    return contents;
  }

  TempFolder folder_;
  const TestPipeline pipeline_{R"(data_config { fg_mode: FG_DAG with_header: true }
    feature_configs { id_feature { feature_name: "id" num_buckets: 600 embedding_dim: 4 } })"};
};

TEST_F(FilesWithoutRowsTest, AreSkippedWithOneWarning) {
  testing::internal::CaptureStderr();
  for (const bool shuffle : {false, true}) {
    for (int64_t stream = 0; stream < 3; ++stream) {
      LoaderOptions some = options("some"), all = options("all");
      some.shuffle = all.shuffle = shuffle;
      some.streams = all.streams = 3;
      some.stream = all.stream = stream;
      EXPECT_EQ(contents(some), contents(all));
    }
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, EndsWith(cat("4 of 6 files have no rows and are skipped, the first: ",
                                  folder_.path("some/0.csv"), "\n")));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
}

TEST_F(FilesWithoutRowsTest, APositionIsThatOfTheOtherFiles) {
  Loader whole(pipeline_.config.data_config(), pipeline_.features, options("all"));
  Batch batch;
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(whole.next(batch));
  LoaderOptions some = options("some"), all = options("all");
  some.start = all.start = batch.next;
  EXPECT_EQ(contents(some), contents(all));
}

TEST_F(FilesWithoutRowsTest, AreNamedWhereNoneHasRows) {
  LoaderOptions none = options("some/0.csv");
  EXPECT_THAT(loader_error(pipeline_, none), EndsWith("0.csv is empty; expected a file with rows"));
  none.input = folder_.path("some/00.csv");
  EXPECT_THAT(loader_error(pipeline_, none),
              EndsWith("00.csv has no rows: nothing follows its header line"));
  none.input += "," + folder_.path("some/b.csv");
  const std::string error = loader_error(pipeline_, none);
  EXPECT_THAT(error, testing::StartsWith("none of 2 files has rows; the first: "));
  EXPECT_THAT(error, EndsWith("00.csv has no rows: nothing follows its header line"));
}

TEST_F(FilesWithoutRowsTest, AreNoneThatColumnsAreGuessedFrom) {
  const DataSource source = guess_source(folder_.path("some"));
  EXPECT_EQ(source.type, config::CsvDataset);
  EXPECT_TRUE(source.with_header);
  EXPECT_THAT(csv_names(source), testing::ElementsAre("label", "id"));
  const std::unique_ptr<BlockReader> reader = open_reader(source);
  EXPECT_EQ(reader->schema()[1].type, ColumnType::kInt64);
  int64_t rows = 0;
  for (Block block; reader->next(block);) rows += block.rows;
  EXPECT_EQ(rows, 600);
}

TEST_F(FilesWithoutRowsTest, OfOtherFormatsAreSkipped) {
  for (const TestFormat& format : kFormats) {
    if (!format.is_there()) continue;
    SCOPED_TRACE(format.name);
    TempFolder folder;
    LoaderOptions options;
    options.input = format.write(folder, random_rows(50, 3));
    if (std::filesystem::exists(options.input + "/label.bin")) continue;  // a folder of columns
    const TestPipeline pipeline = format.pipeline();
    const auto content = [&] {
      std::string content;
      for (const SeenBatch& seen : read_all(pipeline, options)) content += seen.content;
      return content;
    };
    const std::string expected = content();
    options.input = folder.write("0-empty", "") + "," + options.input;
    EXPECT_EQ(content(), expected);
    options.input = folder.path("0-empty");
    EXPECT_THAT(loader_error(pipeline, options), HasSubstr("is empty; expected a file with rows"));
  }
}

// Writers of no rows may not know the types of columns.
TEST_F(FilesWithoutRowsTest, OfColumnsNeedNotHaveTheirTypes) {
  if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
  const TestPipeline pipeline(R"(data_config { fg_mode: FG_DAG dataset_type: ParquetDataset }
    feature_configs { raw_feature { feature_name: "I1" } })");
  LoaderOptions options;
  options.input = write_columnar(folder_, random_rows(50, 3), "parquet", {});
  const size_t batches = read_all(pipeline, options).size();
  const auto writer = make_writer("parquet", folder_.path("none"), {{"x", ColumnType::kText}});
  writer->finish();
  ASSERT_TRUE(std::filesystem::exists(folder_.path("none/part-00000.parquet")));
  options.input = folder_.path("none") + "," + options.input;
  EXPECT_EQ(read_all(pipeline, options).size(), batches);
  const std::unique_ptr<BlockReader> reader =
      open_reader(source_of(pipeline.config.data_config(), options.input));
  int64_t rows = 0;
  for (Block block; reader->next(block);) rows += block.rows;
  EXPECT_EQ(rows, 50);
}

}  // namespace
}  // namespace emblem
