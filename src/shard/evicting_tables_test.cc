// Tables that evict rows while ranks train them: their content does not depend on the ranks.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <mutex>

#include "comm/threads/threads.h"
#include "core/device/device_test.h"
#include "core/math/random.h"
#include "embedding/bins.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

constexpr int64_t kShards = 8, kEvictingBags = 32, kKeysABag = 3;
constexpr int kEvictingSteps = 30;
constexpr int64_t kSmall = 511;  // rows of one bin

struct Sample {
  TableSettings settings;
  TableShards (*shards)(const std::string& name, int ranks);
};

// The first rank has one bin of four, the second the others.
TableShards uneven_bins(const std::string& name, int ranks) {
  if (ranks == 1) return over_all_ranks(name, ranks);
  TableShards shards{.table = name};
  for (int r = 0; r < ranks; ++r)
    shards.held.push_back(r == 0 ? PartRange{0, 1024} : PartRange{r == 1 ? 1024 : kParts, kParts});
  return shards;
}
TableShards on_last_rank(const std::string& name, int ranks) {
  return on_rank(name, ranks - 1, ranks);
}
TableShards on_all(const std::string& name, int) { return on_every_rank(name); }
TableShards by_halves(const std::string& name, int ranks) {
  return ranks == 1 ? by_columns(name, {0}, 1) : by_columns(name, {ranks - 1, 0}, ranks);
}
TableShards pooled_at_owner(const std::string& name, int ranks) {
  TableShards shards = on_rank(name, ranks / 2, ranks);
  shards.pooled_at_owner = true;
  return shards;
}

// Rows of slices of columns are not compared.
enum class EvictingPlans { kAll, kWholeRows };
struct EvictingKind {
  Device device;
  EvictingPlans plans;
  auto operator<=>(const EvictingKind&) const = default;
};
// Ranks that share rows of other hosts.
struct Hosts {
  std::vector<std::string> of_ranks;
  HostDedup dedup = HostDedup::kNone;
};

TableShards whole_rows(const std::string& name, int ranks) {
  return name == "step" ? over_all_ranks(name, ranks) : on_rank(name, ranks / 2, ranks);
}

// A batch has about 500 different keys of 3,000 in a table.
std::vector<Sample> samples(EvictingPlans plans) {
  TableSettings lru{.name = "lru",
                    .dim = 4,
                    .kind = TableKind::kDynamic,
                    .capacity = 1900,
                    .eviction = Eviction::kLru,
                    .rule = Adam{}};
  TableSettings lfu = lru;
  lfu.name = "lfu";
  lfu.eviction = Eviction::kLfu;
  lfu.rule = RowWiseAdaGrad{};
  TableSettings shy = lfu;
  shy.name = "shy";
  shy.admission_threshold = 2;
  shy.admission_capacity = 600;
  TableSettings waiting = shy;  // grows, but counts a limited number of keys
  waiting.name = "waiting";
  waiting.eviction = Eviction::kNone;
  waiting.capacity = 0;
  waiting.admission_capacity = 1200;
  TableSettings step = lru;
  step.name = "step";
  step.eviction = Eviction::kStep;
  TableSettings custom = lru;
  custom.name = "custom";
  custom.eviction = Eviction::kCustom;
  std::vector<Sample> all = {{lru, over_all_ranks},  {lfu, uneven_bins}, {shy, over_all_ranks},
                             {waiting, uneven_bins}, {step, by_halves},  {custom, over_all_ranks}};
  const auto add = [&](TableSettings settings, const char* name, auto shards) {
    settings.name = name;
    all.push_back({settings, shards});
  };
  add(lfu, "copied", on_all);
  add(shy, "alone", on_last_rank);
  add(lru, "pooled", pooled_at_owner);
  TableSettings cached = lru;
  cached.placement = Placement::kCache;  // on a GPU
  cached.device_bytes = 1000 * 48;
  add(cached, "cached", over_all_ranks);
  cached = shy;
  cached.placement = Placement::kHost;
  add(cached, "host", over_all_ranks);
  lru.capacity = kSmall;
  add(lru, "small", over_all_ranks);
  for (Sample& sample : all) {
    sample.settings.bins = bins_of_limits(sample.settings);
    const bool is_cut = sample.shards == by_halves || sample.shards == pooled_at_owner;
    if (plans == EvictingPlans::kWholeRows && is_cut) sample.shards = whole_rows;
  }
  return all;
}

