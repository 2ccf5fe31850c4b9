#include "retrieval/index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

#include "core/device/device_test.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/math/checksum.h"
#include "retrieval/index_items_test.h"

namespace emblem {
namespace {

const std::vector<IndexSettings> kSettings = {
    {.dim = kItemDim},
    {.dim = kItemDim, .similarity = Similarity::kCosine},
    {.dim = kItemDim, .kind = IndexKind::kIvfFlat, .lists = 20},
    {.dim = kItemDim,
     .similarity = Similarity::kCosine,
     .kind = IndexKind::kIvfFlat,
     .attributes = {"in_stock", "new"}}};

class IndexOfDevice : public DeviceTest {};

TEST_P(IndexOfDevice, AllowedIdsAloneAreFoundExactly) {
  const auto stream = use_own_stream(context_);
  for (const IndexSettings& settings : kSettings) {
    if (settings.kind == IndexKind::kIvfFlat && context_.device == Device::kCuda) continue;
    Vectors items = some_items(0, 600);
    GivenItems given(items);
    if (settings.attributes.empty()) given.attributes.clear();
    const auto index = Index::build(context_, settings, given.items());
    GivenItems later(some_items(600, 40));
    later.attributes.clear();
    index->add(context_, later.items());
    index->remove(std::vector<int64_t>{10, 17});
    const auto allowed = [](const std::vector<int64_t>& ids, int64_t step) {
      Vectors some;
      for (const int64_t id : ids)
        if ((step == 1 || id % step == 1) && id != 17 && id < 640) some[id] = vector_of(id);
      return some;
    };
    const std::vector<int64_t> first = {1, 630, 17, 5, 5, 300, 9000, 599, 33, 601},
                               second = {10, 17, -4};
    std::vector<float> queries = vector_of(1, 9), other = vector_of(2, 9);
    queries.insert(queries.end(), other.begin(), other.end());
    const View<const float> view{queries.data(), 2, kItemDim};
    SearchOptions options{.k = 4, .probes = 1, .only = {first, second}};
    const auto found = index->search(context_, view, options);
    EXPECT_EQ(ids_of(found[0]),
              plain_ids(allowed(first, 1), vector_of(1, 9), 4, settings.similarity));
    EXPECT_TRUE(found[1].empty());
    options.exclude = {{599, 5}, {}};
    if (!settings.attributes.empty()) options.allow = {"in_stock"};  // odd ones below 600
    Vectors rest = allowed(first, settings.attributes.empty() ? 1 : 2);
    std::erase_if(rest, [&](const auto& item) {
      return item.first == 599 || item.first == 5 ||
             (!settings.attributes.empty() && item.first >= 600);
    });
    EXPECT_EQ(ids_of(index->search(context_, view, options)[0]),
              plain_ids(rest, vector_of(1, 9), 4, settings.similarity));
  }
}

TEST_P(IndexOfDevice, FindsTheBestOfAllItemsWhileTheseChange) {
  const auto stream = use_own_stream(context_);
  for (const IndexSettings& settings : kSettings) {
    if (settings.kind == IndexKind::kIvfFlat && context_.device == Device::kCuda) {
      EXPECT_THROW(Index::build(context_, settings, GivenItems(some_items(0, 9)).items()), Error);
      continue;
    }
    Vectors items = some_items(0, 1000);
    GivenItems given(items);
    if (settings.attributes.empty()) given.attributes.clear();
    const auto index = Index::build(context_, settings, given.items());
    expect_finds(context_, *index, items);
    for (int64_t round = 0; round < 12; ++round) {
      // The first half of these are there already.
      GivenItems next(some_items(round * 50 + 970, 60, static_cast<uint64_t>(round) + 20));
      next.attributes.clear();
      index->add(context_, next.items(), Existing::kReplace);
      for (const int64_t id : next.ids)
        items[id] = vector_of(id, static_cast<uint64_t>(round) + 20);
      std::vector<int64_t> gone;
      for (int64_t id = round; id < 900; id += 97)
        if (items.erase(id) > 0) gone.push_back(id);
      index->remove(gone);
      expect_finds(context_, *index, items);
    }
    index->rebuild(context_);
    expect_finds(context_, *index, items);
    const std::vector<int64_t> all = GivenItems(items).ids;
    index->remove(all);
    expect_finds(context_, *index, {});
    index->rebuild(context_);
    expect_finds(context_, *index, {});
  }
}

EMBLEM_TEST_ON_EVERY_DEVICE(IndexOfDevice);

TEST(Index, SavedAndLoadedGivesTheSameAnswers) {
  const TempFolder folder;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16, DType::kInt8}) {
    for (const IndexKind kind : {IndexKind::kFlat, IndexKind::kIvfFlat}) {
      const auto index = Index::build(
          {}, {.dim = kItemDim, .dtype = dtype, .kind = kind, .attributes = {"a", "b"}},
          GivenItems(some_items(0, 500)).items());
      index->add({}, GivenItems(some_items(500, 30)).items());
      index->remove(std::vector<int64_t>{3, 501});
      const std::string path = folder.path(cat(name_of(dtype), name_of(kind)));
      index->save(path);
      const auto loaded = Index::load({}, path);
      EXPECT_EQ(loaded->count(), 528);
      const std::vector<float> query = vector_of(0, 9);
      for (const SearchOptions& options : {SearchOptions{.k = 60, .probes = 5},
                                           SearchOptions{.k = 60, .probes = 5, .allow = {"b"}}})
        EXPECT_EQ(loaded->search({}, {query.data(), 1, kItemDim}, options),
                  index->search({}, {query.data(), 1, kItemDim}, options));
    }
  }
  const Index empty({.dim = kItemDim});
  empty.save(folder.path("empty"));
  EXPECT_EQ(Index::load({}, folder.path("empty"))->count(), 0);
}

