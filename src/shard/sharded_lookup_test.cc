// Sharded lookups against one lookup over whole tables.
#include "shard/sharded_lookup.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "comm/threads.h"
#include "core/random.h"
#include "core/thread_pool.h"

namespace emblem {
namespace {

struct Case {
  int ranks = 1;
  int64_t shards = 1;
};

// Keys of a shard, by feature.
struct ShardBatch {
  struct Keys {
    std::vector<int64_t> keys;
    std::vector<int32_t> offsets;
    std::vector<float> weights;
  };
  int64_t bags = 0;
  std::vector<Keys> features;

  std::vector<FeatureKeys> views() const {
    std::vector<FeatureKeys> views;
    for (const Keys& f : features)
      views.push_back({.keys = {f.keys.data(), static_cast<int64_t>(f.keys.size())},
                       .offsets = {f.offsets.data(), static_cast<int64_t>(f.offsets.size())},
                       .weights = {f.weights.data(), static_cast<int64_t>(f.weights.size())}});
    return views;
  }
};

std::vector<TableSettings> sample_tables() {
  TableSettings rows{.name = "rows", .dim = 4, .capacity = 10007, .rule = AdaGrad{}};
  TableSettings small{.name = "small", .dim = 3, .capacity = 7, .rule = Adam{}, .l2 = 0.01f};
  small.l2_on_all_rows = true;
  TableSettings open{.name = "open", .dim = 5, .kind = TableKind::kDynamic, .rule = Sgd{}};
  TableSettings shy{.name = "shy",
                    .dim = 2,
                    .dtype = DType::kBf16,
                    .kind = TableKind::kDynamic,
                    .eviction = Eviction::kLfu,
                    .admission_threshold = 3,
                    .rule = RowWiseAdaGrad{},
                    .rounding = Rounding::kStochastic};
  TableSettings copied{.name = "copied", .dim = 4, .capacity = 50, .rule = AdaGrad{}};
  TableSettings copied_open = open;
  copied_open.name = "copied_open";
  return {rows, small, open, shy, copied, copied_open};
}

ShardPlan sample_plan(int ranks) {
  ShardPlan plan{.ranks = ranks};
  plan.tables = {over_all_ranks("rows", ranks), over_all_ranks("small", ranks),
                 over_all_ranks("open", ranks), on_rank("shy", ranks - 1, ranks),
                 on_every_rank("copied"),       on_every_rank("copied_open")};
  return plan;
}

// Two features share "rows" and "open"; one is weighted, one a mean.
std::vector<ShardedFeature> sample_features() {
  return {{0, Pooling::kSum}, {0, Pooling::kMean}, {1, Pooling::kSum}, {2, Pooling::kMean},
          {2, Pooling::kSum}, {3, Pooling::kSum},  {4, Pooling::kSum}, {5, Pooling::kSum}};
}

int64_t random_key(Random& random, size_t table) {
  const int64_t few = static_cast<int64_t>(random.bits() % 20);
  if (table == 0) return random.bits() % 2 ? few : static_cast<int64_t>(random.bits() % 10007);
  if (table == 1) return few % 7;
  if (table == 4) return few;
  if (random.bits() % 50 == 0) return random.bits() % 2 ? 0 : -1;
  return random.bits() % 2 ? few * 1000003 : static_cast<int64_t>(random.bits());
}

ShardBatch random_batch(uint64_t seed, int64_t bags) {
  Random random{seed, 7};
  ShardBatch batch{.bags = bags};
  const std::vector<ShardedFeature> features = sample_features();
  for (size_t f = 0; f < features.size(); ++f) {
    ShardBatch::Keys& keys = batch.features.emplace_back();
    const bool one_each = f == 2 || f == 6;
    if (!one_each) keys.offsets.push_back(0);
    for (int64_t bag = 0; bag < bags; ++bag) {
      const uint64_t count = one_each ? 1 : random.bits() % 4;
      for (uint64_t i = 0; i < count; ++i) {
        keys.keys.push_back(random_key(random, features[f].table));
        if (f == 1 || f == 4) keys.weights.push_back(0.5f + static_cast<float>(i));
      }
      if (!one_each) keys.offsets.push_back(static_cast<int32_t>(keys.keys.size()));
    }
  }
  return batch;
}

std::vector<float> random_gradients(uint64_t seed, int64_t count) {
  Random random{seed, 8};
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values)
    value = static_cast<float>(static_cast<int64_t>(random.bits() % 2001) - 1000) / 1000.0f;
  return values;
}

// What training leaves: outputs by shard, the content of tables, counts.
struct Trained {
  std::map<int64_t, std::vector<std::vector<float>>> outputs;  // by shard, by step
  std::map<std::string, std::map<int64_t, std::vector<float>>> rows;
  std::map<std::string, std::map<int64_t, int64_t>> scores;
  std::vector<LookupCounts> counts;
  std::vector<double> norms;
};

constexpr int kSteps = 4;
constexpr int64_t kBags[] = {5, 0, 17, 1, 8, 3, 0, 40};  // of shards

void take_content(const Context& context, const Table& table, Trained& trained) {
  table.export_rows(context, 100, [&](const RowBatch& batch) {
    for (size_t i = 0; i < batch.keys.size(); ++i) {
      std::vector<float>& row = trained.rows[table.settings().name][batch.keys[i]];
      const auto dim = static_cast<size_t>(table.dim());
      const auto state = static_cast<size_t>(table.state_floats());
      row.assign(batch.weights.begin() + static_cast<ptrdiff_t>(i * dim),
                 batch.weights.begin() + static_cast<ptrdiff_t>((i + 1) * dim));
      row.insert(row.end(), batch.states.begin() + static_cast<ptrdiff_t>(i * state),
                 batch.states.begin() + static_cast<ptrdiff_t>((i + 1) * state));
      if (!batch.scores.empty())
        trained.scores[table.settings().name][batch.keys[i]] = batch.scores[i];
    }
  });
}

// One rank of a training.
Trained train_rank(Communicator& ranks, int64_t shards) {
  ThreadPool threads(2);
  const Context context{.threads = &threads};
  const int64_t n = ranks.size(), r = ranks.rank();
  const int64_t first = r * shards / n, last = (r + 1) * shards / n;
  int64_t slots = 0;
  for (int64_t rank = 0; rank < n; ++rank)
    slots = std::max(slots, (rank + 1) * shards / n - rank * shards / n);
  const ShardPlan plan = sample_plan(ranks.size());
  std::vector<std::unique_ptr<Table>> tables;
  std::vector<ShardedTable> sharded;
  for (const TableSettings& settings : sample_tables()) {
    const TableShards& held = plan.of(settings.name);
    tables.push_back(make_table(context, settings_of_part(settings, held, ranks.rank())));
    sharded.push_back({settings, held, tables.back().get()});
  }
  const auto lookup = make_sharded_lookup(context, sharded, sample_features(), ranks, slots);
  Trained trained;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<ShardBatch> batches;
    std::vector<FeatureKeys> features;
    int64_t bags = 0;
    std::vector<float> gradients;
    for (int64_t s = first; s < last; ++s) {
      const auto seed = static_cast<uint64_t>(step * 100 + s);
      batches.push_back(random_batch(seed, kBags[s]));
      bags += kBags[s];
      const auto own = random_gradients(seed, kBags[s] * lookup->width());
      gradients.insert(gradients.end(), own.begin(), own.end());
    }
    for (const ShardBatch& batch : batches)
      for (const FeatureKeys& keys : batch.views()) features.push_back(keys);
    std::vector<float> out(static_cast<size_t>(bags * lookup->width()));
    lookup->forward(context, features, step == 3 ? Phase::kEval : Phase::kTrain,
                    View<float>{out.data(), bags, lookup->width()});
    const float* next = out.data();
    for (int64_t s = first; s < last; ++s) {
      const float* end = next + kBags[s] * lookup->width();
      trained.outputs[s].emplace_back(next, end);
      next = end;
    }
    if (step == 3) continue;
    const View<const float> view{gradients.data(), bags, lookup->width()};
    trained.norms.push_back(lookup->squared_gradient_norm(context, view));
    lookup->backward(context, view, 0.5f, 0.1f, step);
  }
  trained.counts = lookup->take_counts(context);
  for (const auto& table : tables) {
    const bool elsewhere = plan.of(table->settings().name).replicated && ranks.rank() != 0;
    if (!elsewhere) take_content(context, *table, trained);
  }
  return trained;
}

