// Tables that evict rows while ranks train them: their content does not depend on the ranks.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "comm/threads.h"
#include "core/buffer.h"
#include "core/random.h"
#include "embedding/bins.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

constexpr int64_t kShards = 8, kBags = 32, kKeysABag = 3;
constexpr int kSteps = 30;
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

// A batch has about 500 different keys of 3,000 in a table.
std::vector<Sample> samples() {
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
  lru.capacity = kSmall;
  add(lru, "small", over_all_ranks);
  for (Sample& sample : all) sample.settings.bins = bins_of_limits(sample.settings);
  return all;
}

// By table: weights, state and score of keys, keys that wait, clocks.
struct Content {
  std::map<std::string, std::map<int64_t, std::vector<float>>> rows;
  std::map<std::string, std::map<int64_t, int64_t>> scores, waiting;
  std::map<std::string, int64_t> clocks;
  std::map<int64_t, std::vector<float>> outputs;  // of the last step, by shard
};

// Appends row i of [rows, each].
void add_part(std::span<const float> values, size_t i, size_t each, std::vector<float>& row) {
  const auto part = values.subspan(i * each, each);
  row.insert(row.end(), part.begin(), part.end());
}

class Training {
 public:
  explicit Training(Communicator& ranks)
      : ranks_(ranks),
        first_(ranks.rank() * kShards / ranks.size()),
        last_((ranks.rank() + 1) * kShards / ranks.size()) {
    std::vector<ShardedTable> sharded;
    std::vector<ShardedFeature> features;
    for (const auto& [settings, make_shards] : samples()) {
      const TableShards shards =
          in_whole_bins(make_shards(settings.name, ranks.size()), settings.bins);
      tables_.push_back(make_table(Context{}, settings_of_part(settings, shards, ranks.rank())));
      sharded.push_back({settings, shards, tables_.back().get()});
      features.push_back({features.size(), Pooling::kSum});
    }
    const int64_t slots = (kShards + ranks.size() - 1) / ranks.size();
    lookup_ = make_sharded_lookup(Context{}, sharded, features, {&ranks, &ranks, slots});
  }

  void step(int number) {
    const auto width = static_cast<size_t>(lookup_->width());
    std::vector<std::vector<int64_t>> keys;
    std::vector<int32_t> offsets;
    std::vector<float> gradients;
    for (int64_t bag = 0; bag <= kBags; ++bag)
      offsets.push_back(static_cast<int32_t>(bag * kKeysABag));
    for (int64_t shard = first_; shard < last_; ++shard) {
      Random random{.seed = static_cast<uint64_t>(number), .stream = static_cast<uint64_t>(shard)};
      for (size_t t = 0; t < tables_.size(); ++t) {
        const uint64_t rare = samples_[t].settings.capacity == kSmall ? 300 : 3000;
        const int64_t moved = number / 5 * 100;  // so that hot keys are evicted later
        for (int64_t& key : keys.emplace_back(kBags * kKeysABag))
          key = moved + static_cast<int64_t>(random.below(random.below(2) ? 200 : rare));
      }
      for (size_t i = 0; i < static_cast<size_t>(kBags) * width; ++i)
        gradients.push_back(random.uniform() - 0.5f);
    }
    std::vector<FeatureKeys> features;
    for (const auto& each : keys)
      features.push_back(
          {.keys = {each.data(), kBags * kKeysABag, 1}, .offsets = {offsets.data(), kBags + 1, 1}});
    const int64_t bags = (last_ - first_) * kBags;
    for (const auto& table : tables_)
      if (table->settings().eviction == Eviction::kCustom) table->set_next_score(number % 7);
    Buffer<float> out(Device::kCpu, bags, lookup_->width());
    lookup_->forward(Context{}, features, Phase::kTrain, out.view());
    out_ = out.to_host(Context{});
    lookup_->backward(Context{}, View<const float>{gradients.data(), bags, lookup_->width()}, 1.0f,
                      0.1f, number);
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
      table.export_rows(Context{}, 100, [&](const RowBatch& batch) {
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
      const auto each = static_cast<ptrdiff_t>(kBags * lookup_->width());
      const auto begin = out_.begin() + (shard - first_) * each;
      content.outputs[shard].assign(begin, begin + each);
    }
    return content;
  }

 private:
  Communicator& ranks_;
  int64_t first_, last_;
  std::vector<Sample> samples_ = samples();
  std::vector<std::unique_ptr<Table>> tables_;
  std::unique_ptr<Lookup> lookup_;
  std::vector<float> out_;
};

Content train(int count) {
  Content all;
  std::mutex mutex;
  run_thread_ranks(count, [&](Communicator& ranks) {
    Training training(ranks);
    for (int step = 1; step <= kSteps; ++step) training.step(step);
    Content one = training.content();
    const std::lock_guard lock(mutex);
    for (auto& [name, rows] : one.rows) all.rows[name].merge(rows);
    for (auto& [name, scores] : one.scores) all.scores[name].merge(scores);
    for (auto& [name, waiting] : one.waiting) all.waiting[name].merge(waiting);
    for (auto& [name, clock] : one.clocks)
      EXPECT_EQ(all.clocks.try_emplace(name, clock).first->second, clock) << name;
    all.outputs.merge(one.outputs);
  });
  return all;
}

class EvictingRanks : public testing::TestWithParam<int> {};

TEST_P(EvictingRanks, GiveTheBytesOfOneRank) {
  static const Content one = train(1);
  const Content several = train(GetParam());
  for (const Sample& sample : samples()) {
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

INSTANTIATE_TEST_SUITE_P(, EvictingRanks, testing::Values(2, 3, 4, 5, 8));

}  // namespace
}  // namespace emblem
