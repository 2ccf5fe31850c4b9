// Data sets in memory: the batches of files with the same rows, errors, ownership, and sizes that
// the sender chose.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "data/format/columnar/columnar_decoder.h"
#include "data/format/memory/table.h"
#include "data/loader/table_batches.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

using Table = std::shared_ptr<const ColumnTable>;

const char* const kMemoryPipeline = R"(
  data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_NORMAL }
  feature_configs { raw_feature { feature_name: "number" default_value: "5" } }
  feature_configs { id_feature { feature_name: "key" num_buckets: 1000 default_value: "7" embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "text" hash_bucket_size: 1000 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "tags" hash_bucket_size: 50 embedding_dim: 4 } }
  feature_configs { id_feature { feature_name: "scored" hash_bucket_size: 50 weighted: true embedding_dim: 4 } }
  feature_configs { sequence_id_feature { feature_name: "clicks" num_buckets: 100 sequence_length: 20 embedding_dim: 4 } }
  feature_configs { sequence_id_feature { feature_name: "bags" hash_bucket_size: 100 value_dim: 0 sequence_length: 20 embedding_dim: 4 } }
)";

// Rows with values of every kind, some of them missing.
struct MemoryRows {
  std::vector<float> labels, numbers;
  std::vector<int64_t> keys;
  std::vector<uint8_t> key_missing;
  std::vector<std::string> texts;
  std::vector<int64_t> tags;
  std::vector<int32_t> tag_offsets{0};
  std::vector<std::string> scored;
  std::vector<float> scores;
  std::vector<int32_t> scored_offsets{0};
  std::vector<int32_t> clicks;
  std::vector<int32_t> click_offsets{0};
  std::vector<std::string> bags;
  std::vector<int32_t> bag_offsets{0}, bag_sequences{0};
  std::string csv = "label,number,key,text,tags,scored,clicks,bags\n";

  explicit MemoryRows(int count, uint64_t seed = 3) {
    Random random{seed, 1};
    for (int i = 0; i < count; ++i) add(i, random);
  }

  void add(int row, Random& random) {
    labels.push_back(static_cast<float>(row % 2));
    const bool no_number = random.below(4) == 0, no_key = random.below(4) == 0;
    numbers.push_back(no_number ? std::nanf("") : static_cast<float>(row) / 4);
    keys.push_back(no_key ? 0 : static_cast<int64_t>(random.below(1000)));
    key_missing.push_back(no_key ? 1 : 0);
    texts.push_back(random.below(4) == 0 ? "" : "word" + std::to_string(random.below(30)));
    csv += cat(row % 2, ",", no_number ? "" : cat(numbers.back()), ",",
               no_key ? "" : cat(keys.back()), ",", texts.back(), ",");
    for (uint64_t left = random.below(4); left > 0; --left) {
      tags.push_back(static_cast<int64_t>(random.below(500)));
      csv += cat(tags.back(), left > 1 ? "\x1d" : "");
    }
    tag_offsets.push_back(static_cast<int32_t>(tags.size()));
    csv += ",";
    for (uint64_t left = random.below(4); left > 0; --left) {
      scored.push_back("s" + std::to_string(random.below(9)));
      scores.push_back(static_cast<float>(random.below(8)) / 2);
      csv += cat(scored.back(), ":", scores.back(), left > 1 ? "\x1d" : "");
    }
    scored_offsets.push_back(static_cast<int32_t>(scored.size()));
    csv += ",";
    for (uint64_t left = 1 + random.below(5); left > 0; --left) {
      clicks.push_back(static_cast<int32_t>(random.below(100)));
      csv += cat(clicks.back(), left > 1 ? ";" : "");
    }
    click_offsets.push_back(static_cast<int32_t>(clicks.size()));
    csv += ",";
    for (uint64_t left = 1 + random.below(3); left > 0; --left) {
      for (uint64_t values = 1 + random.below(3); values > 0; --values) {
        bags.push_back("b" + std::to_string(random.below(40)));
        csv += cat(bags.back(), values > 1 ? "\x1d" : "");
      }
      bag_offsets.push_back(static_cast<int32_t>(bags.size()));
      csv += left > 1 ? ";" : "\n";
    }
    bag_sequences.push_back(static_cast<int32_t>(bag_offsets.size() - 1));
  }

