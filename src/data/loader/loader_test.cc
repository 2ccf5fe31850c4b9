#include "data/loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/memory/block_pool.h"
#include "core/threads/becomes_true_test.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Rows that know their number: C1 counts them.
std::string numbered_tsv(int rows, int first = 0) {
  std::string text;
  for (int i = first; i < first + rows; ++i) {
    char line[64];
    std::snprintf(line, sizeof line, "%d\t%d\t%08x\n", i % 2, i % 7, static_cast<unsigned>(i));
    text += line;
  }
  return text;
}

const char* const kPipeline = R"(
  data_config { dataset_type: CriteoTsvDataset fg_mode: FG_DAG num_dense: 1 num_sparse: 1 }
  feature_configs { raw_feature { feature_name: "I1" } }
  feature_configs { id_feature { feature_name: "C1" embedding_dim: 4 dynamicemb { max_capacity: 10 } } }
)";

struct Read {
  std::vector<std::vector<int64_t>> epochs;  // row numbers in the order in which they came
  std::vector<int64_t> batch_rows;
};

Read read_numbers(const LoaderOptions& options) {
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  Read read;
  Batch batch;
  bool new_epoch = true;
  while (loader.next(batch)) {
    if (new_epoch) read.epochs.emplace_back();
    for (int64_t i = 0; i < batch.rows; ++i) {
      const int64_t number = batch.sparse[0].keys[i];
      EXPECT_EQ(batch.labels[i], static_cast<float>(number % 2)) << "rows are torn apart";
      EXPECT_EQ(batch.dense[i], static_cast<float>(number % 7)) << "rows are torn apart";
      read.epochs.back().push_back(number);
    }
    read.batch_rows.push_back(batch.rows);
    new_epoch = batch.last_in_epoch;
  }
  return read;
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> counting(int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = i;
  return values;
}

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    folder_.write("data/a.tsv", numbered_tsv(700));
    folder_.write("data/b.tsv", numbered_tsv(300, 700));
    options_.input = folder_.path("data");
    options_.batch_size = 64;
    options_.piece_bytes = 500;
    options_.workers = 2;
  }
  TempFolder folder_;
  LoaderOptions options_;
};

TEST_F(LoaderTest, WithoutShufflingRowsComeAsTheyAreStored) {
  options_.epochs = 3;
  const Read read = read_numbers(options_);
  ASSERT_EQ(read.epochs.size(), 3u);
  for (const auto& epoch : read.epochs) EXPECT_EQ(epoch, counting(1000));
  EXPECT_EQ(read.batch_rows[15], 1000 - 15 * 64) << "batches do not span epochs";
}

TEST_F(LoaderTest, ShufflingGivesEveryRowOnceAnEpochInAnotherOrder) {
  options_.epochs = 2;
  options_.shuffle = true;
  options_.shuffle_rows = 200;
  const Read read = read_numbers(options_);
  ASSERT_EQ(read.epochs.size(), 2u);
  for (const auto& epoch : read.epochs) {
    EXPECT_EQ(sorted(epoch), counting(1000));
    EXPECT_NE(epoch, counting(1000));
  }
  EXPECT_NE(read.epochs[0], read.epochs[1]);
  options_.seed = 2;
  EXPECT_NE(read_numbers(options_).epochs[0], read.epochs[0]);
}

TEST_F(LoaderTest, ShuffleRowsOfOneMixesPiecesAndKeepsRowsTogether) {
  options_.shuffle = true;
  options_.shuffle_rows = 1;
  const std::vector<int64_t> epoch = read_numbers(options_).epochs.at(0);
  EXPECT_EQ(sorted(epoch), counting(1000));
  int64_t neighbours = 0;
  for (size_t i = 1; i < epoch.size(); ++i) neighbours += epoch[i] == epoch[i - 1] + 1;
  EXPECT_GT(neighbours, 900);
  EXPECT_LT(neighbours, 999);
}

TEST_F(LoaderTest, AWindowOfTheWholeDataMixesNearAndFar) {
  options_.shuffle = true;
  options_.shuffle_rows = 1000000;
  const std::vector<int64_t> epoch = read_numbers(options_).epochs.at(0);
  EXPECT_EQ(sorted(epoch), counting(1000));
  double distance = 0;
  for (size_t i = 0; i < epoch.size(); ++i)
    distance += std::abs(epoch[i] - static_cast<int64_t>(i));
  EXPECT_NEAR(distance / 1000, 333, 40) << "the mean distance of a uniform permutation";
}