Trained train(const Case& c) {
  Trained all;
  std::mutex mutex;
  run_thread_ranks(c.ranks, [&](Communicator& ranks) {
    Trained one = train_rank(ranks, c.shards);
    const std::lock_guard lock(mutex);
    all.outputs.merge(one.outputs);
    for (auto& [name, rows] : one.rows) {
      const size_t before = all.rows[name].size(), own = rows.size();
      all.rows[name].merge(rows);
      EXPECT_EQ(all.rows[name].size(), before + own) << name << ": a key on two ranks";
    }
    for (auto& [name, scores] : one.scores) all.scores[name].merge(scores);
    all.counts.resize(one.counts.size());
    for (size_t f = 0; f < one.counts.size(); ++f) {
      all.counts[f].values += one.counts[f].values;
      all.counts[f].missing += one.counts[f].missing;
    }
    if (ranks.rank() == 0) all.norms = one.norms;
  });
  return all;
}

class ShardedRanks : public testing::TestWithParam<int> {};

TEST_P(ShardedRanks, GiveTheBytesOfOneRank) {
  const Trained one = train({1, 8}), several = train({GetParam(), 8});
  EXPECT_EQ(several.outputs, one.outputs);
  EXPECT_EQ(several.rows, one.rows);
  EXPECT_EQ(several.scores, one.scores);
  EXPECT_EQ(several.counts, one.counts);
  EXPECT_EQ(several.norms, one.norms);
}

