// retrieval/index_items_test.h - items for tests of indexes, and what is found among them by plain
// arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "core/math/random.h"
#include "retrieval/index.h"

namespace emblem {

inline constexpr int64_t kItemDim = 16;
using Vectors = std::map<int64_t, std::vector<float>>;

inline std::vector<float> vector_of(int64_t id, uint64_t stream = 1) {
  std::vector<float> vector(kItemDim);
  for (int64_t k = 0; k < kItemDim; ++k)
    vector[k] = random_normal(3, stream, static_cast<uint64_t>(id * kItemDim + k));
  return vector;
}

// Items by id, in the form that an index takes.
struct GivenItems {
  std::vector<int64_t> ids;
  std::vector<float> vectors;
  std::vector<uint64_t> attributes;

  explicit GivenItems(const Vectors& items) {
    for (const auto& [id, vector] : items) {
      ids.push_back(id);
      vectors.insert(vectors.end(), vector.begin(), vector.end());
      attributes.push_back(static_cast<uint64_t>(id % 4));
    }
  }
  Items items() const {
    return {ids, {vectors.data(), static_cast<int64_t>(ids.size()), kItemDim}, attributes};
  }
};

inline Vectors some_items(int64_t first, int64_t count, uint64_t stream = 1) {
  Vectors items;
  for (int64_t id = first; id < first + count; ++id) items[id] = vector_of(id, stream);
  return items;
}

inline std::vector<int64_t> ids_of(const std::vector<ScoredItem>& items) {
  std::vector<int64_t> ids;
  for (const ScoredItem& item : items) ids.push_back(item.id);
  return ids;
}

// The ids of the best, by double precision.
inline std::vector<int64_t> plain_ids(const Vectors& items, std::span<const float> query, size_t k,
                                      Similarity similarity) {
  std::vector<std::pair<double, int64_t>> scores;
  for (const auto& [id, vector] : items) {
    double sum = 0.0, length = 0.0;
    for (int64_t j = 0; j < kItemDim; ++j) {
      sum += static_cast<double>(query[j]) * vector[j];
      length += static_cast<double>(vector[j]) * vector[j];
    }
    scores.emplace_back(similarity == Similarity::kCosine ? -sum / std::sqrt(length) : -sum, id);
  }
  std::ranges::sort(scores);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < std::min(k, scores.size()); ++i) ids.push_back(scores[i].second);
  return ids;
}

inline void expect_finds(const Context& context, const Index& index, const Vectors& items) {
  constexpr size_t k = 20;
  EXPECT_EQ(index.count(), static_cast<int64_t>(items.size()));
  for (int64_t q = 0; q < 3; ++q) {
    const std::vector<float> query = vector_of(q, 9);
    const SearchOptions all{.k = static_cast<int64_t>(k), .probes = 1 << 20};
    EXPECT_EQ(ids_of(index.search(context, {query.data(), 1, kItemDim}, all)[0]),
              plain_ids(items, query, k, index.settings().similarity));
  }
}

}  // namespace emblem