TEST_F(LoaderTest, SamplingKeepsTheSameShareOfRowsInEveryEpochAndOrder) {
  options_.epochs = 2;
  options_.sample_ratio = 0.4;
  const Read read = read_numbers(options_);
  EXPECT_NEAR(static_cast<double>(read.epochs[0].size()), 400, 50);
  EXPECT_EQ(read.epochs[0], read.epochs[1]);
  options_.shuffle = true;
  options_.shuffle_rows = 100;
  EXPECT_EQ(sorted(read_numbers(options_).epochs[1]), read.epochs[0]);
  options_.seed = 9;
  EXPECT_NE(sorted(read_numbers(options_).epochs[1]), read.epochs[0]);
}

TEST_F(LoaderTest, DropRemainderDropsTheShortBatchAndMarksTheLastFullOne) {
  options_.epochs = 2;
  options_.drop_remainder = true;
  const Read read = read_numbers(options_);
  ASSERT_EQ(read.epochs.size(), 2u);
  EXPECT_EQ(read.epochs[0], counting(15 * 64));
  EXPECT_THAT(read.batch_rows, testing::Each(64));
}

TEST_F(LoaderTest, ABatchThatEndsWithTheDataIsTheLast) {
  options_.batch_size = 500;
  options_.epochs = 2;
  EXPECT_EQ(read_numbers(options_).batch_rows, (std::vector<int64_t>{500, 500, 500, 500}));
  options_.drop_remainder = true;
  EXPECT_EQ(read_numbers(options_).batch_rows, (std::vector<int64_t>{500, 500, 500, 500}));
}

TEST_F(LoaderTest, ZeroEpochsGoOnWithoutEnd) {
  options_.epochs = 0;
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options_);
  Batch batch;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.next.epoch, 6);
  EXPECT_EQ(loader.statistics().rows, 6 * 1000 + 4 * 64);
}

TEST_F(LoaderTest, APositionBehindTheLastEpochHasNoBatches) {
  options_.epochs = 2;
  options_.start.epoch = 2;
  EXPECT_TRUE(read_numbers(options_).epochs.empty());
}

TEST_F(LoaderTest, MemoryIsBoundedHoweverSlowTheReader) {
  options_.epochs = 0;
  options_.prefetch_batches = 2;
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  const double idle = loader.statistics().idle_seconds;
  EXPECT_TRUE(becomes_true([&] { return loader.statistics().idle_seconds > idle + 0.1; }))
      << "workers continue although no batch is taken";
  EXPECT_LT(loader.statistics().bytes, 20 * 500);
}

TEST_F(LoaderTest, CanBeDestroyedAtAnyMoment) {
  const TestPipeline pipeline(kPipeline);
  options_.epochs = 0;
  options_.workers = 4;
  for (int i = 0; i < 50; ++i) {
    Loader loader(pipeline.config.data_config(), pipeline.features, options_);
    Batch batch;
    for (int k = 0; k < i % 5; ++k) loader.next(batch);
  }
}

TEST_F(LoaderTest, StatisticsCountRowsBytesAndTime) {
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options_);
  Batch batch;
  while (loader.next(batch)) {
  }
  const LoaderStatistics statistics = loader.statistics();
  EXPECT_EQ(statistics.rows, 1000);
  EXPECT_EQ(statistics.bytes, 13 * 1000);
  EXPECT_EQ(statistics.bad_rows, 0);
  EXPECT_GT(statistics.parse_seconds, 0);
}

// expected_rows() after each batch, and once more after the last.
std::vector<int64_t> expectations(const LoaderOptions& options) {
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options);
  std::vector<int64_t> expected;
  Batch batch;
  while (loader.next(batch)) expected.push_back(loader.expected_rows());
  expected.push_back(loader.expected_rows());
  return expected;
}

