#include "emblem/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kDim = 5;

std::vector<float> random_vectors(int64_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(static_cast<size_t>(rows * kDim));
  for (float& value : values) value = draw(random);
  return values;
}

// The ids of the best k items, by sorting all.
std::vector<int64_t> best_ids(const std::vector<float>& vectors, const float* query, int64_t k) {
  std::vector<int64_t> ids(vectors.size() / kDim);
  std::iota(ids.begin(), ids.end(), 0);
  const auto score = [&](int64_t id) {
    return std::inner_product(query, query + kDim, vectors.begin() + id * kDim, 0.0);
  };
  std::ranges::sort(ids, [&](int64_t a, int64_t b) { return score(a) > score(b); });
  ids.resize(static_cast<size_t>(k));
  return ids;
}

TEST(PublicIndex, FindsTheBestItemsAlsoAfterItWasSavedAndLoaded) {
  const std::vector<float> vectors = random_vectors(200, 1), queries = random_vectors(6, 2);
  std::vector<int64_t> ids(200);
  std::iota(ids.begin(), ids.end(), 0);
  api::Index index({.dim = kDim, .attributes = {"odd"}, .threads = 2});
  std::vector<uint64_t> odd(200);
  for (size_t i = 0; i < odd.size(); ++i) odd[i] = i % 2;
  index.add({ids, vectors, odd});
  const TempFolder folder;
  index.save(folder.path("index"));
  const api::Index loaded = api::Index::load(folder.path("index"), {.threads = 1});
  EXPECT_THAT(loaded.options().attributes, ElementsAre("odd"));
  EXPECT_EQ(loaded.options().dim, kDim);
  EXPECT_EQ(loaded.size(), 200);
  for (const api::Index* one : {&std::as_const(index), &loaded}) {
    const FoundItems found = one->search(queries, {.k = 7});
    ASSERT_EQ(found.width, 7);
    for (int64_t row = 0; row < 6; ++row) {
      const std::vector<int64_t> of_row(found.ids.begin() + row * 7,
                                        found.ids.begin() + (row + 1) * 7);
      EXPECT_EQ(of_row, best_ids(vectors, queries.data() + row * kDim, 7)) << row;
      EXPECT_EQ(found.count[static_cast<size_t>(row)], 7);
    }
    for (const int64_t id : one->search(queries, {.k = 50, .filter = {"odd"}}).ids)
      EXPECT_EQ(id % 2, 1);
  }
}

TEST(PublicIndex, RowsOfWhichFewerAreFoundEndWithoutItems) {
  api::Index index({.dim = 2, .similarity = "cosine"});
  index.add({.ids = std::vector<int64_t>{4, 9}, .vectors = std::vector<float>{1, 0, 0, 1}});
  index.replace({.ids = std::vector<int64_t>{9}, .vectors = std::vector<float>{1, 1}});
  const FoundItems found =
      index.search(std::vector<float>{2, 0, 0, 1}, {.k = INT64_MAX, .exclude = {{9}, {}}});
  EXPECT_EQ(found.width, 2);
  EXPECT_THAT(found.ids, ElementsAre(4, -1, 9, 4));
  EXPECT_THAT(found.count, ElementsAre(1, 2));
  EXPECT_EQ(found.scores[0], 1);
  EXPECT_TRUE(std::isnan(found.scores[1]));
  index.remove(std::vector<int64_t>{4, 9});
  EXPECT_EQ(index.search(std::vector<float>{1, 0}).width, 0);
}

TEST(PublicIndex, AnIvfHasListsOnceItIsRebuilt) {
  const std::vector<float> vectors = random_vectors(400, 3), queries = random_vectors(30, 4);
  std::vector<int64_t> ids(400);
  std::iota(ids.begin(), ids.end(), 0);
  api::Index index({.dim = kDim, .kind = "ivf_flat", .lists = 16});
  index.add({ids, vectors});
  const std::vector<int64_t> exact = index.search(queries, {.k = 10, .probes = 1}).ids;
  EXPECT_EQ(exact, index.search(queries, {.k = 10, .probes = 16}).ids);
  index.rebuild();
  EXPECT_EQ(exact, index.search(queries, {.k = 10, .probes = 16}).ids);
  EXPECT_NE(exact, index.search(queries, {.k = 10, .probes = 1}).ids);
}

TEST(PublicIndex, MisuseIsSaidInOneLine) {
  const auto refused = [](auto&& call, const char* said) {
    EXPECT_THAT(call, ThrowsMessage<Error>(HasSubstr(said)));
  };
  refused([] { api::Index(api::IndexOptions()); }, "dim of 0");
  refused([] { api::Index({.dim = 2, .similarity = "l2"}); }, "inner_product, cosine");
  refused([] { api::Index({.dim = 2, .value_type = "fp64"}); }, "fp32, fp16, bf16, int8");
  refused([] { api::Index({.dim = 2, .kind = "hnsw"}); }, "flat, ivf_flat");
  refused([] { api::Index({.dim = 2, .device = "tpu"}); }, "tpu");
  refused([] { api::Index::load("/nonexistent"); }, "/nonexistent");
  api::Index index({.dim = 2});
  const std::vector<int64_t> one = {1}, two = {1, 2};
  const std::vector<float> vector = {1, 2};
  refused([&] { index.add({two, vector}); }, "2 ids and 1 vectors");
  refused([&] { index.add({one, std::vector<float>{1, 2, 3}}); }, "not a multiple of dim");
  refused([&] { index.add({one, vector, std::vector<uint64_t>{1, 2}}); }, "numbers of attributes");
  refused([&] { index.remove(one); }, "not in the index");
  refused([&] { index.search(vector, {.k = 0}); }, "k is 0");
  refused([&] { index.search(vector, {.filter = {"new"}}); }, "unknown attribute");
  EXPECT_EQ(index.size(), 0);
}

}  // namespace
}  // namespace emblem
