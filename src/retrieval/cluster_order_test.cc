#include "retrieval/cluster_order.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/math/part.h"
#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Row i is near corner i % 8 of a cube whose sides have lengths 100, 10 and 1.
ItemRows rows_at_corners(int64_t count) {
  ItemRows rows(DType::kF32, 3);
  Random random{.seed = 5};
  for (int64_t i = 0; i < count; ++i) {
    std::vector<float> row;
    for (int64_t axis = 0; axis < 3; ++axis) {
      const float side = axis == 0 ? 100.0f : axis == 1 ? 10.0f : 1.0f;
      row.push_back(((i >> axis) & 1 ? side : 0.0f) + 0.01f * random.normal());
    }
    rows.append(row);
  }
  return rows;
}

TEST(ClusterOrder, PutsNearRowsTogetherOnEachLevel) {
  const std::vector<int64_t> order = cluster_order(Context{}, rows_at_corners(160), 2);
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  for (int64_t i = 0; i < 160; ++i) EXPECT_EQ(sorted[i], i);
  // Halves by the longest side, quarters by the second, eighths by the third.
  for (int64_t axis = 0, parts = 2; axis < 3; ++axis, parts *= 2)
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t i = part_begin(0, 160, part, parts); i < part_begin(0, 160, part + 1, parts);
           ++i)
        EXPECT_EQ((order[i] >> axis) & 1, (order[part_begin(0, 160, part, parts)] >> axis) & 1)
            << "axis " << axis << " place " << i;
}

TEST(ClusterOrder, CutsAlsoWhatIsNotBalanced) {
  ItemRows rows(DType::kF32, 1);
  for (const float x : {0.f, 1.f, 2.f, 3.f, 4.f, 100.f, 101.f}) rows.append({&x, 1});
  const std::vector<int64_t> order = cluster_order(Context{}, rows, 3);
  // Parts of 2, 2 and 3 rows, of which one has the two far ones.
  const auto far = std::ranges::find(order, 5) - order.begin();
  const auto farther = std::ranges::find(order, 6) - order.begin();
  const auto part = [](int64_t at) { return at < 2 ? 0 : at < 4 ? 1 : 2; };
  EXPECT_EQ(part(far), part(farther));
}

TEST(ClusterOrder, IsTheSameForAnyNumberOfThreads) {
  const ItemRows rows = rows_at_corners(1000);
  ThreadPool threads(3);
  int64_t placed = 0;
  const auto order = cluster_order(Context{.threads = &threads}, rows, 4, 7,
                                   [&](int64_t count) { placed = count; });
  EXPECT_EQ(order, cluster_order(Context{}, rows, 4, 7));
  EXPECT_EQ(placed, 1000);
}

}  // namespace
}  // namespace emblem
