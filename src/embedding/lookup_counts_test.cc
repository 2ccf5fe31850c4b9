// Values that were looked up and those that found no row, against what tables say of each key.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "embedding/tables_test.h"

namespace emblem {
namespace {

class LookupCountsTest : public TablesTest {
 protected:
  // 1 for each value of a feature for which the table has no row now.
  std::vector<uint8_t> absent(const Table& table, const Bags& bags) {
    std::vector<uint8_t> flags(bags.keys.size());
    if (table.is_static()) return flags;
    const std::vector<int64_t> all = keys_of(table);
    const std::set<int64_t> known(all.begin(), all.end());
    for (size_t i = 0; i < flags.size(); ++i) flags[i] = known.contains(bags.keys[i]) ? 0 : 1;
    return flags;
  }
  static LookupCounts count(const std::vector<uint8_t>& absent) {
    return {std::ssize(absent), std::count(absent.begin(), absent.end(), uint8_t{1})};
  }

  // One key per bag, or up to 3 where the feature has bags.
  static Bags draw(Random& random, uint64_t keys, int64_t rows, bool has_bags) {
    Bags bags;
    if (has_bags) bags.offsets.push_back(0);
    for (int64_t row = 0; row < rows; ++row) {
      const uint64_t count = has_bags ? random.below(4) : 1;
      for (uint64_t i = 0; i < count; ++i)
        bags.keys.push_back(static_cast<int64_t>(random.below(keys)));
      if (has_bags) bags.offsets.push_back(static_cast<int32_t>(bags.keys.size()));
    }
    return bags;
  }
};
EMBLEM_TEST_TRANSFERS_TOO(LookupCountsTest);

TableSettings dynamic_table(const char* name, int64_t dim) {
  return {.name = name, .dim = dim, .kind = TableKind::kDynamic};
}

// Tables of every kind and of every way to copy rows; every second feature has bags.
std::vector<TableSettings> tables_of_every_kind() {
  std::vector<TableSettings> all = {{.name = "static", .dim = 8, .capacity = 500},
                                    dynamic_table("open", 3),
                                    dynamic_table("admitting", 4),
                                    dynamic_table("full", 128),
                                    dynamic_table("long", 200),
                                    dynamic_table("cached", 16),
                                    dynamic_table("narrow", 64)};
  all[2].admission_threshold = 3;
  all[3].capacity = 400;
  all[3].eviction = Eviction::kLru;
  all[4].admission_threshold = 2;
  all[5].capacity = 600;
  all[5].eviction = Eviction::kLfu;
  all[5].admission_threshold = 2;
  all[5].placement = Placement::kCache;
  all[5].device_bytes = 200 * 64;
  all[6].dtype = DType::kF16;
  return all;
}

TEST_P(LookupCountsTest, AgreeWithTheTables) {
  std::vector<LookupFeature> features;
  for (const TableSettings& settings : tables_of_every_kind()) {
    Table& table = make(settings);
    features.push_back({&table});
    features.push_back({&table, Pooling::kMean});
  }
  TestLookup lookup = over(features);
  Random random{.seed = 5, .stream = 0};
  std::vector<LookupCounts> expected(features.size());
  int64_t missing_in_training = 0;
  for (int step = 1; step <= 12; ++step) {
    const Phase phase = step % 3 == 0 ? Phase::kEval : Phase::kTrain;
    const int64_t rows = 40 + step;
    std::vector<Bags> bags;
    for (size_t f = 0; f < features.size(); ++f)
      bags.push_back(draw(random, features[f].table->is_static() ? 500 : 350, rows, f % 2 == 1));
    lookup.forward(bags, rows, phase);
    for (size_t f = 0; f < features.size(); ++f) {
      const std::vector<uint8_t> flags = absent(*features[f].table, bags[f]);
      EXPECT_EQ(lookup.absent()[f], flags) << "feature " << f << ", step " << step;
      const LookupCounts of = count(flags);
      expected[f].values += of.values;
      expected[f].missing += of.missing;
      missing_in_training += phase == Phase::kTrain ? of.missing : 0;
    }
    if (step % 4 != 0) continue;  // several passes between reads
    EXPECT_EQ(lookup.take_counts(), expected) << "step " << step;
    expected.assign(features.size(), {});
  }
  EXPECT_GT(missing_in_training, 0);
  EXPECT_EQ(lookup.take_counts(), std::vector<LookupCounts>(features.size()));
}

// On a GPU large batches take another way.
TEST_P(LookupCountsTest, AgreeWithTheTablesInALargeBatch) {
  TableSettings settings = dynamic_table("t", 4);
  settings.admission_threshold = 2;
  Table& table = make(settings);
  TestLookup lookup = over({{&table}, {&table}});
  Random random{.seed = 6, .stream = 0};
  constexpr int64_t kRows = 200000;
  const std::vector<Bags> bags = {draw(random, 1000000, kRows, false),
                                  draw(random, 300000, kRows, false)};
  for (const Phase phase : {Phase::kTrain, Phase::kEval}) {
    lookup.forward(bags, kRows, phase);
    const std::vector<std::vector<uint8_t>> flags = {absent(table, bags[0]),
                                                     absent(table, bags[1])};
    EXPECT_EQ(lookup.absent(), flags);
    const std::vector<LookupCounts> expected = {count(flags[0]), count(flags[1])};
    EXPECT_GT(expected[0].missing, 1000);
    EXPECT_EQ(lookup.take_counts(), expected);
  }
}

TEST_P(LookupCountsTest, AnEmptyBatchCountsNothing) {
  Table& table = make(dynamic_table("t", 4));
  TestLookup lookup = over({{&table}});
  lookup.forward({Bags{}}, 0, Phase::kTrain);
  lookup.forward({Bags{}}, 0, Phase::kEval);
  EXPECT_EQ(lookup.take_counts(), std::vector<LookupCounts>(1));
}

}  // namespace
}  // namespace emblem