// Contents by table: weights, then state, and score of keys, keys that wait, clocks.
struct Content {
  std::map<std::string, std::map<int64_t, std::vector<float>>> rows;
  std::map<std::string, std::map<int64_t, int64_t>> scores, waiting;
  std::map<std::string, int64_t> clocks;
  std::map<int64_t, std::vector<float>> outputs;  // outputs of the last step, by shard
};

// Appends row i of [rows, each].
void add_part(std::span<const float> values, size_t i, size_t each, std::vector<float>& row) {
  const auto part = values.subspan(i * each, each);
  row.insert(row.end(), part.begin(), part.end());
}

// Keys of a step, on a device.
class Batch {
 public:
  explicit Batch(const Context& context) : context_(context) {
    std::vector<int32_t> offsets;
    for (int64_t bag = 0; bag <= kEvictingBags; ++bag)
      offsets.push_back(static_cast<int32_t>(bag * kKeysABag));
    offsets_ = Buffer<int32_t>::from(context_, offsets);
  }
  void add(const std::vector<int64_t>& keys) {
    keys_.push_back(Buffer<int64_t>::from(context_, keys));
    features_.push_back(
        {.keys = std::as_const(keys_.back()).view(), .offsets = std::as_const(offsets_).view()});
  }
  const std::vector<FeatureKeys>& features() const { return features_; }

 private:
  const Context& context_;
  Buffer<int32_t> offsets_;
  std::deque<Buffer<int64_t>> keys_;
  std::vector<FeatureKeys> features_;
};

class Training {
 public:
  Training(Communicator& ranks, EvictingKind kind, HostDedup dedup)
      : ranks_(ranks),
        first_(ranks.rank() * kShards / ranks.size()),
        last_((ranks.rank() + 1) * kShards / ranks.size()),
        samples_(samples(kind.plans)) {
    context_.device = kind.device;
    stream_ = use_own_stream(context_);
    std::vector<ShardedTable> sharded;
    std::vector<ShardedFeature> features;
    for (const auto& [settings, make_shards] : samples_) {
      const TableShards shards =
          in_whole_bins(make_shards(settings.name, ranks.size()), settings.bins);
      tables_.push_back(make_table(context_, settings_of_part(settings, shards, ranks.rank())));
      sharded.push_back({settings, shards, tables_.back().get()});
      features.push_back({features.size(), Pooling::kSum});
    }
    const int64_t slots = (kShards + ranks.size() - 1) / ranks.size();
    lookup_ = make_sharded_lookup(context_, sharded, features,
                                  {&ranks, &ranks, slots, DType::kF32, dedup},
                                  {.sums = Sums::kDeterministic, .transfer = {}});
  }

  void step(int number) {
    const auto width = static_cast<size_t>(lookup_->width());
    Batch batch(context_);
    std::vector<float> gradients;
    for (int64_t shard = first_; shard < last_; ++shard) {
      Random random{.seed = static_cast<uint64_t>(number), .stream = static_cast<uint64_t>(shard)};
      for (size_t t = 0; t < tables_.size(); ++t) {
        const uint64_t rare = samples_[t].settings.capacity == kSmall ? 300 : 3000;
        const int64_t moved = number / 5 * 100;  // so that hot keys are evicted later
        std::vector<int64_t> keys(kEvictingBags * kKeysABag);
        for (int64_t& key : keys)
          key = moved + static_cast<int64_t>(random.below(random.below(2) ? 200 : rare));
        batch.add(keys);
      }
      for (size_t i = 0; i < static_cast<size_t>(kEvictingBags) * width; ++i)
        gradients.push_back(random.uniform() - 0.5f);
    }
    for (const auto& table : tables_)
      if (table->settings().eviction == Eviction::kCustom) table->set_next_score(number % 7);
    Buffer<float> out(context_.device, (last_ - first_) * kEvictingBags, lookup_->width());
    lookup_->forward(context_, batch.features(), Phase::kTrain, out.view());
    out_ = out.to_host(context_);
    const auto there = Buffer<float>::from(context_, gradients, lookup_->width());
    lookup_->backward(context_, there.view(), 1.0f, 0.1f, number);
    lookup_->check(context_);
  }

