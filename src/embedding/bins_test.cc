#include "embedding/bins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/math/random.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

TableSettings evicting(int64_t capacity, int32_t bins, PartRange held = {}) {
  TableSettings settings{.name = "t",
                         .dim = 2,
                         .kind = TableKind::kDynamic,
                         .capacity = capacity,
                         .eviction = Eviction::kLru,
                         .rule = AdaGrad{}};
  settings.bins = bins;
  settings.held = held;
  return settings;
}

int32_t bin_of(int64_t key, int32_t bins) { return part_of_hashed_key(key) / (kParts / bins); }

// The first keys of a bin, from `next` on.
std::vector<int64_t> keys_of_bin(int32_t bin, int32_t bins, size_t count, int64_t& next) {
  std::vector<int64_t> keys;
  for (; keys.size() < count; ++next)
    if (bin_of(next, bins) == bin) keys.push_back(next);
  return keys;
}

class Bins : public DeviceTest {};

std::map<int64_t, int64_t> scores_of(const Table& table) {
  std::map<int64_t, int64_t> scores;
  table.export_rows(Context{}, 1000, [&](const RowBatch& batch) {
    for (size_t i = 0; i < batch.keys.size(); ++i) scores[batch.keys[i]] = batch.scores[i];
  });
  return scores;
}

void train(Table& table, const std::vector<int64_t>& keys) {
  Buffer<float> out(Device::kCpu, static_cast<int64_t>(keys.size()), table.dim());
  table.lookup_rows(Context{}, keys, Phase::kTrain, out.view());
}

void import_scores(Table& table, const std::map<int64_t, int64_t>& scores, size_t rows_at_once) {
  std::vector<int64_t> keys, values;
  const auto import = [&] {
    const std::vector<float> weights(keys.size() * static_cast<size_t>(table.dim()));
    table.import_rows(Context{}, {keys, weights, {}, values});
    keys.clear();
    values.clear();
  };
  for (const auto& [key, score] : scores) {
    keys.push_back(key);
    values.push_back(score);
    if (keys.size() == rows_at_once) import();
  }
  import();
}

std::string problem_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(BinsOfLimits, NumberFollowsFromTheLimits) {
  TableSettings settings = evicting(1000000, 0);
  EXPECT_EQ(bins_of_limits(settings), 64);
  settings.capacity = 64 * 256;
  EXPECT_EQ(bins_of_limits(settings), 64);
  settings.capacity -= 1;
  EXPECT_EQ(bins_of_limits(settings), 32);
  settings.capacity = 5000;
  EXPECT_EQ(bins_of_limits(settings), 16);
  settings.admission_threshold = 2;  // as many wait as have rows
  EXPECT_EQ(bins_of_limits(settings), 16);
  settings.admission_capacity = 600;
  EXPECT_EQ(bins_of_limits(settings), 2);
  settings.admission_threshold = 1;
  EXPECT_EQ(bins_of_limits(settings), 16);
  settings.capacity = 1;
  EXPECT_EQ(bins_of_limits(settings), 1);
}

TEST(BinsOfLimits, TablesWithoutLimitsHaveNone) {
  EXPECT_EQ(bins_of_limits({.name = "static", .dim = 1, .capacity = 100000}), 0);
  TableSettings settings = evicting(0, 0);
  EXPECT_EQ(bins_of_limits(settings), 0);
  settings.capacity = 100000;
  settings.eviction = Eviction::kNone;
  EXPECT_EQ(bins_of_limits(settings), 0);
  settings.admission_threshold = 3;
  EXPECT_EQ(bins_of_limits(settings), 64);
  settings.capacity = 0;
  EXPECT_EQ(bins_of_limits(settings), 0);
}

