// Tables whose rows are in host memory, with a cache on the GPU: results must be those of tables
// in device memory, and looking must change nothing. On a CPU all placements are one.
#include <gmock/gmock.h>

#include "embedding/tables_test.h"
#include "embedding/transfer/host_transfer.h"

namespace emblem {
namespace {

class CachedLookupTest : public TablesTest {
 protected:
  // A table with a row for each even key below 2 * rows.
  Table& filled(TableSettings settings, int64_t rows) {
    Table& table = make(std::move(settings));
    std::vector<int64_t> keys(rows);
    std::vector<float> weights(rows * table.dim());
    Random random{.seed = 3};
    for (int64_t i = 0; i < rows; ++i) keys[i] = 2 * i;
    for (float& weight : weights) weight = random.normal();
    table.import_rows(context_, {keys, weights});
    return table;
  }
};
EMBLEM_TEST_TRANSFERS_TOO(CachedLookupTest);

// Half of the keys are few, and a quarter have no row; bags, weights, and one key per bag.
std::vector<Bags> mixed_bags(Random& random, int64_t rows, int64_t bags) {
  std::vector<Bags> all(3);
  const auto draw = [&] {
    const uint64_t below = random.below(2) ? 20 : static_cast<uint64_t>(rows);
    return static_cast<int64_t>(2 * random.below(below) + (random.below(4) == 0));
  };
  for (int64_t b = 0; b < bags; ++b) {
    all[0].keys.push_back(draw());
    for (Bags* of : {&all[1], &all[2]}) {
      of->offsets.push_back(static_cast<int32_t>(of->keys.size()));
      for (uint64_t i = random.below(5); i > 0; --i) of->keys.push_back(draw());
    }
  }
  for (Bags* of : {&all[1], &all[2]}) of->offsets.push_back(static_cast<int32_t>(of->keys.size()));
  for (size_t i = 0; i < all[2].keys.size(); ++i) all[2].weights.push_back(random.uniform());
  return all;
}

TEST_P(CachedLookupTest, EvaluationReadsRowsWhereverTheyAreAndChangesNothing) {
  constexpr int64_t kRows = 3000;
  for (const Placement placement : {Placement::kCache, Placement::kHost}) {
    for (const int64_t dim : {3, 4, 20, 128, 256}) {
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        TableSettings settings{.name = "t",
                               .dim = dim,
                               .dtype = dtype,
                               .kind = TableKind::kDynamic,
                               .capacity = kRows,
                               .eviction = Eviction::kLru,
                               .missing = {Initializer::Kind::kNormal, 0.0f, 1.0f},
                               .rule = Adam{}};
        Table& near = filled(settings, kRows);
        settings.placement = placement;
        settings.device_bytes = 500 * (dim * 12 + 64);
        Table& uncached = filled(settings, kRows);
        TestLookup expected = over({{&near}, {&near}, {&near, Pooling::kMean}});
        TestLookup found = over({{&uncached}, {&uncached}, {&uncached, Pooling::kMean}});
        // Some rows get into the cache.
        Random random{.seed = 8};
        std::vector<Bags> some(3);
        for (Bags& of : some) {
          for (int i = 0; i < 100; ++i)
            of.keys.push_back(static_cast<int64_t>(2 * random.below(kRows)));
        }
        expected.forward(some, 100);
        found.forward(some, 100);
        const Content before = content_of(context_, uncached);
        const int64_t version = uncached.version();
        const Table::CacheUse use = uncached.cache_use();
        for (const int64_t bags : {1, 2000, 700}) {
          const auto keys = mixed_bags(random, kRows, bags);
          ASSERT_EQ(found.forward(keys, bags, Phase::kEval),
                    expected.forward(keys, bags, Phase::kEval))
              << "dim " << dim;
        }
        EXPECT_EQ(content_of(context_, uncached), before);
        EXPECT_EQ(uncached.version(), version);
        EXPECT_EQ(uncached.cache_use().rows, use.rows);
        EXPECT_EQ(uncached.cache_use().missed, use.missed);
      }
    }
  }
}

// More rows are missing than are fetched at a time: the others are read where they are.
TEST_P(CachedLookupTest, AnEvaluationMayMissAnyNumberOfRows) {
  constexpr int64_t kRows = 700000, kDim = 4;
  Table& table = make({.name = "t",
                       .dim = kDim,
                       .capacity = kRows,
                       .seed = 5,
                       .placement = Placement::kCache,
                       .device_bytes = 1000 * 16});
  TestLookup lookup = over({{&table}});
  Bags bags;
  for (int64_t i = 0; i < kRows; ++i) bags.keys.push_back((i * 7919) % kRows);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto out = lookup.forward({bags}, kRows, Phase::kEval);
    for (int64_t i = 0; i < kRows * kDim; ++i) {
      const auto key = static_cast<uint64_t>(bags.keys[i / kDim]);
      ASSERT_EQ(out[i], table.settings().initializer(5, key, i % kDim)) << key;
    }
  }
}

