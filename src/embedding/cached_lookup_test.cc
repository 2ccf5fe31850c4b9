// Tables whose rows are in host memory, with a cache on the GPU: results must be those of tables
// in device memory, and looking must change nothing. On a CPU all placements are one.
#include <gmock/gmock.h>

#include "embedding/tables_test.h"

namespace emblem {
namespace {

// All that a table holds.
struct Content {
  std::vector<int64_t> keys, scores;
  std::vector<float> weights, states;
  int64_t clock = 0;
  bool operator==(const Content&) const = default;
};

class CachedLookupTest : public TablesTest {
 protected:
  Content content_of(const Table& table) {
    Content content;
    table.export_rows(context_, 1000, [&](const RowBatch& rows) {
      content.keys.insert(content.keys.end(), rows.keys.begin(), rows.keys.end());
      content.scores.insert(content.scores.end(), rows.scores.begin(), rows.scores.end());
      content.weights.insert(content.weights.end(), rows.weights.begin(), rows.weights.end());
      content.states.insert(content.states.end(), rows.states.begin(), rows.states.end());
    });
    content.clock = table.clock();
    return content;
  }
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
EMBLEM_TEST_ON_EVERY_DEVICE(CachedLookupTest);

// Half of the keys are few, and a quarter have no row; bags, weights, and one key a bag.
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
        Table& far = filled(settings, kRows);
        TestLookup expected = over({{&near}, {&near}, {&near, Pooling::kMean}});
        TestLookup found = over({{&far}, {&far}, {&far, Pooling::kMean}});
        // Some rows get into the cache.
        Random random{.seed = 8};
        std::vector<Bags> some(3);
        for (Bags& of : some) {
          for (int i = 0; i < 100; ++i)
            of.keys.push_back(static_cast<int64_t>(2 * random.below(kRows)));
        }
        expected.forward(some, 100);
        found.forward(some, 100);
        const Content before = content_of(far);
        const int64_t version = far.version();
        const Table::CacheUse use = far.cache_use();
        for (const int64_t bags : {1, 2000, 700}) {
          const auto keys = mixed_bags(random, kRows, bags);
          ASSERT_EQ(found.forward(keys, bags, Phase::kEval),
                    expected.forward(keys, bags, Phase::kEval))
              << "dim " << dim;
        }
        EXPECT_EQ(content_of(far), before);
        EXPECT_EQ(far.version(), version);
        EXPECT_EQ(far.cache_use().rows, use.rows);
        EXPECT_EQ(far.cache_use().missed, use.missed);
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

}  // namespace
}  // namespace emblem