TEST(Index, AttributesAndExcludedIdsFilterEachQuery) {
  const Vectors items = some_items(0, 400);
  const auto index = Index::build({}, {.dim = kItemDim, .attributes = {"odd", "upper"}},
                                  GivenItems(items).items());
  Vectors odd = items;
  std::erase_if(odd, [](const auto& item) { return item.first % 2 == 0; });
  const std::vector<float> query = vector_of(1, 9);
  std::vector<float> two = query;
  two.insert(two.end(), query.begin(), query.end());
  const auto best = plain_ids(odd, query, 20, Similarity::kInnerProduct);
  const auto found =
      index->search({}, {two.data(), 2, kItemDim},
                    {.k = 10, .exclude = {{}, {best[1], best[0], 9999}}, .allow = {"odd"}});
  EXPECT_EQ(ids_of(found[0]), std::vector(best.begin(), best.begin() + 10));
  EXPECT_EQ(ids_of(found[1]), std::vector(best.begin() + 2, best.begin() + 12));
}

TEST(Index, ListsAroundCentroidsFindMostOfTheBestOfClusteredItems) {
  Vectors items;
  for (int64_t id = 0; id < 4000; ++id) {
    items[id] = vector_of(id % 40, 5);
    for (int64_t k = 0; k < kItemDim; ++k)
      items[id][k] += 0.3f * random_normal(3, 6, static_cast<uint64_t>(id * kItemDim + k));
  }
  GivenItems given(items);
  given.attributes.clear();
  for (const Similarity similarity : {Similarity::kCosine, Similarity::kInnerProduct}) {
    const auto index = Index::build(
        {}, {.dim = kItemDim, .similarity = similarity, .kind = IndexKind::kIvfFlat, .lists = 60},
        given.items());
    size_t found = 0, expected = 0;
    for (int64_t q = 0; q < 40; ++q) {
      const std::vector<float> query = vector_of(q, 5);
      const auto best = plain_ids(items, query, 10, similarity);
      const auto ids =
          ids_of(index->search({}, {query.data(), 1, kItemDim}, {.k = 10, .probes = 6})[0]);
      for (const int64_t id : best) found += static_cast<size_t>(std::ranges::count(ids, id));
      expected += best.size();
    }
    EXPECT_GT(static_cast<double>(found) / static_cast<double>(expected), 0.95)
        << name_of(similarity);
  }
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Index, BadInputIsRefusedAndChangesNothing) {
  const Vectors items = some_items(0, 50);
  GivenItems given(items);
  given.attributes.clear();
  const auto index = Index::build({}, {.dim = kItemDim, .attributes = {"a"}}, given.items());
  const auto adding = [&](std::vector<int64_t> ids, std::vector<float> vectors,
                          int64_t dim = kItemDim) {
    return error_of([&] {
      index->add({}, {ids, {vectors.data(), static_cast<int64_t>(vectors.size()) / dim, dim}});
    });
  };
  EXPECT_EQ(adding({7}, vector_of(1)),
            "item 7 is in the index already; replace it, or give another id");
  std::vector<float> two = vector_of(1), nan = vector_of(2);
  two.insert(two.end(), nan.begin(), nan.end());
  EXPECT_EQ(adding({70, 70}, two), "duplicate item id 70; each item must be given once");
  EXPECT_EQ(adding({INT64_MIN}, vector_of(1)),
            "item id -9223372036854775808 is not possible: it stands for no item in lists of ids; "
            "give another id");
  nan[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(adding({71}, nan), "the vector of item 71 contains NaN or infinite elements");
  EXPECT_EQ(adding({71}, std::vector<float>(kItemDim, 1e30f)),
            "the vector of item 71 is of length 4e+30; at most 1e+18 is possible");
  EXPECT_EQ(adding({71}, std::vector<float>(8), 8),
            "vectors have 8 elements, but those of this index have 16");
  EXPECT_EQ(adding({71, 72}, vector_of(1)), "there are 1 vectors for 2 ids");
  EXPECT_EQ(error_of([&] {
              index->remove(std::vector<int64_t>{1, 99});
            }),
            "item 99 is not in the index; nothing was removed");
  const auto searching = [&](std::vector<float> query, const SearchOptions& options) {
    return error_of([&] {
      index->search({}, {query.data(), 1, static_cast<int64_t>(query.size())}, options);
    });
  };
  EXPECT_EQ(searching(vector_of(1), {.k = 0}), "k is 0; it must be at least 1");
  EXPECT_EQ(searching({1, 2}, {}), "queries have 2 elements, but vectors of this index have 16");
  EXPECT_EQ(searching(nan, {}), "the vector of query 0 contains NaN or infinite elements");
  EXPECT_EQ(searching(vector_of(1), {.allow = {"b"}}), "unknown attribute \"b\"; the index has a");
  EXPECT_EQ(searching(vector_of(1), {.probes = 0}), "probes is 0; it must be at least 1");
  EXPECT_EQ(searching(vector_of(1), {.only = {{}, {}}}),
            "there are 2 lists of allowed ids for 1 queries; expected one for each query, or none");
  EXPECT_EQ(
      searching(vector_of(1), {.exclude = {{}, {}}}),
      "there are 2 lists of excluded ids for 1 queries; expected one for each query, or none");
  expect_finds({}, *index, items);
  const std::vector<float> zeros(kItemDim);
  const int64_t id = 4;
  EXPECT_EQ(error_of([&] {
              Index::build({}, {.dim = kItemDim, .similarity = Similarity::kCosine},
                           {{&id, 1}, {zeros.data(), 1, kItemDim}});
            }),
            "the vector of item 4 is all zeros, which has no cosine");
  EXPECT_EQ(error_of([&] {
              const std::vector<float> large(kItemDim, 1e5f);
              Index::build({}, {.dim = kItemDim, .dtype = DType::kF16},
                           {{&id, 1}, {large.data(), 1, kItemDim}});
            }),
            "an element of a vector is 100000, but fp16 ends at 65504; use bf16 or fp32");
  EXPECT_EQ(error_of([] { Index({.dim = 0}); }),
            "an index cannot have a dim of 0; it is from 1 to 65536");
}

TEST(Index, DamagedFoldersAreRefusedInOneLine) {
  const TempFolder folder;
  const auto index =
      Index::build({}, {.dim = kItemDim, .kind = IndexKind::kIvfFlat, .attributes = {"a", "b"}},
                   GivenItems(some_items(0, 100)).items());
  const std::string path = folder.path("index");
  index->save(path);
  EXPECT_EQ(error_of([&] { index->save(path); }),
            path + " exists already; save the index as another folder");
  for (const char* name : {"id", "vector", "attributes", "centroid", "list"}) {
    const std::string file = path + "/" + name, content = read_text_file(file);
    std::string changed = content;
    changed[changed.size() / 2] ^= 1;
    folder.write(std::string("index/") + name, changed);
    EXPECT_EQ(error_of([&] { Index::load({}, path); }),
              cat("index ", path, " is damaged: file ", name, " does not match its checksum"));
    folder.write(std::string("index/") + name, content.substr(1));
    EXPECT_EQ(error_of([&] { Index::load({}, path); }),
              cat("index ", path, " is damaged: file ", name, " has ", content.size() - 1,
                  " bytes, but ", content.size(), " were written"));
    std::filesystem::remove(file);
    EXPECT_EQ(error_of([&] { Index::load({}, path); }),
              cat("index ", path, " is damaged: file ", name, " is missing"));
    folder.write(std::string("index/") + name, content);
  }
  const std::string text = read_text_file(path + "/manifest.json");
  const auto with_manifest = [&](const std::string& manifest) {
    folder.write("index/manifest.json", manifest);
    return error_of([&] { Index::load({}, path); });
  };
  std::string other = text;
  other.replace(other.find("\"dim\": 16"), 9, "\"dim\": 17");
  EXPECT_EQ(with_manifest(other),
            cat("index ", path, " is damaged: file manifest.json does not match its checksum"));
  EXPECT_EQ(with_manifest("{"),
            cat("index ", path, " is damaged: file manifest.json is not valid JSON"));
  EXPECT_EQ(with_manifest("{}"), path + "/manifest.json is not the manifest of an index");
  EXPECT_EQ(with_manifest(R"({"format": "emblem-index", "format_version": 9})"),
            path +
                "/manifest.json has index format 9, but this program reads formats up to 1; use "
                "a newer emblem");
  EXPECT_EQ(
      with_manifest(R"({"format": )" + std::string(300'000, '[') + std::string(300'000, ']') + "}"),
      path + "/manifest.json is not the manifest of an index");
  std::filesystem::remove(path + "/manifest.json");
  EXPECT_EQ(error_of([&] { Index::load({}, path); }),
            path + " is not an index: it has no manifest.json");
}

// Written by someone else: its checksums are right.
TEST(Index, CentroidsThatAreNaNAreDamage) {
  const TempFolder folder;
  const std::string path = folder.path("index");
  Index::build({}, {.dim = kItemDim, .kind = IndexKind::kIvfFlat, .attributes = {"a", "b"}},
               GivenItems(some_items(0, 100)).items())
      ->save(path);
  std::string centroids = read_text_file(path + "/centroid");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto old_digits = checksum_digits(checksum_of(centroids.data(), centroids.size()));
  std::memcpy(centroids.data(), &nan, sizeof nan);
  folder.write("index/centroid", centroids);
  std::string manifest = read_text_file(path + "/manifest.json");
  const size_t at = manifest.find(old_digits);
  ASSERT_NE(at, manifest.npos);
  manifest.replace(at, old_digits.size(),
                   checksum_digits(checksum_of(centroids.data(), centroids.size())));
  folder.write("index/manifest.json", set_self_checksum(manifest));
  EXPECT_EQ(
      error_of([&] { Index::load({}, path); }),
      cat("index ", path, " is damaged: file centroid holds NaN or infinite elements in row 0"));
}

TEST(Index, TheLeastProbesThatReachARecallAreChosenAndSaved) {
  const TempFolder folder;
  GivenItems given(some_items(0, 700));
  given.attributes.clear();
  const auto index =
      Index::build({}, {.dim = kItemDim, .kind = IndexKind::kIvfFlat}, given.items());
  index->measure_recall({});
  const double usual = *index->settings().recall;
  EXPECT_GT(usual, 0.0);
  EXPECT_LT(usual, 1.0);
  index->choose_probes({}, 0.9);
  const int64_t probes = index->settings().probes;
  EXPECT_GT(probes, 1);
  EXPECT_GE(*index->settings().recall, 0.9);
  index->save(folder.path("index"));
  const auto loaded = Index::load({}, folder.path("index"));
  EXPECT_EQ(loaded->settings().probes, probes);
  EXPECT_EQ(loaded->settings().recall, index->settings().recall);
  const std::vector<float> query = vector_of(0, 9);
  const auto search = [&](const SearchOptions& options) {
    return loaded->search({}, {query.data(), 1, kItemDim}, options);
  };
  EXPECT_EQ(search({.k = 100}), search({.k = 100, .probes = probes}));
  EXPECT_NE(search({.k = 100}), search({.k = 100, .probes = 1}));

  const auto fewer = Index::build(
      {}, {.dim = kItemDim, .kind = IndexKind::kIvfFlat, .probes = probes - 1}, given.items());
  fewer->measure_recall({});
  EXPECT_LT(*fewer->settings().recall, 0.9);
  fewer->choose_probes({}, 1.0);
  EXPECT_EQ(*fewer->settings().recall, 1.0);
  EXPECT_THROW(fewer->choose_probes({}, 0.0), Error);
}

TEST(Index, ChangesAreNumbered) {
  GivenItems given(some_items(0, 50));
  given.attributes.clear();
  const auto index = Index::build({}, {.dim = kItemDim}, given.items());
  EXPECT_EQ(index->changes(), 0);
  GivenItems one(some_items(50, 1));
  one.attributes.clear();
  EXPECT_EQ(index->add({}, one.items()), 1);
  EXPECT_EQ(index->remove(std::vector<int64_t>{50}), 2);
  EXPECT_THROW(index->remove(std::vector<int64_t>{50}), Error);
  EXPECT_EQ(index->changes(), 2);
  index->rebuild({});
  const std::vector<float> query = vector_of(0, 9);
  int64_t change = 0;
  index->search({}, {query.data(), 1, kItemDim}, {}, &change);
  EXPECT_EQ(change, 2);
}

// Parts are large enough to be merged by the thread of the index, meanwhile.
TEST(Index, ItemsThatChangeWhileLargePartsAreMergedAreNotLost) {
  constexpr int64_t kLarge = 5000;
  for (const IndexKind kind : {IndexKind::kFlat, IndexKind::kIvfFlat}) {
    Vectors items = some_items(0, 1000);
    GivenItems given(items);
    given.attributes.clear();
    const auto index = Index::build({}, {.dim = kItemDim, .kind = kind}, given.items());
    for (int64_t round = 1; round <= 4; ++round) {
      Vectors more = some_items(round * kLarge, kLarge);
      GivenItems next(more);
      next.attributes.clear();
      index->add({}, next.items());
      items.merge(more);
      for (int64_t step = 0; step < 20; ++step) {
        const int64_t gone = round * kLarge + 7 * step, changed = gone + 1;
        index->remove(std::vector<int64_t>{gone});
        items.erase(gone);
        GivenItems again(some_items(changed, 1, 77));
        again.attributes.clear();
        index->add({}, again.items(), Existing::kReplace);
        items[changed] = vector_of(changed, 77);
      }
      expect_finds({}, *index, items);
    }
    expect_finds({}, *index, items);
  }
}

TEST(Index, SearchesDuringChangesSeeTheItemsOfOneMoment) {
  // Items of even rounds are replaced by those of odd rounds, as a whole.
  const auto index = Index::build({}, {.dim = kItemDim}, {});
  const auto items_of = [](uint64_t round) {
    Vectors items;
    for (int64_t id = 0; id < 64; ++id) {
      items[id] = std::vector<float>(kItemDim);
      items[id][0] = static_cast<float>(round);
    }
    return items;
  };
  const auto put = [&](uint64_t round) {
    GivenItems given(items_of(round));
    given.attributes.clear();
    index->add({}, given.items(), Existing::kReplace);
  };
  put(1);
  std::atomic<bool> done = false;
  const std::jthread writer([&] {
    for (uint64_t round = 2; round < 300; ++round) put(round);
    done = true;
  });
  std::vector<float> query(kItemDim);
  query[0] = 1.0f;
  while (!done) {
    const auto found = index->search({}, {query.data(), 1, kItemDim}, {.k = 100})[0];
    ASSERT_EQ(found.size(), 64u);
    for (const ScoredItem& item : found) ASSERT_EQ(item.score, found[0].score);
  }
}

}  // namespace
}  // namespace emblem