TEST_P(CachedLookupTest, TablesOfDifferentPlacementsShareALookup) {
  std::vector<Table*> tables;
  for (const Placement placement : {Placement::kDevice, Placement::kCache, Placement::kHost}) {
    for (const int64_t dim : {4, 128}) {
      tables.push_back(&filled({.name = "t",
                                .dim = dim,
                                .kind = TableKind::kDynamic,
                                .capacity = 400,
                                .placement = placement,
                                .device_bytes = 50 * 512},
                               400));
    }
  }
  std::vector<LookupFeature> features;
  for (Table* table : tables) features.push_back({table});
  TestLookup lookup = over(features);
  Random random{.seed = 4};
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<Bags> bags(tables.size());
    for (Bags& of : bags) {
      for (int i = 0; i < 300; ++i) of.keys.push_back(static_cast<int64_t>(2 * random.below(400)));
    }
    const auto out = lookup.forward(bags, 300, Phase::kEval);
    int64_t column = 0;
    for (size_t t = 0; t < tables.size(); ++t) {
      const int64_t dim = tables[t]->dim();
      for (const int64_t i : {0, 17, 299}) {
        const std::vector<float> found(&out[i * lookup.width() + column],
                                       &out[i * lookup.width() + column] + dim);
        EXPECT_EQ(found, row(*tables[t], bags[t].keys[i])) << "table " << t;
      }
      column += dim;
    }
    lookup.forward(bags, 300);  // the caches change
    lookup.backward(std::vector<float>(300 * lookup.width(), 0.5f));
  }
}

// Enough rows enter and leave the cache in a step for host threads to transfer them, if there are
// CPUs for it.
TEST_P(CachedLookupTest, TrainingMayExchangeManyRows) {
  constexpr int64_t kRows = 100000, kDim = 32, kLookups = 30000;
  const TableSettings near{
      .name = "near", .dim = kDim, .capacity = kRows, .rule = AdaGrad{}, .seed = 6};
  TableSettings uncached = near;
  uncached.placement = Placement::kCache;
  uncached.device_bytes = kLookups * kDim * 8;
  const std::shared_ptr<HostTransfer> host_transfer = HostTransfer::of_process();
  const uint64_t served_before = host_transfer ? host_transfer->served() : 0;
  std::vector<Content> contents;
  std::vector<std::vector<float>> outputs;
  for (const TableSettings& settings : {near, uncached}) {
    Table& table = make(settings);
    TestLookup lookup = over({{&table}}, Sums::kDeterministic);
    for (int step = 1; step <= 6; ++step) {
      Random random{.seed = 7, .stream = static_cast<uint64_t>(step)};
      Bags bags, others;
      for (Bags* of : {&bags, &others}) {
        for (int64_t i = 0; i < kLookups; ++i)
          of->keys.push_back(static_cast<int64_t>(random.below(kRows)));
      }
      std::vector<float> gradients = lookup.forward({bags}, kLookups);
      for (float& gradient : gradients) gradient += random.normal();
      lookup.backward(gradients, 1.0f, step);
      outputs.push_back(lookup.forward({others}, kLookups, Phase::kEval));
    }
    contents.push_back(content_of(context_, table));
  }
  EXPECT_EQ(contents[1], contents[0]);
  for (size_t step = 0; step < outputs.size() / 2; ++step)
    EXPECT_EQ(outputs[step + outputs.size() / 2], outputs[step]) << "step " << step;
  if (host_transfer && GetParam() == Device::kCuda) {
    EXPECT_GT(host_transfer->served(), served_before);
  }
}

