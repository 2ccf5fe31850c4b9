#include "shard/dense_sum.h"

#include <gtest/gtest.h>

#include "comm/sum_all.h"
#include "comm/threads/threads.h"
#include "core/device/device_test.h"
#include "core/math/random.h"

namespace emblem {
namespace {

std::vector<float> part_of_shard(int64_t shard, size_t size) {
  Random random{static_cast<uint64_t>(shard) + 1, 3};
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(random.bits() % 1000) / 7.0f;
  return values;
}

class DenseSumTest : public DeviceTest {};

TEST_P(DenseSumTest, IsTheTreeOverShardsForAnyNumberOfRanks) {
  for (const size_t size : {0u, 1u, 3u, 1000u}) {
    std::vector<std::vector<float>> parts;
    std::vector<std::span<float>> spans;
    for (int64_t s = 0; s < 8; ++s) parts.push_back(part_of_shard(s, size));
    for (auto& part : parts) spans.emplace_back(part);
    sum_tree(spans);
    for (const int count : {1, 2, 3, 5, 8}) {
      run_thread_ranks(count, [&](Communicator& ranks) {
        std::vector<int64_t> shards_of_rank;
        std::vector<float> mine;
        for (int64_t r = 0; r < count; ++r) {
          const int64_t first = r * 8 / count, last = (r + 1) * 8 / count;
          shards_of_rank.push_back(last - first);
          for (int64_t s = first; r == ranks.rank() && s < last; ++s) {
            const auto part = part_of_shard(s, size);
            mine.insert(mine.end(), part.begin(), part.end());
          }
        }
        DenseSum sum(ranks, shards_of_rank);
        Context context{.device = GetParam()};
        const auto stream = use_own_stream(context);
        const auto there = Buffer<float>::from(context, mine);
        Buffer<float> total(context.device, static_cast<int64_t>(size));
        sum(context, there.view(), total.view());
        EXPECT_EQ(total.to_host(context), parts[0]) << count << " ranks";
      });
    }
  }
}

// Parts that become the sum themselves. One of the ranks has its parts elsewhere.
TEST_P(DenseSumTest, AddsOneShardOfEachRankInPlace) {
  for (const size_t size : {1u, 3u, 1000u}) {
    for (const int count : {1, 2, 3, 8}) {
      std::vector<std::vector<float>> parts;
      std::vector<std::span<float>> spans;
      for (int64_t s = 0; s < count; ++s) parts.push_back(part_of_shard(s, size));
      for (auto& part : parts) spans.emplace_back(part);
      sum_tree(spans);
      run_thread_ranks(count, [&](Communicator& ranks) {
        DenseSum sum(ranks, std::vector<int64_t>(static_cast<size_t>(count), 1));
        Context context{.device = GetParam()};
        const auto stream = use_own_stream(context);
        for (int times = 0; times < 3; ++times) {
          auto here = Buffer<float>::from(context, part_of_shard(ranks.rank(), size));
          Buffer<float> elsewhere(context.device, static_cast<int64_t>(size));
          Buffer<float>& total = ranks.rank() == 1 ? elsewhere : here;
          sum(context, std::as_const(here).view(), total.view());
          EXPECT_EQ(total.to_host(context), parts[0]) << count << " ranks";
        }
      });
    }
  }
}

EMBLEM_TEST_ON_EVERY_DEVICE(DenseSumTest);

}  // namespace
}  // namespace emblem
