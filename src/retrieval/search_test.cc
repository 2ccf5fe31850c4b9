#include "retrieval/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/device/device_test.h"
#include "core/math/random.h"

namespace emblem {
namespace {

std::vector<float> random_vectors(int64_t count, int64_t dim, uint64_t stream) {
  std::vector<float> vectors(static_cast<size_t>(count * dim));
  for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = random_normal(7, stream, i);
  return vectors;
}

ItemTable table_of(DType type, int64_t dim, const std::vector<float>& vectors) {
  ItemTable items{.rows = ItemRows(type, dim)};
  for (size_t i = 0; i * dim < vectors.size(); ++i) {
    items.rows.append(std::span(vectors).subspan(i * dim, dim));
    items.ids.push_back(static_cast<int64_t>((i * 7919) % 1000003));  // not ascending
    items.attributes.push_back(i % 10 == 3 ? 1 : 0);
  }
  return items;
}

// Scores all items and sorts them.
std::vector<std::vector<ScoredItem>> plain_search(const ItemTable& items,
                                                  const std::vector<float>& queries, int64_t k,
                                                  const ItemFilter& filter = {}) {
  const int64_t dim = items.rows.dim();
  std::vector<std::vector<ScoredItem>> results;
  std::vector<float> row(static_cast<size_t>(dim));
  for (size_t q = 0; q * dim < queries.size(); ++q) {
    std::vector<ScoredItem> all;
    for (int64_t i = 0; i < items.rows.count(); ++i) {
      if ((items.attributes[i] & filter.attributes) != filter.attributes) continue;
      if (!filter.exclude.empty() && std::ranges::count(filter.exclude[q], items.ids[i]) > 0)
        continue;
      items.rows.read(i, row.data());
      float sum = 0.0f;
      for (int64_t j = 0; j < dim; ++j) sum = std::fma(queries[q * dim + j], row[j], sum);
      all.push_back({sum, items.ids[i]});
    }
    std::sort(all.begin(), all.end());
    all.resize(std::min<size_t>(all.size(), static_cast<size_t>(k)));
    results.push_back(std::move(all));
  }
  return results;
}

std::vector<std::vector<ScoredItem>> search_one(const Context& context, const ItemSegment& segment,
                                                const std::vector<float>& queries, int64_t k,
                                                const ItemFilter& filter = {}) {
  const int64_t dim = segment.items().rows.dim();
  const SearchedSegment in{&segment};
  return search_items(context, {&in, 1},
                      {queries.data(), static_cast<int64_t>(queries.size()) / dim, dim}, k, filter);
}

// The kernels whose products scans may be made of.
std::vector<const cpu::TileKernel*> kernels() {
  std::vector<const cpu::TileKernel*> found;
  for (const cpu::TileKernel* kernel : cpu::tile_kernels())
    if (kernel->type != DType::kInt8) found.push_back(kernel);
  return found;
}

class Search : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped()) stream_ = use_own_stream(context_);
  }
  std::shared_ptr<cuda::Stream> stream_;
};

TEST_P(Search, EveryTypeFindsWhatAPlainSearchFinds) {
  constexpr int64_t kItems = 1500, kK = 20;
  for (const int64_t dim : {5, 32, 64, 128, 200}) {
    const auto vectors = random_vectors(kItems, dim, 1), queries = random_vectors(9, dim, 2);
    for (const DType type : {DType::kF32, DType::kF16, DType::kBf16, DType::kInt8}) {
      const ItemTable items = table_of(type, dim, vectors);
      const ItemSegment segment(context_, items, {kItems});
      EXPECT_EQ(search_one(context_, segment, queries, kK), plain_search(items, queries, kK))
          << name_of(type) << " " << dim;
    }
  }
}

TEST(SearchKernels, FindWhatAPlainSearchFinds) {
  constexpr int64_t kDim = 40, kItems = 1500, kK = 20;
  const auto vectors = random_vectors(kItems, kDim, 1), queries = random_vectors(9, kDim, 2);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBf16, DType::kInt8}) {
    const ItemTable items = table_of(type, kDim, vectors);
    const auto expected = plain_search(items, queries, kK);
    for (const cpu::TileKernel* kernel : kernels()) {
      const ItemSegment segment({}, items, {kItems}, kernel);
      EXPECT_EQ(search_one({}, segment, queries, kK), expected)
          << name_of(type) << " " << kernel->name;
    }
  }
}