// The state and the output of a few training steps.
struct Trained {
  Content content;
  std::vector<std::vector<float>> outputs;
  std::vector<double> norms;
};

enum class Prefetches { kNone, kBeforeBackward, kAfterBackward, kOthers };

class PrefetchTest : public CachedLookupTest {
 protected:
  // Steps of different sizes: some have more rows than the cache.
  static std::vector<Bags> batch(int step) {
    Random random{.seed = 21, .stream = static_cast<uint64_t>(step)};
    const uint64_t universe = step % 5 == 4 ? 1500 : 400 + 20 * step;
    std::vector<Bags> bags(2);
    for (int i = 0; i < bags_of(step); ++i) {
      bags[0].keys.push_back(static_cast<int64_t>(random.below(universe)));
      bags[1].offsets.push_back(static_cast<int32_t>(bags[1].keys.size()));
      for (uint64_t n = random.below(4); n > 0; --n)
        bags[1].keys.push_back(static_cast<int64_t>(random.below(40)));
    }
    bags[1].offsets.push_back(static_cast<int32_t>(bags[1].keys.size()));
    return bags;
  }
  static int bags_of(int step) { return step % 5 == 4 ? 700 : 150; }

  Trained train(const TableSettings& settings, Prefetches prefetches) {
    Table& table = make(settings);
    TestLookup lookup = over({{&table}, {&table, Pooling::kMean}}, Sums::kDeterministic);
    Trained trained;
    for (int step = 1; step <= 24; ++step) {
      const bool before = prefetches == Prefetches::kBeforeBackward ||
                          (prefetches == Prefetches::kOthers && step % 2 == 0);
      // Not always the next one, and sometimes twice.
      const int next = prefetches == Prefetches::kOthers ? step + 1 + step % 3 : step + 1;
      trained.outputs.push_back(lookup.forward(batch(step), bags_of(step)));
      if (before) lookup.prefetch(batch(next));
      if (prefetches == Prefetches::kOthers && step % 4 == 0) {
        lookup.prefetch(batch(step + 1));
        lookup.forward(batch(step), bags_of(step), Phase::kEval);
      }
      std::vector<float> gradients = trained.outputs.back();
      Random random{.seed = 22, .stream = static_cast<uint64_t>(step)};
      for (float& gradient : gradients) gradient += random.normal();
      trained.norms.push_back(lookup.squared_gradient_norm(gradients));
      lookup.backward(gradients, 0.5f, step, 0.05f);
      if (prefetches == Prefetches::kAfterBackward) lookup.prefetch(batch(next));
      if (prefetches == Prefetches::kOthers && step % 6 == 0) {
        lookup.prefetch(batch(next));
        content_of(context_, table);
      }
    }
    trained.content = content_of(context_, table);
    return trained;
  }
};
EMBLEM_TEST_TRANSFERS_TOO(PrefetchTest);