  // Takes what is this rank's.
  void restore(const Content& content) {
    for (const auto& table : tables_) {
      const TableSettings& settings = table->settings();
      const auto is_held = [&](int64_t key) {
        return settings.held.contains(part_of_hashed_key(key));
      };
      if (settings.held.count() == 0) continue;
      std::vector<int64_t> keys, scores;
      std::vector<float> weights, states;
      for (const auto& [key, row] : content.rows.at(settings.name)) {
        if (!is_held(key)) continue;
        keys.push_back(key);
        scores.push_back(content.scores.at(settings.name).at(key));
        weights.insert(weights.end(), row.begin(), row.begin() + table->dim());
        states.insert(states.end(), row.begin() + table->dim(), row.end());
      }
      table->import_rows(context_, {keys, weights, states, scores});
      std::vector<KeyCount> waiting;
      if (const auto found = content.waiting.find(settings.name); found != content.waiting.end())
        for (const auto& [key, count] : found->second)
          if (is_held(key)) waiting.push_back({key, count});
      table->import_admission(waiting);
      table->set_clock(content.clocks.at(settings.name));
    }
  }

  // What this rank has.
  Content content() const {
    Content content;
    for (size_t t = 0; t < tables_.size(); ++t) {
      const Table& table = *tables_[t];
      const std::string& name = table.settings().name;
      if (table.settings().held.count() == 0) continue;
      content.clocks[name] = table.clock();
      if (samples_[t].shards == on_all && ranks_.rank() != 0) continue;
      table.export_rows(context_, 100, [&](const RowBatch& batch) {
        for (size_t i = 0; i < batch.keys.size(); ++i) {
          content.scores[name][batch.keys[i]] = batch.scores[i];
          std::vector<float>& row = content.rows[name][batch.keys[i]];
          if (table.settings().columns.of > 0) continue;  // which outputs show
          add_part(batch.weights, i, static_cast<size_t>(table.dim()), row);
          add_part(batch.states, i, static_cast<size_t>(table.state_floats()), row);
        }
      });
      for (const KeyCount& each : table.export_admission())
        content.waiting[name][each.key] = each.count;
    }
    for (int64_t shard = first_; shard < last_; ++shard) {
      const auto each = static_cast<ptrdiff_t>(kEvictingBags * lookup_->width());
      const auto begin = out_.begin() + (shard - first_) * each;
      content.outputs[shard].assign(begin, begin + each);
    }
    return content;
  }

 private:
  Communicator& ranks_;
  int64_t first_, last_;
  Context context_;
  std::shared_ptr<cuda::Stream> stream_;
  std::vector<Sample> samples_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::unique_ptr<Lookup> lookup_;
  std::vector<float> out_;
};

// Steps [first, last] of `count` ranks, from a content that was left by others.
Content train_evicting(EvictingKind kind, int count, int first = 1, int last = kEvictingSteps,
                       const Content* from = nullptr, const Hosts& hosts = {}) {
  Content all;
  std::mutex mutex;
  const auto run = [&](Communicator& ranks) {
    Training training(ranks, kind, hosts.dedup);
    if (from != nullptr) training.restore(*from);
    for (int step = first; step <= last; ++step) training.step(step);
    Content one = training.content();
    const std::lock_guard lock(mutex);
    for (auto& [name, rows] : one.rows) all.rows[name].merge(rows);
    for (auto& [name, scores] : one.scores) all.scores[name].merge(scores);
    for (auto& [name, waiting] : one.waiting) all.waiting[name].merge(waiting);
    for (auto& [name, clock] : one.clocks)
      EXPECT_EQ(all.clocks.try_emplace(name, clock).first->second, clock) << name;
    all.outputs.merge(one.outputs);
  };
  run_thread_ranks(count, run, kCollectiveSeconds, hosts.of_ranks);
  return all;
}

const Content& trained_by_one(EvictingKind kind) {
  static std::map<EvictingKind, Content> done;
  if (!done.contains(kind)) done[kind] = train_evicting(kind, 1);
  return done[kind];
}