TEST_F(LoaderTest, ExpectsRowsByTheShareOfTheFilesThatWasParsed) {
  options_.epochs = 3;
  const std::vector<int64_t> expected = expectations(options_);
  EXPECT_THAT(expected, testing::Each(testing::AllOf(testing::Ge(2900), testing::Le(3100))));
  EXPECT_EQ(expected.back(), 3000);
  options_.sample_ratio = 0.5;
  EXPECT_NEAR(static_cast<double>(expectations(options_)[8]), 1500, 300);
}

TEST_F(LoaderTest, ExpectsWhatIsLeftAfterAResume) {
  options_.epochs = 2;
  const auto seen = read_all(TestPipeline(kPipeline), options_);
  options_.start = seen[7].next;
  const std::vector<int64_t> expected = expectations(options_);
  EXPECT_NEAR(static_cast<double>(expected.front()), 2000 - 8 * 64, 100);
  EXPECT_EQ(expected.back(), 2000 - 8 * 64);
}

TEST_F(LoaderTest, ExpectsWholeBatchesOnlyWhereTheRemainderIsDropped) {
  options_.drop_remainder = true;
  EXPECT_EQ(expectations(options_).back(), 15 * 64);
  options_.piece_bytes = 1 << 20;  // all is parsed before the first batch
  EXPECT_EQ(expectations(options_).front(), 15 * 64);
}

TEST_F(LoaderTest, StopsAfterMaxBatchesAndExpectsNoMoreRows) {
  options_.max_batches = 5;
  for (const int64_t epochs : {0, 1}) {
    options_.epochs = epochs;
    EXPECT_THAT(read_numbers(options_).batch_rows, testing::ElementsAre(64, 64, 64, 64, 64));
    EXPECT_THAT(expectations(options_), testing::Each(5 * 64));
  }
  options_.max_batches = 17;  // one more than there are
  EXPECT_EQ(expectations(options_).back(), 1000);
  options_.max_batches = 0;
  EXPECT_TRUE(read_numbers(options_).epochs.empty());
}

TEST_F(LoaderTest, ExpectsNothingOfDataWithoutEnd) {
  options_.epochs = 0;
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options_);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(loader.expected_rows(), 0);
}

TEST_F(LoaderTest, BadRowsAreSkippedAndCountedUpToTheLimitOfAnEpoch) {
  folder_.write("data/c.tsv", "x\t1\t00000000\n1\t2\t000003e9\n1\n");
  options_.epochs = 2;
  options_.max_bad_rows = 2;
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options_);
  Batch batch;
  while (loader.next(batch)) {
  }
  EXPECT_EQ(loader.statistics().bad_rows, 4);
  EXPECT_EQ(loader.statistics().rows, 2 * 1001);
  options_.max_bad_rows = 1;
  EXPECT_EQ(loader_error(pipeline, options_),
            "2 rows cannot be read, data_config.max_bad_rows allows 1; the first: " +
                folder_.path("data/c.tsv") +
                ":1: column label: \"x\" is not a number (expected a decimal "
                "number or an empty field) (is line 1 a header? Then set data_config.with_header)");
}

TEST_F(LoaderTest, BadRowsThatWereOnlyReadAheadDoNotCount) {
  folder_.write("bad.tsv", numbered_tsv(64) + "not a row\n" + numbered_tsv(64, 64));
  options_.input = folder_.path("bad.tsv");
  options_.batch_size = 32;
  options_.epochs = 0;
  options_.max_bad_rows = 1;
  const TestPipeline pipeline(kPipeline);
  Loader loader(pipeline.config.data_config(), pipeline.features, options_);
  Batch batch;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(loader.next(batch));  // two passes
  const double idle = loader.statistics().idle_seconds;
  ASSERT_TRUE(becomes_true([&] { return loader.statistics().idle_seconds > idle; }));
  EXPECT_EQ(loader.statistics().bad_rows, 2);
}

TEST_F(LoaderTest, RowsInFrontOfABadOneAreDeliveredWhateverTheWorkers) {
  folder_.write("data/a.tsv", numbered_tsv(400) + "0\tabc\t00000000\n" + numbered_tsv(300, 400));
  const TestPipeline pipeline(kPipeline);
  std::set<int64_t> delivered;
  for (const int workers : {1, 2, 4, 8}) {
    options_.workers = workers;
    Loader loader(pipeline.config.data_config(), pipeline.features, options_);
    Batch batch;
    const auto read = [&] {
      while (loader.next(batch)) {
      }
    };
    EXPECT_THROW(read(), Error);
    EXPECT_THROW(loader.next(batch), Error) << "the error stays";
    delivered.insert(loader.statistics().rows);
  }
  EXPECT_EQ(delivered.size(), 1u);
  EXPECT_GE(*delivered.begin(), 256);
}