TEST_P(PrefetchTest, ChangesNoResult) {
  TableSettings lru{.name = "lru",
                    .dim = 8,
                    .kind = TableKind::kDynamic,
                    .capacity = 1000,
                    .eviction = Eviction::kLru,
                    .initializer = {Initializer::Kind::kNormal, 0.0f, 1.0f},
                    .rule = Adam{},
                    .placement = Placement::kCache,
                    .device_bytes = 400 * 96};
  TableSettings lfu = lru;
  lfu.eviction = Eviction::kLfu;
  lfu.admission_threshold = 2;
  lfu.dtype = DType::kBf16;
  TableSettings fixed{.name = "static",
                      .dim = 8,
                      .capacity = 1500,
                      .rule = AdaGrad{},
                      .placement = Placement::kCache,
                      .device_bytes = 300 * 64};
  TableSettings pulled = fixed;  // every step changes every row
  pulled.l2 = 0.01f;
  pulled.l2_on_all_rows = true;
  TableSettings on_host = lru;
  on_host.placement = Placement::kHost;
  for (const TableSettings& settings : {lru, lfu, fixed, pulled, on_host}) {
    const Trained expected = train(settings, Prefetches::kNone);
    for (const Prefetches prefetches :
         {Prefetches::kBeforeBackward, Prefetches::kAfterBackward, Prefetches::kOthers}) {
      const Trained found = train(settings, prefetches);
      EXPECT_EQ(found.outputs, expected.outputs) << settings.name;
      EXPECT_EQ(found.content, expected.content) << settings.name;
      EXPECT_EQ(found.norms, expected.norms) << settings.name;
    }
  }
}

TEST_P(PrefetchTest, BringsTheRowsThatTheNextBatchNeeds) {
  if (GetParam() == Device::kCpu) GTEST_SKIP() << "on a CPU all rows are where they are";
  Table& table = filled({.name = "t",
                         .dim = 4,
                         .kind = TableKind::kDynamic,
                         .capacity = 1000,
                         .placement = Placement::kCache,
                         .device_bytes = 100 * 16},
                        1000);
  TestLookup lookup = over({{&table}});
  const auto keys = [](int64_t first, int64_t count) {
    Bags bags;
    for (int64_t i = first; i < first + count; ++i) {
      bags.keys.push_back(2 * i);
      bags.keys.push_back(2 * i);
    }
    return std::vector<Bags>{bags};
  };
  const auto step = [&](int64_t first, int64_t count, int64_t next, int64_t next_count) {
    const Table::CacheUse before = table.cache_use();
    lookup.forward(keys(first, count), 2 * count);
    lookup.prefetch(keys(next, next_count));
    lookup.backward(std::vector<float>(2 * count * 4, 1.0f));
    const Table::CacheUse after = table.cache_use();
    return Table::CacheUse{after.rows - before.rows, after.missed - before.missed,
                           after.prefetched - before.prefetched};
  };
  EXPECT_EQ(step(0, 40, 30, 40), (Table::CacheUse{40, 40, 30}));  // ten are there
  EXPECT_EQ(step(30, 40, 500, 50), (Table::CacheUse{40, 0, 50}));
  EXPECT_EQ(step(500, 50, 700, 80), (Table::CacheUse{50, 0, 50}));  // the step's rows stay
  EXPECT_EQ(step(700, 80, 800, 10), (Table::CacheUse{80, 30, 10}));
  EXPECT_EQ(step(800, 10, 990, 20), (Table::CacheUse{10, 0, 10}));     // ten keys have no row
  EXPECT_EQ(step(100, 150, 140, 60), (Table::CacheUse{150, 150, 0}));  // in use
  // Rows of that step have had one update, with a slot or without.
  const Table& twin =
      filled({.name = "u", .dim = 4, .kind = TableKind::kDynamic, .capacity = 1000}, 1000);
  for (const int64_t at : {100, 139, 170, 199, 249}) {
    std::vector<float> expected = row(twin, 2 * at);
    for (float& weight : expected) weight -= 0.2f;
    EXPECT_THAT(row(table, 2 * at), testing::Pointwise(testing::FloatNear(1e-5), expected));
  }
}

}  // namespace
}  // namespace emblem
