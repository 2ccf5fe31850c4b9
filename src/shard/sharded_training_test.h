// shard/sharded_training_test.h - a training of tables of every kind on thread ranks, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>

#include "comm/rank_group.h"
#include "comm/threads/threads.h"
#include "core/device/device_test.h"
#include "core/math/random.h"
#include "shard/sharded_lookup.h"

namespace emblem {

// kNothingPooled: nor do ranks pool bags for others, so that all keys without a row are noted.
enum class Plans { kEveryKind, kWholeRows, kNothingPooled };

// Rules divide by the size of sums of gradients. Where those of both signs cancel, the rounding of
// another order of sums becomes a whole step.
enum class Signs { kBoth, kOne };

// How ranks that can use each other's memory reach it.
enum class Reach { kPeerMemory, kExchanged };

struct Case {
  int ranks = 1;
  int64_t shards = 1;
  Device device = Device::kCpu;
  DType precision = DType::kF32;
  Plans plans = Plans::kEveryKind;
  std::vector<std::string> hosts = {};  // by rank; empty: one host
  HostDedup host_dedup = HostDedup::kNone;
  int ahead = 0;  // steps, of which the keys are announced; 0: none are
  Signs signs = Signs::kBoth;
  Reach reach = Reach::kPeerMemory;
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
};

// Keys on a device.
class Uploaded {
 public:
  explicit Uploaded(const Context& context) : context_(context) {}
  std::vector<FeatureKeys> views(const ShardBatch& batch) {
    std::vector<FeatureKeys> views;
    for (const ShardBatch::Keys& f : batch.features)
      views.push_back({.keys = there(keys_, f.keys),
                       .offsets = there(offsets_, f.offsets),
                       .weights = there(weights_, f.weights)});
    return views;
  }