TEST(SearchThreads, ResultsDoNotDependOnTheBatchOrTheNumberOfThreads) {
  constexpr int64_t kDim = 24, kItems = 9000, kK = 50, kQueries = 300;
  const ItemTable items = table_of(DType::kF32, kDim, random_vectors(kItems, kDim, 1));
  const auto queries = random_vectors(kQueries, kDim, 2);
  const ItemSegment segment({}, items, {kItems});
  const auto together = search_one({}, segment, queries, kK);
  EXPECT_EQ(together, plain_search(items, queries, kK));
  for (const int threads : {2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(search_one({.threads = &pool}, segment, queries, kK), together);
    for (int64_t q = 0; q < 3; ++q) {
      const std::vector<float> one(queries.begin() + q * kDim, queries.begin() + (q + 1) * kDim);
      EXPECT_EQ(search_one({.threads = &pool}, segment, one, kK)[0], together[q]);
    }
  }
}

TEST_P(Search, EqualScoresAreInTheOrderOfIds) {
  constexpr int64_t kDim = 8, kItems = 5000;
  std::vector<float> vectors(kItems * kDim, 0.37f);  // rounding to bf16 moves it
  for (int64_t i = 0; i < kItems; i += 3) vectors[i * kDim] = 0.36f;
  const ItemTable items = table_of(DType::kF32, kDim, vectors);
  const std::vector<float> queries = random_vectors(2, kDim, 2);
  const ItemSegment segment(context_, items, {kItems});
  for (const int64_t k : {1, 10, 1000, 4999})
    EXPECT_EQ(search_one(context_, segment, queries, k), plain_search(items, queries, k)) << k;
}

TEST_P(Search, ItemsInTheOrderOfTheirScoresOverflowNoBuffer) {
  constexpr int64_t kDim = 4, kItems = 24000;  // more than a GPU's buffer of candidates holds
  for (const float sign : {1.0f, -1.0f}) {
    std::vector<float> vectors(kItems * kDim, 1.0f);
    for (int64_t i = 0; i < kItems; ++i) vectors[i * kDim] = sign * static_cast<float>(i) / 64;
    const ItemTable items = table_of(DType::kF32, kDim, vectors);
    const std::vector<float> queries = {1, 0, 0, 0, 0.01f, 3, 3, 3};
    const ItemSegment segment(context_, items, {kItems});
    EXPECT_EQ(search_one(context_, segment, queries, 100), plain_search(items, queries, 100));
  }
}

TEST(SearchKernels, LengthsThatDifferByManyOrdersOfMagnitudeAreExact) {
  constexpr int64_t kDim = 16, kItems = 2000;
  auto vectors = random_vectors(kItems, kDim, 1);
  for (int64_t i = 0; i < kItems; ++i)
    for (int64_t k = 0; k < kDim; ++k)
      vectors[i * kDim + k] *= std::pow(10.0f, static_cast<float>(i % 61 - 44));  // denormals, too
  const ItemTable items = table_of(DType::kF32, kDim, vectors);
  const auto queries = random_vectors(3, kDim, 2);
  for (const cpu::TileKernel* kernel : kernels()) {
    const ItemSegment segment({}, items, {kItems}, kernel);
    EXPECT_EQ(search_one({}, segment, queries, 1500), plain_search(items, queries, 1500))
        << kernel->name;
  }
}

TEST_P(Search, FewerItemsThanKAndNoneAreFound) {
  const ItemTable items = table_of(DType::kF32, 3, {1, 2, 3, -1, -2, -3});
  const std::vector<float> query = {1, 1, 1};
  EXPECT_EQ(search_one(context_, ItemSegment(context_, items, {2}), query, 5),
            plain_search(items, query, 5));
  const ItemSegment empty(context_, table_of(DType::kF32, 3, {}), {0});
  EXPECT_TRUE(search_one(context_, empty, query, 5)[0].empty());
  EXPECT_TRUE(search_items(context_, {}, {query.data(), 1, 3}, 5, {})[0].empty());
}

TEST_P(Search, FiltersLeaveTheBestOfTheOthers) {
  constexpr int64_t kDim = 12, kItems = 3000, kK = 40;
  const ItemTable items = table_of(DType::kBf16, kDim, random_vectors(kItems, kDim, 1));
  const auto queries = random_vectors(2, kDim, 2);
  std::vector<std::vector<int64_t>> exclude(2);
  const auto all = plain_search(items, queries, kItems);
  for (size_t i = 0; i < 500; ++i) exclude[0].push_back(all[0][2 * i].id);
  std::ranges::sort(exclude[0]);
  const ItemSegment segment(context_, items, {kItems});
  for (const ItemFilter& filter :
       {ItemFilter{.attributes = 1}, ItemFilter{.exclude = exclude},
        ItemFilter{.attributes = 1, .exclude = exclude}, ItemFilter{.attributes = 2}})
    EXPECT_EQ(search_one(context_, segment, queries, kK, filter),
              plain_search(items, queries, kK, filter));
}

TEST_P(Search, SegmentsAreSearchedAsOneWithoutRemovedRows) {
  constexpr int64_t kDim = 10, kItems = 1000;
  const auto vectors = random_vectors(kItems, kDim, 1), queries = random_vectors(3, kDim, 2);
  const ItemTable items = table_of(DType::kF32, kDim, vectors);
  ItemTable some{.rows = ItemRows(DType::kF32, kDim)}, others = some;
  for (int64_t i = 0; i < kItems; ++i) {
    ItemTable& to = i % 4 == 0 ? some : others;
    to.rows.append(items.rows, i);
    to.ids.push_back(items.ids[i]);
    to.attributes.push_back(items.attributes[i]);
  }
  const ItemSegment first(context_, some, {some.rows.count()}), second(context_, others, {750});
  std::vector<uint64_t> removed(4);
  std::vector<std::vector<int64_t>> gone(3);
  for (const int64_t row : {0, 77, 249}) {
    removed[row / 64] |= uint64_t{1} << (row % 64);
    for (auto& ids : gone) ids.push_back(some.ids[row]);
  }
  const SearchedSegment in[] = {{&first, removed.data()}, {&second}};
  EXPECT_EQ(search_items(context_, in, {queries.data(), 3, kDim}, 990, {}),
            plain_search(items, queries, 990, {.exclude = gone}));
}

TEST_P(Search, MoreEqualScoresThanABufferHoldsAreInTheOrderOfIds) {
  constexpr int64_t kDim = 8, kItems = 60000, kK = 300;
  std::vector<float> vectors(kItems * kDim, 0.5f);
  for (int64_t i = 0; i < kItems; i += 501) vectors[i * kDim] = 0.75f;
  const ItemTable items = table_of(DType::kF16, kDim, vectors);
  const std::vector<float> queries = random_vectors(3, kDim, 2);
  const ItemSegment segment(context_, items, {kItems});
  EXPECT_EQ(search_one(context_, segment, queries, kK), plain_search(items, queries, kK));
}

TEST_P(Search, ManyItemsAndQueriesNeedSamplesAndGroups) {
  constexpr int64_t kDim = 32, kItems = 70000, kQueries = 700, kK = 100;
  const ItemTable items = table_of(DType::kF16, kDim, random_vectors(kItems, kDim, 1));
  const auto queries = random_vectors(kQueries, kDim, 2);
  const ItemSegment segment(context_, items, {kItems});
  const auto found = search_one(context_, segment, queries, kK);
  const std::vector<float> some(queries.end() - 3 * kDim, queries.end());
  EXPECT_EQ(std::vector(found.end() - 3, found.end()), plain_search(items, some, kK));
  EXPECT_EQ(search_one(context_, segment, some, kK), plain_search(items, some, kK));
}

TEST(SearchKernels, ProbedListsAloneAreSearched) {
  constexpr int64_t kDim = 10, kItems = 1000;
  const ItemTable items = table_of(DType::kF32, kDim, random_vectors(kItems, kDim, 1));
  const auto queries = random_vectors(2, kDim, 2);
  const ItemSegment segment({}, items, {300, 450, 250});
  const SearchedSegment in{&segment};
  // A centroid of zeros bounds nothing but by lengths.
  const ItemSegment centroids({}, table_of(DType::kF32, kDim, std::vector<float>(3 * kDim)), {3});
  const std::vector<std::vector<ScoredItem>> probes = {{{0.0f, 2}, {0.0f, 0}}, {{0.0f, 1}}};
  std::vector<std::vector<int64_t>> others(2);
  for (int64_t i = 0; i < kItems; ++i) others[i >= 300 && i < 750 ? 0 : 1].push_back(items.ids[i]);
  const ListBounds bounds({}, segment, centroids);
  EXPECT_EQ(search_lists({}, {&in, 1}, {queries.data(), 2, kDim}, 30, {}, {probes, bounds}),
            plain_search(items, queries, 30, {.exclude = others}));
}

TEST(SearchKernels, DuplicateIdsAreRefused) {
  ItemTable items = table_of(DType::kF32, 2, {1, 2, 3, 4});
  items.ids = {5, 5};
  try {
    const ItemSegment segment({}, items, {2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "duplicate item id 5; each item must be given once");
  }
}

EMBLEM_TEST_ON_EVERY_DEVICE(Search);

}  // namespace
}  // namespace emblem