TEST_P(Bins, AFullBinEvictsItsOwnRowsAlone) {
  const auto table = make_table(context_, evicting(4 * 100 + 3, 4));
  int64_t next = 0;
  const std::vector<int64_t> others = keys_of_bin(0, 4, 100, next);
  train(*table, others);
  EXPECT_EQ(table->size(), 100);
  const std::vector<int64_t> keys = keys_of_bin(2, 4, 130, next);
  train(*table, {keys.begin(), keys.begin() + 60});
  train(*table, {keys.begin() + 60, keys.begin() + 100});
  EXPECT_EQ(table->size(), 200);  // both are full
  train(*table, {keys.begin() + 100, keys.begin() + 103});
  EXPECT_EQ(table->size(), 198);  // a twentieth of the bin, the smallest keys of the first batch
  for (size_t i = 0; i < 103; ++i) EXPECT_EQ(table->contains(keys[i]), i >= 5) << i;
  for (const int64_t key : others) EXPECT_TRUE(table->contains(key));
}

TEST_P(Bins, ErasedRowsLeaveTheirBin) {
  const auto table = make_table(context_, evicting(400, 4));
  int64_t next = 0;
  const std::vector<int64_t> keys = keys_of_bin(1, 4, 150, next);
  train(*table, {keys.begin(), keys.begin() + 100});
  EXPECT_EQ(table->erase({keys.data(), 50}), 50);
  train(*table, {keys.begin() + 100, keys.end()});
  EXPECT_EQ(table->size(), 100);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(table->contains(keys[i]), i >= 50);
  table->clear();
  train(*table, {keys.begin(), keys.begin() + 100});
  EXPECT_EQ(table->size(), 100);
}

// Whoever holds a bin evicts the same rows of it.
TEST_P(Bins, PartsOfATableTogetherHaveItsContent) {
  constexpr int32_t kBins = 16;
  TableSettings settings = evicting(kBins * 40, kBins);
  settings.eviction = Eviction::kLfu;
  settings.admission_threshold = 2;
  settings.admission_capacity = kBins * 50;
  const auto whole = make_table(context_, settings);
  std::vector<std::unique_ptr<Table>> parts;
  for (const PartRange held : {PartRange{0, 256}, PartRange{256, 2816}, PartRange{2816, kParts}}) {
    TableSettings part = settings;
    part.held = held;
    part.capacity = 40 * held_bins(part).count;
    part.admission_capacity = 50 * held_bins(part).count;
    parts.push_back(make_table(context_, part));
  }
  Random random{.seed = 3};
  for (int step = 0; step < 200; ++step) {
    std::vector<int64_t> keys(60);
    for (int64_t& key : keys)
      key = static_cast<int64_t>(random.below(2) ? random.below(300) : random.below(4000));
    train(*whole, keys);
    for (const auto& part : parts) {
      std::vector<int64_t> own;
      std::copy_if(keys.begin(), keys.end(), std::back_inserter(own), [&](int64_t key) {
        return part->settings().held.contains(part_of_hashed_key(key));
      });
      train(*part, own);
    }
  }
  std::map<int64_t, int64_t> together;
  std::vector<KeyCount> waiting;
  for (const auto& part : parts) {
    together.merge(scores_of(*part));
    const std::vector<KeyCount> own = part->export_admission();
    waiting.insert(waiting.end(), own.begin(), own.end());
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const KeyCount& a, const KeyCount& b) { return a.key < b.key; });
  EXPECT_GT(together.size(), 500u);
  EXPECT_GT(waiting.size(), 500u);
  EXPECT_EQ(together, scores_of(*whole));
  EXPECT_EQ(waiting, whole->export_admission());
}

TEST_P(Bins, ImportKeepsTheHighestScoresOfEach) {
  constexpr int32_t kBins = 4, kEach = 50;
  Random random{.seed = 9};
  std::map<int64_t, int64_t> scores;
  std::map<int32_t, std::vector<std::pair<int64_t, int64_t>>> by_bin;  // (score, key)
  for (int64_t key = 0; key < 300; ++key) {
    if (bin_of(key, kBins) == 3 && key > 100) continue;  // which is not full
    scores[key] = static_cast<int64_t>(random.below(20)) - 10;
    by_bin[bin_of(key, kBins)].push_back({scores[key], key});
  }
  std::map<int64_t, int64_t> expected;
  for (auto& [bin, items] : by_bin) {
    std::sort(items.rbegin(), items.rend());
    if (items.size() > kEach) items.resize(kEach);
    for (const auto& [score, key] : items) expected[key] = score;
  }
  ASSERT_LT(expected.size(), 3 * kEach + kEach);
  for (const size_t rows_at_once : {1u, 7u, 1000u}) {
    const auto table = make_table(context_, evicting(kBins * kEach, kBins));
    import_scores(*table, scores, rows_at_once);
    EXPECT_EQ(scores_of(*table), expected) << rows_at_once << " rows at once";
  }
}