TEST_F(LoaderTest, APositionOfOtherDataIsRefused) {
  options_.start.piece = 100000;
  EXPECT_THAT(loader_error(TestPipeline(kPipeline), options_),
              testing::HasSubstr("has the data or the batch size changed?"));
}

TEST_F(LoaderTest, OptionsFollowTheConfiguration) {
  const TestPipeline pipeline(R"(
    train_input_path: "train" eval_input_path: "test"
    train_config { num_epochs: 3 seed: 9 }
    data_config { batch_size: 100 eval_batch_size: 200 num_workers: 3 shuffle: true shuffle_buffer_size: 4
                  sample_ratio: 0.5 drop_remainder: true max_bad_rows: 7 })");
  EXPECT_EQ(training_loader_options(pipeline.config).rows, RowPart::kAll);
  EXPECT_EQ(evaluation_loader_options(pipeline.config).rows, RowPart::kAll);
  const LoaderOptions train = training_loader_options(pipeline.config);
  EXPECT_EQ(train.input, "train");
  EXPECT_EQ(train.batch_size, 100);
  EXPECT_EQ(train.workers, 3);
  EXPECT_EQ(train.epochs, 3);
  EXPECT_EQ(train.seed, 9u);
  EXPECT_TRUE(train.shuffle && train.drop_remainder);
  EXPECT_EQ(train.shuffle_rows, 400);
  EXPECT_EQ(train.sample_ratio, 0.5);
  EXPECT_EQ(train.max_bad_rows, 7);
  const LoaderOptions eval = evaluation_loader_options(pipeline.config);
  EXPECT_EQ(eval.input, "test");
  EXPECT_EQ(eval.batch_size, 200);
  EXPECT_EQ(eval.epochs, 1);
  EXPECT_FALSE(eval.shuffle || eval.drop_remainder);
  EXPECT_EQ(eval.sample_ratio, 1.0);
}

// Every column of a batch that has any.
bool lies_in(const Batch& batch, const std::pmr::memory_resource* memory) {
  for (const SparseColumn& column : batch.sparse)
    if (column.keys.get_allocator().memory != memory) return false;
  return batch.dense.get_allocator().memory == memory && batch.memory() == memory;
}

TEST(LoaderMemory, BatchesLieInTheGivenMemoryAndAreTheSame) {
  const TempFolder folder;
  LoaderOptions options{.input = folder.write("rows.tsv", numbered_tsv(5000)),
                        .batch_size = 64,
                        .workers = 3,
                        .epochs = 2};
  const TestPipeline pipeline(kPipeline);
  for (const bool shuffle : {false, true}) {
    options.shuffle = shuffle;
    options.shuffle_rows = 500;
    options.memory = nullptr;
    const std::vector<SeenBatch> expected = read_all(pipeline, options);
    BlockPool pool(std::pmr::new_delete_resource());
    options.memory = &pool;
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    Batch batch;
    for (const SeenBatch& seen : expected) {
      ASSERT_TRUE(loader.next(batch));
      EXPECT_TRUE(lies_in(batch, &pool));
      EXPECT_EQ(describe(batch) + describe(batch.next), seen.content);
    }
    EXPECT_FALSE(loader.next(batch));
    batch = {};  // goes before the pool
  }
}

TEST(LoaderFiles, DirectReadsGiveTheSameBatches) {
  const TempFolder folder;
  const LoaderOptions options{.input = folder.write("rows.tsv", numbered_tsv(20000)),
                              .batch_size = 100,
                              .workers = 2,
                              .piece_bytes = 5000};
  TestPipeline pipeline(kPipeline);
  const std::vector<SeenBatch> expected = read_all(pipeline, options);
  pipeline.config.mutable_data_config()->set_direct_reads(true);
  const std::vector<SeenBatch> found = read_all(pipeline, options);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].content, expected[i].content);
}

}  // namespace
}  // namespace emblem
