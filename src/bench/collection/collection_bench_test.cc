#include "bench/collection/collection_bench.h"

#include <gtest/gtest.h>

#include <mutex>

#include "comm/threads/threads.h"
#include "core/device/device_test.h"

namespace emblem {
namespace {

const CollectionOptions kSmall{.batch = 64,
                               .keys = 2,
                               .dim = 8,
                               .divide_tables = 100000,
                               .distinct = 2,
                               .warmup = 1,
                               .iterations = 2};

class CollectionBench : public DeviceTest {};

TEST_P(CollectionBench, MeasuresRanks) {
  std::mutex mutex;
  for (const bool dynamic : {false, true}) {
    run_thread_ranks(2, [&](Communicator& ranks) {
      CollectionOptions options = kSmall;
      options.dynamic = dynamic;
      Context context{.device = GetParam()};
      const auto stream = use_own_stream(context);
      const BenchResult result = bench_collection(context, ranks, ranks, options);
      const std::lock_guard lock(mutex);
      EXPECT_EQ(result.name, dynamic ? "collection-dynamic" : "collection");
      EXPECT_GT(find_named(result.metrics, "iteration_seconds")->value, 0.0);
    });
  }
}

TEST(CollectionHosts, SendLessBetweenThemWhereTheyShareRows) {
  const auto bytes = [](HostDedup dedup) {
    double sent = 0;
    const auto run = [&](Communicator& ranks) {
      CollectionOptions options = kSmall;
      options.host_dedup = dedup;
      const BenchResult result = bench_collection(Context{}, ranks, ranks, options);
      if (ranks.rank() == 0) sent = find_named(result.metrics, "bytes_between_hosts")->value;
    };
    run_thread_ranks(4, run, kCollectiveSeconds, {"a", "a", "b", "b"});
    return sent;
  };
  const double none = bytes(HostDedup::kNone), rows = bytes(HostDedup::kRows);
  EXPECT_LT(rows, none);
  EXPECT_LT(bytes(HostDedup::kRowsAndSums), rows);
}

TEST(CollectionTables, AreThoseOfTheProtocol) {
  int64_t rows = 0;
  for (const TableSettings& table : collection_tables({})) rows += table.capacity;
  EXPECT_EQ(rows, 177944275);
  const auto keys = collection_keys({}, 8, 3, 0, 5, 3);
  EXPECT_EQ(keys.size(), 81920u);
  for (const int64_t key : keys) ASSERT_TRUE(key >= 0 && key < 3);
}

TEST_P(CollectionBench, TheShareOfOneRankNeedsAGpu) {
  if (GetParam() == Device::kCpu) {
    EXPECT_THROW(bench_collection_share(context_, 4, 1e9, kSmall), Error);
    return;
  }
  for (const bool dedup : {true, false}) {
    CollectionOptions options = kSmall;
    options.dedup = dedup;
    const BenchResult result = bench_collection_share(context_, 4, 1e9, options);
    const double asked = std::get<double>(*find_named(result.settings, "asked"));
    EXPECT_EQ(asked == 26 * 16 * 2, !dedup);
    EXPECT_GT(std::get<double>(*find_named(result.settings, "derived_link_seconds")), 0.0);
  }
}

EMBLEM_TEST_ON_EVERY_DEVICE(CollectionBench);

}  // namespace
}  // namespace emblem