 private:
  template <class T>
  View<const T> there(std::deque<Buffer<T>>& kept, const std::vector<T>& values) {
    kept.push_back(Buffer<T>::from(context_, values));
    return std::as_const(kept.back()).view();
  }
  const Context& context_;
  std::deque<Buffer<int64_t>> keys_;
  std::deque<Buffer<int32_t>> offsets_;
  std::deque<Buffer<float>> weights_;
};

inline std::vector<TableSettings> sample_tables() {
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
  TableSettings cut{.name = "cut",
                    .dim = 5,
                    .dtype = DType::kBf16,
                    .kind = TableKind::kDynamic,
                    .eviction = Eviction::kLfu,
                    .admission_threshold = 2,
                    .rule = Adam{},
                    .rounding = Rounding::kStochastic};
  TableSettings cut_rows{.name = "cut_rows", .dim = 7, .capacity = 90, .rule = AdaGrad{}};
  TableSettings pooled = shy;
  pooled.name = "pooled";
  pooled.dim = 6;
  TableSettings wide{.name = "wide", .dim = 128, .capacity = 5000, .rule = Adam{}};
  TableSettings cut_full{.name = "cut_full",
                         .dim = 4,
                         .kind = TableKind::kDynamic,
                         .capacity = 100,
                         .eviction = Eviction::kLru,
                         .rule = Ftrl{}};
  return {rows, small, open, shy, copied, copied_open, cut, cut_rows, pooled, wide, cut_full};
}

inline ShardPlan sample_plan(int ranks, Plans plans) {
  ShardPlan plan{.ranks = ranks};
  plan.tables = {over_all_ranks("rows", ranks), over_all_ranks("small", ranks),
                 over_all_ranks("open", ranks), on_rank("shy", ranks - 1, ranks),
                 on_every_rank("copied"),       on_every_rank("copied_open")};
  std::vector<int> all, two = {ranks - 1};
  for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
  if (ranks > 1) two.push_back(0);
  plan.tables.push_back(by_columns("cut", two, ranks));
  all.resize(static_cast<size_t>(std::min(ranks, 7)));
  plan.tables.push_back(by_columns("cut_rows", all, ranks));
  plan.tables.push_back(on_rank("pooled", ranks / 2, ranks));
  for (const size_t t : {7u, 8u}) plan.tables[t].pooled_at_owner = plans != Plans::kNothingPooled;
  plan.tables.push_back(over_all_ranks("wide", ranks));
  plan.tables.push_back(by_columns("cut_full", two, ranks));
  for (TableShards& table : plan.tables)
    if (plans == Plans::kWholeRows && !table.columns.empty())
      table = on_rank(table.table, table.columns[0], ranks);
  return plan;
}

// Two features share "rows" and "open"; one is weighted, one a mean.
inline std::vector<ShardedFeature> sample_features() {
  return {{0, Pooling::kSum},  {0, Pooling::kMean}, {1, Pooling::kSum},  {2, Pooling::kMean},
          {2, Pooling::kSum},  {3, Pooling::kSum},  {4, Pooling::kSum},  {5, Pooling::kSum},
          {6, Pooling::kSum},  {7, Pooling::kMean}, {6, Pooling::kMean}, {7, Pooling::kSum},
          {8, Pooling::kMean}, {8, Pooling::kSum},  {9, Pooling::kSum},  {9, Pooling::kSum},
          {10, Pooling::kSum}};
}

inline int64_t random_key(Random& random, size_t table) {
  const int64_t few = static_cast<int64_t>(random.bits() % 20);
  if (table == 0) return random.bits() % 2 ? few : static_cast<int64_t>(random.bits() % 10007);
  if (table == 1) return few % 7;
  if (table == 4 || table == 7) return few;
  if (table == 9) return random.bits() % 2 ? few : static_cast<int64_t>(random.bits() % 5000);
  if (random.bits() % 50 == 0) return random.bits() % 2 ? 0 : -1;
  return random.bits() % 2 ? few * 1000003 : static_cast<int64_t>(random.bits());
}

inline ShardBatch random_batch(uint64_t seed, int64_t bags) {
  Random random{seed, 7};
  ShardBatch batch{.bags = bags};
  const std::vector<ShardedFeature> features = sample_features();
  for (size_t f = 0; f < features.size(); ++f) {
    ShardBatch::Keys& keys = batch.features.emplace_back();
    const bool one_each = f == 2 || f == 6 || f == 11 || f == 14;
    if (!one_each) keys.offsets.push_back(0);
    for (int64_t bag = 0; bag < bags; ++bag) {
      const uint64_t count = one_each ? 1 : random.bits() % 4;
      for (uint64_t i = 0; i < count; ++i) {
        keys.keys.push_back(random_key(random, features[f].table));
        if (f == 1 || f == 4 || f == 12) keys.weights.push_back(0.5f + static_cast<float>(i));
      }
      if (!one_each) keys.offsets.push_back(static_cast<int32_t>(keys.keys.size()));
    }
  }
  return batch;
}

inline std::vector<float> random_gradients(uint64_t seed, int64_t count,
                                           Signs signs = Signs::kBoth) {
  Random random{seed, 8};
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(static_cast<int64_t>(random.bits() % 2001) - 1000) / 1000.0f;
    if (signs == Signs::kOne) value = std::abs(value);
  }
  return values;
}

// Flags of keys without a row (FeatureKeys::absent) of one pass.
class AbsentFlags {
 public:
  // Has the keys note them.
  AbsentFlags(const Context& context, std::vector<FeatureKeys>& keys) : context_(context) {
    for (FeatureKeys& feature : keys) {
      flags_.push_back(
          Buffer<uint8_t>::from(context, std::vector<uint8_t>(feature.keys.size(), 7)));
      feature.absent = flags_.back().view();
    }
  }
  // Adds them up by feature.
  void add_to(std::vector<int64_t>& sums) const {
    for (size_t i = 0; i < flags_.size(); ++i)
      for (const uint8_t flag : flags_[i].to_host(context_)) sums[i % sums.size()] += flag;
  }

 private:
  const Context& context_;
  std::deque<Buffer<uint8_t>> flags_;
};