INSTANTIATE_TEST_SUITE_P(, ShardedRanks, testing::Values(2, 3, 4, 5, 8));

// One shard of all rows through the plain lookup.
TEST(ShardedLookup, OneRankIsThePlainLookup) {
  Trained sharded;
  run_thread_ranks(1, [&](Communicator& ranks) { sharded = train_rank(ranks, 1); });
  const Context context;
  std::vector<std::unique_ptr<Table>> tables;
  for (const TableSettings& settings : sample_tables())
    tables.push_back(make_table(context, settings));
  std::vector<LookupFeature> features;
  for (const ShardedFeature& feature : sample_features())
    features.push_back({tables[feature.table].get(), feature.pooling});
  const auto lookup = make_lookup(context, features);
  Trained plain;
  for (int step = 1; step <= kSteps; ++step) {
    const auto seed = static_cast<uint64_t>(step * 100);
    const ShardBatch batch = random_batch(seed, kBags[0]);
    const auto gradients = random_gradients(seed, kBags[0] * lookup->width());
    std::vector<float> out(gradients.size());
    const auto keys = batch.views();
    lookup->forward(context, keys, step == 3 ? Phase::kEval : Phase::kTrain,
                    View<float>{out.data(), kBags[0], lookup->width()});
    plain.outputs[0].push_back(out);
    if (step == 3) continue;
    const View<const float> view{gradients.data(), kBags[0], lookup->width()};
    plain.norms.push_back(lookup->squared_gradient_norm(context, view));
    lookup->backward(context, view, 0.5f, 0.1f, step);
  }
  for (const auto& table : tables) take_content(context, *table, plain);
  EXPECT_EQ(sharded.outputs, plain.outputs);
  EXPECT_EQ(sharded.rows, plain.rows);
  EXPECT_EQ(sharded.scores, plain.scores);
  EXPECT_EQ(sharded.counts, lookup->take_counts(context));
  for (size_t i = 0; i < plain.norms.size(); ++i)
    EXPECT_NEAR(sharded.norms[i], plain.norms[i], 1e-12 * plain.norms[i]);
}

TEST(ShardedLookup, RefusesKeysOutsideAStaticTable) {
  run_thread_ranks(1, [&](Communicator& ranks) {
    const Context context;
    const TableSettings settings{.name = "a", .dim = 2, .capacity = 10};
    const auto table = make_table(context, settings);
    const ShardedTable sharded{settings, over_all_ranks("a", 1), table.get()};
    const ShardedFeature feature{0, Pooling::kSum};
    const auto lookup = make_sharded_lookup(context, {&sharded, 1}, {&feature, 1}, ranks, 1);
    const int64_t key = 10;
    float out[2];
    const FeatureKeys keys{.keys = {&key, 1}};
    try {
      lookup->forward(context, {&keys, 1}, Phase::kTrain, View<float>{out, 1, 2});
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "table a: key 10 is outside [0, 10): raise num_buckets, use "
                   "hash_bucket_size, or make the table dynamic");
    }
  });
}

}  // namespace
}  // namespace emblem
