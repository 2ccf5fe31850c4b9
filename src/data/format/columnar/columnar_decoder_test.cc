// Parquet, ORC and Arrow IPC files as data sets: row groups, filters, differences between files,
// damage.
#include "data/format/columnar/columnar_decoder.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "data/test_data.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const char* const kColumnarDecoderFeatures = R"(
  feature_configs { raw_feature { feature_name: "I1" } }
  feature_configs { id_feature { feature_name: "C1" num_buckets: 100 embedding_dim: 4 } }
)";

class Columnar : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
  }

  static TestPipeline pipeline(const std::string& data = "") {
    return TestPipeline("data_config { fg_mode: FG_DAG dataset_type: ParquetDataset " + data +
                        " }" + kColumnarDecoderFeatures);
  }

  // Row i has the label i % 2, I1 i and C1 i % 100.
  static std::vector<TestRow> counted_rows(int count) {
    std::vector<TestRow> rows(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      rows[static_cast<size_t>(i)].label = i % 2;
      rows[static_cast<size_t>(i)].dense[0] = i;
      rows[static_cast<size_t>(i)].categories[0] = static_cast<uint32_t>(i % 100);
    }
    return rows;
  }

  static std::vector<float> first_numbers(const TestPipeline& pipeline,
                                          const LoaderOptions& options) {
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    std::vector<float> numbers;
    Batch batch;
    while (loader.next(batch))
      numbers.insert(numbers.end(), batch.dense.begin(), batch.dense.end());
    return numbers;
  }

  TempFolder folder_;
};

TEST_F(Columnar, RowGroupsAreThePartsOfAFile) {
  DataSource source;
  source.type = config::ParquetDataset;
  source.input = write_columnar(folder_, counted_rows(1000), "parquet", {"snappy", 300, true});
  const auto decoder = make_decoder(source, nullptr);
  const std::vector<Extent> parts = decoder->parts(0);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[3].begin, 900);
  EXPECT_EQ(parts[3].end, 1000);
  EXPECT_TRUE(decoder->reads_forward());
}

// A piece that does not follow the one before it is read from the middle of its row group.
TEST_F(Columnar, PiecesMayBeReadInAnyOrder) {
  DataSource source;
  source.type = config::ParquetDataset;
  source.input = write_columnar(folder_, counted_rows(1000), "parquet", {"snappy", 500, true});
  const auto decoder = make_decoder(source, nullptr);
  DecodedPiece piece;
  for (const Extent range : {Extent{700, 900}, Extent{100, 200}, Extent{200, 500}, Extent{0, 1},
                             Extent{900, 1000}, Extent{500, 501}}) {
    decoder->decode(0, range, {}, nullptr, piece);
    ASSERT_EQ(piece.block.rows, range.end - range.begin);
    for (int64_t i = 0; i < piece.block.rows; ++i)
      ASSERT_EQ(piece.block.columns[1].floats[static_cast<size_t>(i)],
                static_cast<float>(range.begin + i));
    EXPECT_EQ(piece.positions[0], range.begin);
  }
}

TEST_F(Columnar, FiltersSkipRowGroupsAndRows) {
  LoaderOptions options;
  options.input = write_columnar(folder_, counted_rows(1000), "parquet", {"snappy", 100, true});
  options.batch_size = 64;
  const auto numbers = first_numbers(
      pipeline("filters: \"I1 >= 350\" filters: \"I1 < 355\" filters: \"C1 != 52\""), options);
  EXPECT_THAT(numbers, ElementsAre(350, 351, 353, 354));

  DataSource source = source_of(
      pipeline("filters: \"I1 >= 350\" filters: \"I1 < 355\"").config.data_config(), options.input);
  EXPECT_EQ(make_decoder(source, nullptr)->parts(0).size(), 1u);
  source.filters = {"I1 > 5000"};
  EXPECT_EQ(make_decoder(source, nullptr)->parts(0).size(), 0u);
  EXPECT_THAT(loader_error(pipeline("filters: \"I1 > 5000\""), options), HasSubstr("no rows"));
  // Row groups do not show that there is none: the rows do.
  EXPECT_THAT(loader_error(pipeline("filters: \"I1 = 350.5\""), options),
              HasSubstr("no rows that fulfil data_config.filters"));
}

TEST_F(Columnar, AColumnThatIsNotThereIsNamedWithTheNearest) {
  LoaderOptions options;
  options.input = write_columnar(folder_, counted_rows(10), "parquet", {});
  const TestPipeline wrong(R"(data_config { fg_mode: FG_DAG dataset_type: ParquetDataset }
    feature_configs { raw_feature { feature_name: "I11" } })");
  EXPECT_THAT(loader_error(wrong, options),
              AllOf(HasSubstr("part-00000.parquet has no column \"I11\""),
                    HasSubstr("did you mean \"I1\"?")));
}