  std::vector<ColumnSpan> columns() const {
    return {
        {.name = "label", .values = std::span(labels)},
        {.name = "number", .values = std::span(numbers)},
        {.name = "key", .values = std::span(keys), .missing = key_missing},
        {.name = "text", .values = std::span(texts)},
        {.name = "tags", .values = std::span(tags), .offsets = tag_offsets},
        {.name = "scored",
         .values = std::span(scored),
         .offsets = scored_offsets,
         .weights = scores},
        {.name = "clicks", .values = std::span(clicks), .offsets = click_offsets},
        {.name = "bags",
         .values = std::span(bags),
         .offsets = bag_offsets,
         .sequence_offsets = bag_sequences},
    };
  }
  Table table() const { return ColumnTable::of_spans(columns()); }
};

class Memory : public testing::Test {
 protected:
  Memory() { options_.batch_size = 100; }

  std::vector<std::string> batches(const LoaderOptions& options) const {
    std::vector<std::string> all;
    for (const SeenBatch& each : read_all(pipeline_, options)) all.push_back(each.content);
    return all;
  }

  // What a loader says of columns that are changed by `change`.
  template <class Change>
  std::string error(const Change& change) {
    std::vector<ColumnSpan> columns = rows_.columns();
    change(columns);
    try {
      options_.tables = {ColumnTable::of_spans(columns)};
    } catch (const Error& problem) {
      return problem.what();
    }
    return loader_error(pipeline_, options_);
  }

  TempFolder folder_;
  const TestPipeline pipeline_{kMemoryPipeline};
  const MemoryRows rows_{1000};
  LoaderOptions options_;
};

// Rows that know their number, and a source that gives them table by table.
struct NumberedTables {
  std::vector<std::unique_ptr<std::vector<float>>> labels;
  std::vector<std::unique_ptr<std::vector<int64_t>>> keys;
  std::vector<Table> tables;

  explicit NumberedTables(std::initializer_list<int64_t> sizes) {
    int64_t number = 0;
    for (const int64_t size : sizes) {
      auto& label = *labels.emplace_back(std::make_unique<std::vector<float>>());
      auto& key = *keys.emplace_back(std::make_unique<std::vector<int64_t>>());
      for (int64_t i = 0; i < size; ++i, ++number) {
        label.push_back(static_cast<float>(number % 2));
        key.push_back(number);
      }
      tables.push_back(
          ColumnTable::of_spans({{.name = "label", .values = std::span<const float>(label)},
                                 {.name = "C1", .values = std::span<const int64_t>(key)}}));
    }
  }

  NextTable source() const {
    return [this, at = size_t{0}]() mutable -> Table {
      if (at == tables.size()) {
        at = 0;
        return nullptr;
      }
      return tables[at++];
    };
  }
};

const char* const kNumberedPipeline = R"(
  data_config { fg_mode: FG_DAG }
  feature_configs { id_feature { feature_name: "C1" embedding_dim: 4 dynamicemb { max_capacity: 10 } } }
)";

TEST_F(Memory, GivesTheBatchesOfACsvFile) {
  options_.input = folder_.write("rows.csv", rows_.csv);
  options_.piece_bytes = 1 << 24;  // pieces of text and of rows end at other places
  std::vector<std::string> from_file;
  const auto contents = [&](const LoaderOptions& options) {
    Loader loader(pipeline_.config.data_config(), pipeline_.features, options);
    std::vector<std::string> all;
    Batch batch;
    while (loader.next(batch)) all.push_back(describe(batch));
    return all;
  };
  const std::vector<std::string> expected = contents(options_);
  ASSERT_EQ(expected.size(), 10u);
  options_.input.clear();
  options_.tables = {rows_.table()};
  EXPECT_EQ(contents(options_), expected);
  options_.tables.clear();
  options_.next_table = [table = rows_.table(), given = false]() mutable -> Table {
    return std::exchange(given, !given) ? nullptr : table;
  };
  EXPECT_EQ(contents(options_), expected);

  TableBatches maker(pipeline_.config.data_config(), pipeline_.features);
  Batch batch;
  options_.batch_size = 1000;
  for (int i = 0; i < 2; ++i) {
    maker.make(rows_.table(), batch);
    batch.last_in_epoch = true;
    EXPECT_EQ(describe(batch), contents(options_).at(0));
  }
}