TEST_P(Bins, ImportMayLowerTheScoreOfARow) {
  const auto table = make_table(context_, evicting(2 * 10, 2));
  int64_t next = 0;
  const std::vector<int64_t> keys = keys_of_bin(0, 2, 12, next);
  std::map<int64_t, int64_t> scores;
  for (size_t i = 0; i < 10; ++i) scores[keys[i]] = 5;
  import_scores(*table, scores, 1000);
  EXPECT_EQ(scores_of(*table), scores);
  // One row that is there and one that is new are the lowest now.
  import_scores(*table, {{keys[3], 1}, {keys[10], 2}, {keys[11], 9}}, 1000);
  scores.erase(keys[3]);
  scores[keys[11]] = 9;
  EXPECT_EQ(scores_of(*table), scores);
}

TEST_P(Bins, ImportKeepsTheKeysThatWaitLongest) {
  TableSettings settings = evicting(400, 4);
  settings.admission_threshold = 9;
  const auto table = make_table(context_, settings);
  int64_t next = 0;
  std::vector<KeyCount> counts, expected;
  for (const int64_t key : keys_of_bin(2, 4, 110, next))
    counts.push_back({key, 1 + static_cast<int64_t>(counts.size()) % 3});
  table->import_admission(counts);
  // 95 of 100: without 15 of the smallest keys that were counted once.
  for (size_t i = 0; i < counts.size(); ++i)
    if (i >= 45 || counts[i].count > 1) expected.push_back(counts[i]);
  EXPECT_EQ(table->export_admission(), expected);
}

TEST_P(Bins, MostKeysThatWaitMayBeOfOne) {
  TableSettings settings = evicting(300000, 2);
  settings.admission_threshold = 3;
  const auto table = make_table(context_, settings);
  std::vector<KeyCount> counts;
  int64_t next = 0;
  for (const int64_t key : keys_of_bin(1, 2, 90000, next)) counts.push_back({key, 1});
  table->import_admission(counts);
  EXPECT_EQ(table->export_admission(), counts);
  const std::vector<int64_t> later = keys_of_bin(1, 2, 60000, next);
  for (size_t i = 0; i < later.size(); i += 20000)
    train(*table, {later.begin() + i, later.begin() + i + 20000});
  for (const int64_t key : later) counts.push_back({key, 1});
  EXPECT_EQ(table->export_admission(), counts);
  train(*table, {counts[0].key, counts[0].key});
  EXPECT_TRUE(table->contains(counts[0].key));
  counts.erase(counts.begin());
  EXPECT_EQ(table->export_admission(), counts);
}

TEST_P(Bins, ABatchWithMoreKeysThanABinIsRefused) {
  const auto table = make_table(context_, evicting(20, 2, {kParts / 2, kParts}));
  int64_t next = 0;
  const std::vector<int64_t> keys = keys_of_bin(1, 2, 21, next);
  EXPECT_EQ(problem_of([&] { train(*table, keys); }),
            "table t: a batch has 21 distinct keys of bin 1 of 2, whose share of the capacity is "
            "20: raise the capacity or lower the batch size");
}

TEST_P(Bins, AreHeldAsAWhole) {
  EXPECT_EQ(problem_of([&] {
              make_table(context_, evicting(100, 4, {0, 1000}));
            }),
            "table t: parts 0-999 are not whole bins, of which it has 4");
  EXPECT_EQ(problem_of([&] { make_table(context_, evicting(100, 3)); }),
            "table t: 3 bins, expected a power of two up to 64");
  EXPECT_EQ(problem_of([&] { make_table(context_, evicting(100, 4, {1000, 1000})); }), "none");
}

EMBLEM_TEST_ON_EVERY_DEVICE(Bins);

}  // namespace
}  // namespace emblem
