// Rows that come to a host once, against every rank asking for its rows.
#include <gmock/gmock.h>

#include "comm/counted_ranks.h"
#include "shard/sharded_training_test.h"

namespace emblem {
namespace {

struct HostDedupHosts {
  const char* name;
  std::vector<std::string> of_ranks;
};
const HostDedupHosts kHosts[] = {{"two_of_two", {"a", "a", "b", "b"}},
                                 {"three_of_two", {"a", "a", "b", "b", "c", "c"}},
                                 {"two_and_one", {"a", "a", "b"}},
                                 {"one_and_three", {"a", "b", "b", "b"}},
                                 {"mixed", {"a", "b", "a", "c", "b", "a", "b"}},
                                 {"one_each", {"a", "b", "c"}},
                                 {"one_host", {"a", "a", "a"}}};

Case on_hosts(const std::vector<std::string>& hosts, HostDedup dedup, DType precision = DType::kF32,
              Device device = Device::kCpu) {
  return {.ranks = static_cast<int>(hosts.size()),
          .shards = 8,
          .device = device,
          .precision = precision,
          .hosts = hosts,
          .host_dedup = dedup};
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 float tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance) << what << ", " << i;
}

class HostRows : public testing::TestWithParam<HostDedupHosts> {};

TEST_P(HostRows, GiveTheBytesOfOneRank) {
  const Trained one = train({1, 8});
  const Trained several = train(on_hosts(GetParam().of_ranks, HostDedup::kRows));
  EXPECT_EQ(several.outputs, one.outputs);
  EXPECT_EQ(several.rows, one.rows);
  EXPECT_EQ(several.scores, one.scores);
  EXPECT_EQ(several.counts, one.counts);
}

TEST_P(HostRows, GiveTheNormOfOneRankWhereRowsAreWhole) {
  Case several = on_hosts(GetParam().of_ranks, HostDedup::kRows);
  several.plans = Plans::kWholeRows;
  EXPECT_EQ(train(several).norms, train({.shards = 8, .plans = Plans::kWholeRows}).norms);
}

// Rounding twice to 16 bits is rounding once.
TEST_P(HostRows, GiveTheBytesOfDirectRowsIn16Bits) {
  const std::vector<std::string>& hosts = GetParam().of_ranks;
  for (const DType precision : {DType::kBf16, DType::kF16}) {
    const Trained direct = train(on_hosts(hosts, HostDedup::kNone, precision));
    const Trained shared = train(on_hosts(hosts, HostDedup::kRows, precision));
    EXPECT_EQ(shared.outputs, direct.outputs);
    EXPECT_EQ(shared.rows, direct.rows);
  }
}

INSTANTIATE_TEST_SUITE_P(, HostRows, testing::ValuesIn(kHosts),
                         [](const auto& info) { return info.param.name; });

class HostSums : public testing::TestWithParam<std::tuple<HostDedupHosts, Device>> {
 protected:
  void SetUp() override {
    if (!device_is_usable(device())) GTEST_SKIP() << "no CUDA device here";
  }
  const std::vector<std::string>& hosts() const { return std::get<0>(GetParam()).of_ranks; }
  Device device() const { return std::get<1>(GetParam()); }
  Case case_of(DType precision = DType::kF32) const {
    return on_hosts(hosts(), HostDedup::kRowsAndSums, precision, device());
  }
};

// Sums of gradients have another order: equal counts and scores, values up to rounding.
TEST_P(HostSums, AgreeWithOneRank) {
  Case on_many = case_of();
  on_many.signs = Signs::kOne;
  const Trained one = train({.shards = 8, .device = device(), .signs = Signs::kOne});
  const Trained several = train(on_many);
  EXPECT_EQ(several.scores, one.scores);
  EXPECT_EQ(several.counts, one.counts);
  for (const auto& [shard, steps] : one.outputs) {
    EXPECT_EQ(several.outputs.at(shard)[0], steps[0]) << "no update yet";
    for (size_t step = 1; step < steps.size(); ++step)
      expect_near(several.outputs.at(shard)[step], steps[step], 0.1f, cat("shard ", shard));
  }
  for (const auto& [table, rows] : one.rows) {
    // Stochastic rounding of 16-bit rows turns the least difference into one of their last bit.
    const float tolerance = table == "shy" || table == "cut" || table == "pooled" ? 0.02f : 1e-4f;
    ASSERT_EQ(several.rows.at(table).size(), rows.size()) << table;
    for (const auto& [key, row] : rows)
      expect_near(several.rows.at(table).at(key), row, tolerance, cat(table, " key ", key));
  }
  for (size_t i = 0; i < one.norms.size(); ++i)
    EXPECT_NEAR(several.norms[i], one.norms[i], 1e-5 * one.norms[i]);
}

TEST_P(HostSums, In16BitsAgreeWithExactOnes) {
  const Trained exact = train(case_of()), rounded = train(case_of(DType::kBf16));
  EXPECT_EQ(rounded.counts, exact.counts);
  for (size_t i = 0; i < exact.norms.size(); ++i)
    EXPECT_NEAR(rounded.norms[i], exact.norms[i], 0.02 * exact.norms[i]);
}

// Neither announced keys nor peer memory.
TEST_P(HostSums, DependOnTheHostsAlone) {
  const Trained plain = train(case_of());
  Case other = case_of();
  other.ahead = 1;
  other.reach = Reach::kExchanged;
  expect_equal(train(other), plain);
}

INSTANTIATE_TEST_SUITE_P(, HostSums,
                         testing::Combine(testing::ValuesIn(kHosts),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param));
                         });