TEST_F(Memory, GivesTheBatchesOfAParquetFile) {
  if (!has_columnar_formats()) GTEST_SKIP() << "built without Arrow";
  const std::vector<TestRow> rows = random_rows(1000, 4);
  const TestPipeline pipeline(R"(data_config { fg_mode: FG_DAG dataset_type: ParquetDataset }
    feature_configs { raw_feature { feature_name: "I1" } }
    feature_configs { id_feature { feature_name: "C2" hash_bucket_size: 1000 embedding_dim: 4 } })");
  options_.input = write_columnar(folder_, rows, "parquet", {"snappy", 5000, true});
  std::vector<float> labels, numbers;
  std::vector<int64_t> keys;
  for (const TestRow& row : rows) {
    labels.push_back(static_cast<float>(row.label));
    numbers.push_back(static_cast<float>(row.dense[0]));
    keys.push_back(row.categories[1]);
  }
  LoaderOptions memory = options_;
  memory.input.clear();
  memory.tables = {
      ColumnTable::of_spans({{.name = "C2", .values = std::span<const int64_t>(keys)},
                             {.name = "I1", .values = std::span<const float>(numbers)},
                             {.name = "label", .values = std::span<const float>(labels)}})};
  for (const RowPart part : {RowPart::kAll, RowPart::kTraining, RowPart::kHoldout}) {
    options_.rows = memory.rows = part;
    options_.holdout_ratio = memory.holdout_ratio = 0.3;
    options_.sample_ratio = memory.sample_ratio = 0.8;
    const std::vector<SeenBatch> expected = read_all(pipeline, options_);
    const std::vector<SeenBatch> found = read_all(pipeline, memory);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].content, expected[i].content);
  }
}

TEST_F(Memory, TablesAreCutAndShuffledAsFilesAre) {
  const NumberedTables data({700, 0, 300, 1, 999});
  const TestPipeline pipeline(kNumberedPipeline);
  for (const bool asked : {false, true}) {
    SCOPED_TRACE(asked ? "a source" : "tables");
    LoaderOptions options;
    options.batch_size = 64;
    options.epochs = 2;
    for (const bool shuffle : {false, true}) {
      options.shuffle = shuffle;
      options.shuffle_rows = shuffle ? 300 : 0;
      options.start = {};
      const auto set_source = [&] {
        if (asked) options.next_table = data.source();
        if (!asked) options.tables = data.tables;
      };
      const auto read = [&](int workers) {
        set_source();
        options.workers = workers;
        return read_all(pipeline, options);
      };
      const std::vector<SeenBatch> all = read(1);
      ASSERT_EQ(all.size(), 64u);
      const std::vector<SeenBatch> again = read(3);
      ASSERT_EQ(again.size(), all.size());
      for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(again[i].content, all[i].content) << i;
      for (const size_t from : {0u, 5u, 12u, 31u, 40u, 62u}) {
        options.start = all[from].next;
        if (options.start.epoch >= options.epochs) continue;
        const std::vector<SeenBatch> rest = read(1 + static_cast<int>(from % 3));
        ASSERT_EQ(rest.size(), all.size() - from - 1) << from;
        for (size_t i = 0; i < rest.size(); ++i)
          ASSERT_EQ(rest[i].content, all[from + 1 + i].content) << from << " " << i;
      }
      // Every row once an epoch.
      set_source();
      options.start = {};
      Loader loader(pipeline.config.data_config(), pipeline.features, options);
      std::vector<int64_t> seen(2000, 0);
      Batch batch;
      bool in_order = true;
      int64_t last = -1;
      while (loader.next(batch)) {
        for (const int64_t key : batch.sparse[0].keys) {
          ++seen[static_cast<size_t>(key)];
          in_order &= key == 0 || key == last + 1;
          last = key;
        }
      }
      EXPECT_EQ(in_order, !shuffle);
      EXPECT_THAT(seen, testing::Each(2));
    }
  }
}

TEST_F(Memory, SourceThatFailsIsAnErrorAfterTheRowsBefore) {
  const NumberedTables data({500});
  const TestPipeline pipeline(kNumberedPipeline);
  for (const int workers : {1, 3}) {
    LoaderOptions options;
    options.batch_size = 100;
    options.workers = workers;
    options.next_table = [&, asked = 0]() mutable -> Table {
      if (++asked == 4) throw Error(ErrorCode::kUnavailable, "the queue is gone");
      return data.tables[0];
    };
    Loader loader(pipeline.config.data_config(), pipeline.features, options);
    Batch batch;
    int64_t rows = 0;
    EXPECT_THAT(
        [&] {
          while (loader.next(batch)) rows += batch.rows;
        },
        ThrowsMessage<Error>("the queue is gone"));
    EXPECT_GE(rows, 1400);
  }
}