void expect_equal(const Content& several, const Content& one, EvictingKind kind) {
  for (const Sample& sample : samples(kind.plans)) {
    const std::string& name = sample.settings.name;
    const int64_t rows = static_cast<int64_t>(one.rows.at(name).size());
    if (sample.settings.capacity > 0) {  // it is full, and has evicted
      EXPECT_LE(rows, sample.settings.capacity) << name;
      EXPECT_GT(rows, sample.settings.capacity * 3 / 4) << name;
    }
    EXPECT_EQ(several.rows.at(name), one.rows.at(name)) << name;
    EXPECT_EQ(several.scores.at(name), one.scores.at(name)) << name;
    EXPECT_EQ(several.clocks.at(name), one.clocks.at(name)) << name;
  }
  EXPECT_EQ(several.waiting, one.waiting);
  EXPECT_EQ(several.outputs, one.outputs);
}

class EvictingRanks : public testing::TestWithParam<std::tuple<int, Device>> {
 protected:
  void SetUp() override {
    if (!device_is_usable(std::get<1>(GetParam()))) GTEST_SKIP() << "no CUDA device here";
  }
};

TEST_P(EvictingRanks, GiveTheBytesOfOneRank) {
  const auto [ranks, device] = GetParam();
  const EvictingKind kind{device, EvictingPlans::kAll};
  expect_equal(train_evicting(kind, ranks), trained_by_one(kind), kind);
}

INSTANTIATE_TEST_SUITE_P(, EvictingRanks,
                         testing::Combine(testing::Values(2, 3, 4, 5, 8),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_", std::get<1>(info.param));
                         });

TEST(EvictingHosts, GiveTheBytesOfOneRankWhereTheyShareRows) {
  const EvictingKind kind{Device::kCpu, EvictingPlans::kAll};
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "a", "b", "b"}, {"a", "b", "a"}}) {
    const int ranks = static_cast<int>(hosts.size());
    expect_equal(train_evicting(kind, ranks, 1, kEvictingSteps, nullptr, {hosts, HostDedup::kRows}),
                 trained_by_one(kind), kind);
  }
}

class EvictingTables : public DeviceTest {};

// Both have the same bins, but not the same ones on a rank.
TEST_P(EvictingTables, FullOnesAreContinuedByAnotherNumberOfRanks) {
  const EvictingKind kind{GetParam(), EvictingPlans::kWholeRows};
  for (const auto& [writers, readers] : {std::pair{2, 3}, {3, 1}, {1, 4}}) {
    SCOPED_TRACE(cat(writers, " ranks, then ", readers));
    const Content half = train_evicting(kind, writers, 1, kEvictingSteps / 2);
    expect_equal(train_evicting(kind, readers, kEvictingSteps / 2 + 1, kEvictingSteps, &half),
                 trained_by_one(kind), kind);
  }
}

// Each has as many rows as its capacity allows, but more of some bins than their shares.
TEST_P(EvictingTables, FullOnesWithoutBinsAreContinuedByAnyNumberOfRanks) {
  const EvictingKind kind{GetParam(), EvictingPlans::kWholeRows};
  Content full;
  for (const Sample& sample : samples(kind.plans)) {
    const TableSettings& settings = sample.settings;
    const auto state = static_cast<size_t>(state_floats(settings.rule, settings.dim));
    for (int64_t key = 0; key < std::max<int64_t>(settings.capacity, 1); ++key) {
      full.rows[settings.name][key].assign(static_cast<size_t>(settings.dim) + state, 0.5f);
      full.scores[settings.name][key] = key % 10;
    }
    full.clocks[settings.name] = 10;
  }
  const Content one = train_evicting(kind, 1, 1, 2, &full),
                three = train_evicting(kind, 3, 1, 2, &full);
  EXPECT_EQ(three.rows, one.rows);
  EXPECT_EQ(three.scores, one.scores);
  EXPECT_EQ(three.outputs, one.outputs);
}

// Sums of gradients are rounded otherwise, but the same keys are counted, admitted and evicted.
TEST_P(EvictingTables, AreCountedAsByOneRankWhereHostsSumGradients) {
  const EvictingKind kind{GetParam(), EvictingPlans::kAll};
  const Content one = trained_by_one(kind);
  const Content several = train_evicting(kind, 6, 1, kEvictingSteps, nullptr,
                                         {{"a", "a", "b", "b", "c", "c"}, HostDedup::kRowsAndSums});
  EXPECT_EQ(several.scores, one.scores);
  EXPECT_EQ(several.waiting, one.waiting);
  EXPECT_EQ(several.clocks, one.clocks);
}

EMBLEM_TEST_ON_EVERY_DEVICE(EvictingTables);

}  // namespace
}  // namespace emblem