TEST_F(Columnar, FilesWithOtherTypesAreRefusedByName) {
  const std::string first = write_columnar(folder_, counted_rows(10), "parquet", {});
  const auto writer = make_writer(
      "parquet", folder_.path("other"),
      {{"label", ColumnType::kFloat}, {"I1", ColumnType::kText}, {"C1", ColumnType::kInt64}});
  Block block;
  block.rows = 1;
  block.columns.resize(3);
  block.columns[0].floats.push_back(1);
  block.columns[1].type = ColumnType::kText;
  block.columns[1].text = "7";
  block.columns[1].text_ends.push_back(1);
  block.columns[2].type = ColumnType::kInt64;
  block.columns[2].ints.push_back(3);
  writer->write(block);
  writer->finish();
  LoaderOptions options;
  options.input = first + "," + folder_.path("other");
  EXPECT_THAT(loader_error(pipeline(), options),
              AllOf(HasSubstr("other/part-00000.parquet: column \"I1\" is string"),
                    HasSubstr("it is float in"), HasSubstr("parquet/part-00000.parquet")));
}

TEST_F(Columnar, KeptColumnsAreText) {
  DataSource source;
  source.type = config::ParquetDataset;
  source.input = write_columnar(folder_, counted_rows(10), "parquet", {});
  source.keep = {"I1", "C1"};
  const std::vector<ColumnRequest> requests = {{.name = "label"}};
  const auto decoder = make_decoder(source, &requests);
  DecodedPiece piece;
  decoder->decode(0, {2, 4}, {}, nullptr, piece);
  ASSERT_EQ(piece.kept.rows(), 2u);
  EXPECT_EQ(piece.kept[0], "2,2");
  EXPECT_EQ(decoder->locate(0, 3), source.input + "/part-00000.parquet: row 4");
}

TEST_F(Columnar, FilesOfOtherFormatsAreNamed) {
  LoaderOptions options;
  options.input = folder_.write("a.csv", "label,I1,C1\n0,1,2\n");
  EXPECT_THAT(loader_error(pipeline(), options),
              AllOf(HasSubstr("a.csv is text, not Parquet; set data_config { dataset_type: "
                              "CsvDataset }"),
                    HasSubstr("--format parquet")));
  options.input = write_columnar(folder_, counted_rows(10), "orc", {});
  EXPECT_THAT(loader_error(pipeline(), options),
              HasSubstr("part-00000.orc is ORC, not Parquet; set data_config { dataset_type: "
                        "OrcDataset }"));
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Cuts, changed bytes and changed footers: rows are as they were, or one line says what is wrong.
TEST_F(Columnar, DamagedFilesGiveNoWrongRow) {
  const std::vector<TestRow> rows = counted_rows(600);
  for (const char* const format : {"parquet", "orc", "arrow"}) {
    const std::string folder = write_columnar(folder_, rows, format, {"", 200, true});
    const std::string path = folder + "/part-00000." + format;
    const std::string bytes = bytes_of(path);
    LoaderOptions options;
    options.input = path;
    TestPipeline reading = pipeline();
    reading.config.mutable_data_config()->set_dataset_type(guess_format(path));
    const std::vector<float> expected = first_numbers(reading, options);
    ASSERT_EQ(expected.size(), rows.size());
    Random random{17, 3};
    int refused = 0;
    for (int i = 0; i < 150; ++i) {
      std::string damaged = bytes;
      if (i % 3 == 0) {
        damaged.resize(random.below(bytes.size()));
      } else {
        // Half of the changes hit the footer, where all that is known of the file stands.
        const size_t begin = i % 3 == 1 ? 0 : bytes.size() - std::min<size_t>(bytes.size(), 600);
        for (size_t k = 0; k <= random.below(4); ++k)
          damaged[begin + random.below(bytes.size() - begin)] = static_cast<char>(random.bits());
      }
      std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
      try {
        const std::vector<float> found = first_numbers(reading, options);
        // ORC and Arrow IPC have no checksums.
        if (std::string(format) == "parquet" && i % 3 == 1) {
          EXPECT_EQ(found, expected) << i;
        }
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      }
    }
    EXPECT_GT(refused, 50) << format;
  }
}

// The processes that this thread has started.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::ifstream list(cat("/proc/self/task/", ::gettid(), "/children"));
  for (pid_t child = 0; list >> child;) found.push_back(child);
  return found;
}

TEST_F(Columnar, AReaderOfOrcThatWasKilledIsReplaced) {
  const std::vector<TestRow> rows = counted_rows(600);
  LoaderOptions options;
  options.input = write_columnar(folder_, rows, "orc", {"", 200, true}) + "/part-00000.orc";
  TestPipeline reading = pipeline();
  reading.config.mutable_data_config()->set_dataset_type(config::OrcDataset);
  const std::vector<float> expected = first_numbers(reading, options);
  for (const pid_t child : children()) {
    ::kill(child, SIGKILL);
    siginfo_t ended;
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  }
  EXPECT_EQ(first_numbers(reading, options), expected);
}

}  // namespace
}  // namespace emblem