TEST_F(Memory, SourceWithoutTablesAndTablesWithoutRowsAreErrors) {
  const TestPipeline pipeline(kNumberedPipeline);
  LoaderOptions options;
  options.next_table = []() -> Table { return nullptr; };
  EXPECT_THAT(loader_error(pipeline, options), HasSubstr("has no rows"));
  const NumberedTables empty({0});
  options.next_table = empty.source();
  EXPECT_THAT(loader_error(pipeline, options), HasSubstr("has no rows"));
  options.next_table = nullptr;
  options.tables = empty.tables;
  EXPECT_THAT(loader_error(pipeline, options), HasSubstr("has no rows"));
  options.next_table = empty.source();
  EXPECT_THAT(loader_error(pipeline, options), HasSubstr("expected one of them"));
}

TEST_F(Memory, TablesWithOtherColumnsAreRefusedByName) {
  const std::vector<float> labels(10), numbers(10);
  const std::vector<int64_t> keys(10);
  const auto table = [&](const char* name, bool is_key) {
    const ColumnSpan label{.name = "label", .values = std::span(labels)};
    if (is_key) return ColumnTable::of_spans({label, {.name = name, .values = std::span(keys)}});
    return ColumnTable::of_spans({label, {.name = name, .values = std::span(numbers)}});
  };
  const TestPipeline pipeline(kNumberedPipeline);
  LoaderOptions options;
  options.tables = {table("C1", true), table("C2", true)};
  EXPECT_THAT(loader_error(pipeline, options),
              HasSubstr("the table in memory has no column \"C1\""));
  options.tables = {table("C1", true), table("C1", false)};
  EXPECT_THAT(loader_error(pipeline, options), HasSubstr("is float, but it is int64"));
}

TEST_F(Memory, ColumnsThatDoNotFitAreErrorsOfOneLine) {
  const auto all = [](const std::string& text) {
    return AllOf(HasSubstr(text), Not(HasSubstr("\n")));
  };
  EXPECT_THAT(error([](auto& columns) { columns[2].name = "kex"; }),
              all("the table in memory has no column \"key\"; did you mean \"kex\"?"));
  EXPECT_THAT(
      error([&](auto& columns) { columns[1].values = std::span(rows_.numbers).first(999); }),
      all("column \"number\" has 999 rows, but the first has 1000"));
  EXPECT_THAT(error([&](auto& columns) { columns[1].values = std::span(rows_.texts); }),
              all("column number: \"word"));
  EXPECT_THAT(error([](auto& columns) { columns[2].missing = columns[2].missing.first(3); }),
              all("has 1000 values, but `missing` has 3"));
  EXPECT_THAT(error([](auto& columns) { columns[5].weights = columns[5].weights.first(2); }),
              all(" values, but 2 weights"));
  EXPECT_THAT(error([&](auto& columns) { columns[0].weights = rows_.labels; }),
              all("only lists may have them"));
}

TEST_F(Memory, OffsetsOutOfRangeAreRefused) {
  std::vector<int32_t> offsets = rows_.tag_offsets;
  const auto with_offsets = [&](size_t at, int32_t value) {
    offsets = rows_.tag_offsets;
    offsets[at] = value;
    return error([&](auto& columns) { columns[4].offsets = offsets; });
  };
  EXPECT_THAT(with_offsets(0, -1), HasSubstr("offsets of lists are negative"));
  EXPECT_THAT(with_offsets(1000, 1 << 30), HasSubstr("go up to 1073741824"));
  EXPECT_THAT(with_offsets(500, 1 << 30), HasSubstr("go down from 1073741824"));
  const std::vector<int32_t> text_offsets = {0, 2, 9};
  EXPECT_THAT(
      [&] {
        ColumnTable::of_spans({{"t", TextSpan{"abc", text_offsets}}});
      },
      ThrowsMessage<Error>(HasSubstr("column \"t\": offsets of text go up to 9")));
}

}  // namespace
}  // namespace emblem