// What training leaves: outputs by shard, the content of tables, counts.
struct Trained {
  std::map<int64_t, std::vector<std::vector<float>>> outputs;  // by shard, by step
  std::map<std::string, std::map<int64_t, std::vector<float>>> rows;
  std::map<std::string, std::map<int64_t, int64_t>> scores;
  std::vector<LookupCounts> counts;
  std::vector<double> norms;
};

inline void expect_equal(const Trained& one, const Trained& other) {
  EXPECT_EQ(one.outputs, other.outputs);
  EXPECT_EQ(one.rows, other.rows);
  EXPECT_EQ(one.scores, other.scores);
  EXPECT_EQ(one.counts, other.counts);
  EXPECT_EQ(one.norms, other.norms);
}

inline constexpr int kSteps = 4;
inline constexpr LookupSettings kSettings{.sums = Sums::kDeterministic, .transfer = {}};
inline constexpr int64_t kBags[] = {5, 0, 17, 1, 8, 3, 0, 40};  // bags of shards

// Rows of a slice of columns are zero elsewhere.
inline void take_content(const Context& context, const Table& table, Trained& trained) {
  const auto columns = static_cast<size_t>(table.settings().row_dim());
  const auto first = static_cast<size_t>(table.settings().columns.first);
  const auto dim = static_cast<size_t>(table.dim());
  const auto place = [&](std::span<const float> values, size_t begin, std::vector<float>& row) {
    const size_t at = row.size();
    row.resize(at + columns);
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(begin), dim,
                row.begin() + static_cast<ptrdiff_t>(at + first));
  };
  table.export_rows(context, 100, [&](const RowBatch& batch) {
    for (size_t i = 0; i < batch.keys.size(); ++i) {
      std::vector<float>& row = trained.rows[table.settings().name][batch.keys[i]];
      const auto state = static_cast<size_t>(table.state_floats());
      if (dim != columns) {
        place(batch.weights, i * dim, row);
        for (size_t plane = 0; plane < state; plane += dim)
          place(batch.states, i * state + plane, row);
      }
      if (dim == columns)
        row.assign(batch.weights.begin() + static_cast<ptrdiff_t>(i * dim),
                   batch.weights.begin() + static_cast<ptrdiff_t>((i + 1) * dim));
      if (dim == columns)
        row.insert(row.end(), batch.states.begin() + static_cast<ptrdiff_t>(i * state),
                   batch.states.begin() + static_cast<ptrdiff_t>((i + 1) * state));
      if (!batch.scores.empty())
        trained.scores[table.settings().name][batch.keys[i]] = batch.scores[i];
    }
  });
}

// The batches of a rank's shards for all steps.
class RankBatches {
 public:
  RankBatches(const Context& context, int64_t first, int64_t last) : uploaded_(context) {
    for (int step = 1; step <= kSteps; ++step) {
      std::vector<FeatureKeys>& features = features_.emplace_back();
      for (int64_t s = first; s < last; ++s) {
        const ShardBatch batch = random_batch(seed_of(step, s), kBags[s]);
        for (const FeatureKeys& keys : uploaded_.views(batch)) features.push_back(keys);
      }
    }
  }
  static uint64_t seed_of(int step, int64_t shard) {
    return static_cast<uint64_t>(step * 100 + shard);
  }
  const std::vector<FeatureKeys>& of_step(int step) const {
    return features_[static_cast<size_t>(step - 1)];
  }

 private:
  Uploaded uploaded_;
  std::vector<std::vector<FeatureKeys>> features_;
};