TEST(HostSumsOnGpus, AreNotWithoutThem) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  EXPECT_THAT(
      [] {
        train(on_hosts({"a", "a"}, HostDedup::kRows, DType::kF32, Device::kCuda));
      },
      testing::ThrowsMessage<Error>(
          "lookup: GPUs that share rows of other hosts sum gradients by host"));
}

// Bytes of a training step on two hosts with two ranks each: a table with rows of 4 floats,
// whose parts are on the ranks in equal shares.
CountedRanks::Bytes bytes_of_step(const std::vector<std::vector<int64_t>>& keys_of_rank,
                                  HostDedup dedup, DType precision = DType::kF32) {
  CountedRanks::Bytes all;
  std::mutex mutex;
  const auto run = [&](Communicator& ranks) {
    CountedRanks counted(ranks);
    const Context context;
    const TableSettings settings{.name = "t", .dim = 4, .kind = TableKind::kDynamic};
    const TableShards shards = over_all_ranks("t", 4);
    const auto table = make_table(context, settings_of_part(settings, shards, ranks.rank()));
    const ShardedTable sharded{settings, shards, table.get()};
    const ShardedFeature feature{0, Pooling::kSum};
    const auto lookup = make_sharded_lookup(context, {&sharded, 1}, {&feature, 1},
                                            {&counted, &counted, 1, precision, dedup});
    const std::vector<int64_t>& keys = keys_of_rank[static_cast<size_t>(ranks.rank())];
    const FeatureKeys features{.keys = {keys.data(), std::ssize(keys), 1}};
    Buffer<float> out(Device::kCpu, std::ssize(keys), 4);
    lookup->forward(context, {&features, 1}, Phase::kTrain, out.view());
    lookup->backward(context, out.view(), 1.0f, 0.1f, 1);
    const CountedRanks::Bytes sent = counted.take_bytes();
    const std::lock_guard lock(mutex);
    all.inside += sent.inside;
    all.between += sent.between;
  };
  run_thread_ranks(4, run, kCollectiveSeconds, {"a", "a", "b", "b"});
  return all;
}

// The first keys whose rows are on a rank of four.
std::vector<int64_t> keys_on(int rank, size_t count) {
  std::vector<int64_t> keys;
  for (int64_t key = 0; keys.size() < count; ++key)
    if (part_of_hashed_key(key) * 4 / kParts == rank) keys.push_back(key);
  return keys;
}

TEST(HostBytes, ARowOfTwoRanksOfAHostCrossesOnce) {
  const int64_t key = keys_on(2, 1)[0];
  // Ranks of a need a key of b, which is asked for nowhere else.
  const std::vector<std::vector<int64_t>> keys = {{key, key}, {key}, {}, {}};
  constexpr int64_t kSizes = 4 * 2 * 4;  // every rank says to two others how much it asks for
  constexpr int64_t kKey = 8, kRow = 16, kFlag = 1;
  const auto between = [&](HostDedup dedup, DType precision = DType::kF32) {
    return bytes_of_step(keys, dedup, precision).between - kSizes;
  };
  EXPECT_EQ(between(HostDedup::kNone), 2 * (kKey + kRow + kFlag + kRow));
  EXPECT_EQ(between(HostDedup::kRows), 2 * kKey + kRow + kFlag + 2 * kRow);
  EXPECT_EQ(between(HostDedup::kRowsAndSums), kKey + kRow + kFlag + kRow);
  EXPECT_EQ(between(HostDedup::kRowsAndSums, DType::kBf16), kKey + kRow / 2 + kFlag + kRow / 2);
}

TEST(HostBytes, RowsOfOneRankOrOfItsOwnHostCrossAsBefore) {
  const std::vector<int64_t> near = keys_on(1, 2), far = keys_on(3, 2);
  // Both ranks of a need rows of a; each needs another row of b.
  const std::vector<std::vector<int64_t>> keys = {
      {near[0], near[1], far[0]}, {near[0], near[1], far[1]}, {}, {}};
  const int64_t direct = bytes_of_step(keys, HostDedup::kNone).between;
  EXPECT_EQ(bytes_of_step(keys, HostDedup::kRows).between, direct);
  EXPECT_EQ(bytes_of_step(keys, HostDedup::kRowsAndSums).between, direct);
}

}  // namespace
}  // namespace emblem
