#include "retrieval/list_bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/math/random.h"
#include "retrieval/search.h"

namespace emblem {
namespace {

constexpr int64_t kWidth = 24, kLists = 12, kPerList = 40;

// Rows around the centroids of lists, `noise` apart from them; cosine: of length 1.
struct Clusters {
  std::shared_ptr<const ItemSegment> items, centroids;

  Clusters(DType type, Similarity similarity, float noise) {
    ItemTable rows{.rows = ItemRows(type, kWidth)}, centers{.rows = ItemRows(DType::kF32, kWidth)};
    for (int64_t list = 0; list < kLists; ++list) {
      std::vector<float> center(kWidth), row(kWidth);
      for (int64_t k = 0; k < kWidth; ++k) center[k] = random_normal(5, 1, list * kWidth + k);
      for (int64_t i = 0; i < kPerList; ++i) {
        const int64_t at = list * kPerList + i;
        for (int64_t k = 0; k < kWidth; ++k)
          row[k] = center[k] + noise * random_normal(5, 2, at * kWidth + k);
        if (similarity == Similarity::kCosine) normalize(row);
        rows.rows.append(row);
      }
      if (similarity == Similarity::kCosine) normalize(center);
      centers.rows.append(center);
    }
    items = segment_of(rows, std::vector<int64_t>(kLists, kPerList));
    centroids = segment_of(centers, {kLists});
  }

  static std::shared_ptr<const ItemSegment> segment_of(ItemTable& table,
                                                       std::vector<int64_t> lists) {
    table.ids.resize(static_cast<size_t>(table.rows.count()));
    std::iota(table.ids.begin(), table.ids.end(), 0);
    table.attributes.resize(table.ids.size());
    return std::make_shared<const ItemSegment>(Context{}, table, std::move(lists));
  }

  float best_of(int64_t list, const std::vector<float>& query) const {
    float best = -HUGE_VALF;
    for (int64_t i = 0; i < kPerList; ++i)
      best = std::max(best, items->items().rows.score(query.data(), list * kPerList + i));
    return best;
  }
};

std::vector<float> query_of(int64_t at, const Clusters& clusters) {
  std::vector<float> query(kWidth);
  if (at < kLists * kPerList) {  // an item itself: the bound is as tight as it can be
    clusters.items->items().rows.read(at, query.data());
  } else {
    const float scale = std::pow(10.0f, static_cast<float>(at % 37) - 18);
    for (int64_t k = 0; k < kWidth; ++k) query[k] = scale * random_normal(5, 3, at * kWidth + k);
  }
  return query;
}

TEST(ListBounds, NoItemHasAHigherScore) {
  for (const Similarity similarity : {Similarity::kInnerProduct, Similarity::kCosine}) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kBf16, DType::kInt8}) {
      for (const float noise : {0.0f, 1e-4f, 0.1f, 3.0f}) {
        const Clusters clusters(type, similarity, noise);
        const ListBounds bounds({}, *clusters.items, *clusters.centroids);
        for (int64_t q = 0; q < 2 * kLists * kPerList; q += 13) {
          const std::vector<float> query = query_of(q, clusters);
          for (int64_t list = 0; list < kLists; ++list) {
            const float score = clusters.centroids->items().rows.score(query.data(), list);
            ASSERT_GE(bounds.of(list, score, length_of(query)), clusters.best_of(list, query))
                << name_of(similarity) << " " << name_of(type) << " noise " << noise << " query "
                << q << " list " << list;
          }
        }
      }
    }
  }
}

TEST(ListBounds, AreNearTheBestScoresOfNarrowLists) {
  const Clusters clusters(DType::kF32, Similarity::kCosine, 0.01f);
  const ListBounds bounds({}, *clusters.items, *clusters.centroids);
  for (int64_t q = 0; q < kLists * kPerList; q += 7) {
    const std::vector<float> query = query_of(q, clusters);
    for (int64_t list = 0; list < kLists; ++list) {
      const float score = clusters.centroids->items().rows.score(query.data(), list),
                  best = clusters.best_of(list, query);
      EXPECT_LE(bounds.of(list, score, length_of(query)), std::max(best, 0.0f) + 0.05) << q;
    }
  }
}

TEST(ListBounds, SearchesOfAllListsFindWhatExactOnesFind) {
  for (const Similarity similarity : {Similarity::kInnerProduct, Similarity::kCosine}) {
    for (const float noise : {0.05f, 1.0f}) {
      const Clusters clusters(DType::kF16, similarity, noise);
      const ListBounds bounds({}, *clusters.items, *clusters.centroids);
      const SearchedSegment items{clusters.items.get()}, centroids{clusters.centroids.get()};
      for (int64_t q = 0; q < 2 * kLists * kPerList; q += 5) {
        const std::vector<float> query = query_of(q, clusters);
        const View<const float> queries{query.data(), 1, kWidth};
        const auto nearest = search_items({}, {&centroids, 1}, queries, kLists, {});
        EXPECT_EQ(search_lists({}, {&items, 1}, queries, 10, {}, {nearest, bounds}),
                  search_items({}, {&items, 1}, queries, 10, {}))
            << name_of(similarity) << " noise " << noise << " query " << q;
      }
    }
  }
}

}  // namespace
}  // namespace emblem