// One rank of a training.
inline Trained train_rank(Communicator& ranks, const Case& c) {
  ThreadPool threads(2);
  Context context{.device = c.device, .threads = &threads};
  const auto stream = use_own_stream(context);
  const int64_t n = ranks.size(), r = ranks.rank(), shards = c.shards;
  const int64_t first = r * shards / n, last = (r + 1) * shards / n;
  int64_t slots = 0;
  for (int64_t rank = 0; rank < n; ++rank)
    slots = std::max(slots, (rank + 1) * shards / n - rank * shards / n);
  const ShardPlan plan = sample_plan(ranks.size(), c.plans);
  std::vector<std::unique_ptr<Table>> tables;
  std::vector<ShardedTable> sharded;
  for (const TableSettings& settings : sample_tables()) {
    const TableShards& held = plan.of(settings.name);
    tables.push_back(make_table(context, settings_of_part(settings, held, ranks.rank())));
    sharded.push_back({settings, held, tables.back().get()});
  }
  const auto lookup =
      make_sharded_lookup(context, sharded, sample_features(),
                          {&ranks, &ranks, slots, c.precision, c.host_dedup}, kSettings);
  const RankBatches batches(context, first, last);
  const bool notes_absent = c.plans == Plans::kNothingPooled;
  Trained trained;
  std::vector<int64_t> absent(sample_features().size());
  for (int step = 1; step <= kSteps; ++step) {
    int64_t bags = 0;
    std::vector<float> gradients;
    for (int64_t s = first; s < last; ++s) {
      bags += kBags[s];
      const auto own =
          random_gradients(RankBatches::seed_of(step, s), kBags[s] * lookup->width(), c.signs);
      gradients.insert(gradients.end(), own.begin(), own.end());
    }
    Buffer<float> there(c.device, bags, lookup->width());
    std::vector<FeatureKeys> keys = batches.of_step(step);
    std::optional<AbsentFlags> flags;
    if (notes_absent) flags.emplace(context, keys);
    lookup->forward(context, keys, step == 3 ? Phase::kEval : Phase::kTrain, there.view());
    if (flags) flags->add_to(absent);
    if (c.ahead > 0 && step != 3 && step + c.ahead <= kSteps)
      lookup->prefetch(context, batches.of_step(step + c.ahead));
    const std::vector<float> out = there.to_host(context);
    const float* next = out.data();
    for (int64_t s = first; s < last; ++s) {
      const float* end = next + kBags[s] * lookup->width();
      trained.outputs[s].emplace_back(next, end);
      next = end;
    }
    if (step == 3) continue;
    const auto view = Buffer<float>::from(context, gradients, lookup->width());
    if (c.ahead > 0) lookup->prepare_backward(context, view.view());
    trained.norms.push_back(lookup->squared_gradient_norm(context, view.view()));
    lookup->backward(context, view.view(), 0.5f, 0.1f, step);
    lookup->check(context);
  }
  trained.counts = lookup->take_counts(context);
  for (size_t f = 0; f < absent.size() && notes_absent; ++f)
    EXPECT_EQ(absent[f], trained.counts[f].missing) << "feature " << f;
  for (const auto& table : tables) {
    const bool elsewhere = plan.of(table->settings().name).replicated && ranks.rank() != 0;
    if (!elsewhere) take_content(context, *table, trained);
  }
  return trained;
}

inline Trained train(const Case& c) {
  Trained all;
  std::mutex mutex;
  const auto train_on = [&](Communicator& ranks) {
    if (c.reach == Reach::kPeerMemory) return train_rank(ranks, c);
    std::vector<int> members(static_cast<size_t>(c.ranks));
    std::iota(members.begin(), members.end(), 0);
    RankGroup group(ranks, members);  // without peer memory
    return train_rank(group, c);
  };
  const auto run = [&](Communicator& ranks) {
    Trained one = train_on(ranks);
    const std::lock_guard lock(mutex);
    all.outputs.merge(one.outputs);
    for (auto& [name, rows] : one.rows) {
      if (name.starts_with("cut")) {  // into slices
        for (auto& [key, row] : rows) {
          std::vector<float>& whole = all.rows[name][key];
          whole.resize(row.size());
          for (size_t i = 0; i < row.size(); ++i) whole[i] += row[i];
        }
        continue;
      }
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
  };
  run_thread_ranks(c.ranks, run, kCollectiveSeconds, c.hosts);
  return all;
}

}  // namespace emblem
