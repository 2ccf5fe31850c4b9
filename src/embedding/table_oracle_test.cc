// The dynamic table against std::unordered_map over ten million random operations.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "embedding/tables_test.h"

namespace emblem {
namespace {

// A table written for clarity and not for speed.
class Oracle {
 public:
  explicit Oracle(TableSettings settings) : settings_(std::move(settings)) {}

  struct Row {
    std::vector<float> weights, state;
    int64_t score = 0;
  };
  std::unordered_map<int64_t, Row> rows;
  std::map<int64_t, int64_t> waiting;  // admission counts
  int64_t clock = 0, next_score = 0;

  // A training lookup of these keys.
  void touch(const std::vector<int64_t>& keys) {
    std::map<int64_t, int64_t> unknown;
    for (const int64_t key : keys) {
      if (!rows.contains(key)) ++unknown[key];
    }
    std::map<int64_t, int64_t> admitted;  // with the occurrences before this batch
    for (const auto& [key, count] : unknown) {
      const int64_t total = (waiting[key] += count);
      if (total < settings_.admission_threshold) continue;
      waiting.erase(key);
      admitted[key] = total - count;
    }
    for (int32_t bin = 0; bin < std::max(settings_.bins, 1); ++bin) {
      prune_waiting(bin);
      const auto wanted = std::count_if(admitted.begin(), admitted.end(),
                                        [&](const auto& each) { return is_in(bin, each.first); });
      make_room(bin, wanted, {keys.begin(), keys.end()});
    }
    for (const auto& [key, before] : admitted) {
      rows[key] = first_row(key);
      if (settings_.eviction == Eviction::kLfu) rows[key].score = before;
    }
    if (settings_.eviction == Eviction::kLru || settings_.eviction == Eviction::kStep) ++clock;
    for (const int64_t key : keys) {
      if (!rows.contains(key)) continue;
      int64_t& score = rows[key].score;
      if (settings_.eviction == Eviction::kLfu)
        ++score;
      else if (settings_.eviction == Eviction::kCustom)
        score = next_score;
      else if (settings_.eviction != Eviction::kNone)
        score = clock;
    }
  }

  float read(int64_t key, int64_t d, Phase phase) const {
    if (const auto found = rows.find(key); found != rows.end()) return found->second.weights[d];
    const Initializer& absent = phase == Phase::kTrain ? settings_.initializer : settings_.missing;
    return absent(settings_.seed, static_cast<uint64_t>(key), d);
  }

  void update(const std::vector<int64_t>& keys, const std::vector<float>& gradients, float rate,
              int64_t step) {
    const int64_t dim = settings_.dim;
    std::unordered_map<int64_t, std::vector<float>> sums;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!rows.contains(keys[i])) continue;
      auto& sum = sums.try_emplace(keys[i], dim, 0.0f).first->second;
      for (int64_t d = 0; d < dim; ++d) sum[d] += gradients[i * dim + d];
    }
    const Rule rule = at_step(settings_.rule, rate, step);
    for (const auto& [key, sum] : sums) {
      Row& row = rows[key];
      visit_table_rule(rule, [&, &sum = sum](const auto& r) { apply(r, sum, row); });
      for (float& weight : row.weights) weight = stored(weight);
    }
  }

 private:
  template <class R>
  void apply(const R& rule, const std::vector<float>& sum, Row& row) {
    const int64_t dim = settings_.dim;
    if constexpr (R::kRowWise) {
      float squares = 0.0f;
      for (const float g : sum) squares += g * g;
      const float factor =
          rule.factor(squares / static_cast<float>(dim), row.state.data() + R::kStates * dim);
      for (int64_t d = 0; d < dim; ++d)
        rule(factor, sum[d], row.weights[d], row.state.data() + d, dim);
    } else {
      for (int64_t d = 0; d < dim; ++d) rule(sum[d], row.weights[d], row.state.data() + d, dim);
    }
  }

  float stored(float value) const {
    if (settings_.dtype == DType::kF16) return F16::from(value).to_float();
    if (settings_.dtype == DType::kBf16) return Bf16::from(value).to_float();
    return value;
  }

  Row first_row(int64_t key) const {
    Row row;
    for (int64_t d = 0; d < settings_.dim; ++d) {
      row.weights.push_back(
          stored(settings_.initializer(settings_.seed, static_cast<uint64_t>(key), d)));
    }
    row.state.assign(state_floats(settings_.rule, settings_.dim), settings_.initial_accumulator);
    return row;
  }

  bool is_in(int32_t bin, int64_t key) const {
    return settings_.bins == 0 || part_of_hashed_key(key) / (kParts / settings_.bins) == bin;
  }
  int64_t share_of(int64_t limit) const { return limit / std::max(settings_.bins, 1); }

  void prune_waiting(int32_t bin) {
    const int64_t most = share_of(settings_.admission_capacity);
    std::vector<std::pair<int64_t, int64_t>> order;
    for (const auto& [key, times] : waiting)
      if (is_in(bin, key)) order.push_back({times, key});
    const auto count = static_cast<int64_t>(order.size());
    if (most == 0 || count <= most) return;
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count - most + most / 20; ++i) waiting.erase(order[i].second);
  }

  void make_room(int32_t bin, int64_t wanted, const std::unordered_set<int64_t>& batch) {
    const int64_t capacity = share_of(settings_.capacity);
    int64_t excess = wanted - capacity;
    std::vector<std::pair<int64_t, int64_t>> order;
    for (const auto& [key, row] : rows) {
      if (!is_in(bin, key)) continue;
      ++excess;
      if (!batch.contains(key)) order.push_back({row.score, key});
    }
    if (capacity == 0 || excess <= 0) return;
    std::sort(order.begin(), order.end());
    const auto leaving = std::min<size_t>(order.size(), std::max(excess, capacity / 20));
    for (size_t i = 0; i < leaving; ++i) rows.erase(order[i].second);
  }

  TableSettings settings_;
};

struct TableOracleCase {
  const char* name;
  Eviction eviction;
  int64_t capacity;
  int64_t admission;
  Rule rule;
  DType dtype;
  uint64_t universe;
  float tolerance;
  Placement placement = Placement::kDevice;  // matters only on a GPU
  int32_t bins = 0;
};

class Trial {
 public:
  Trial(const Context& context, const TableOracleCase& with)
      : with_(with), context_(context), random_{.seed = 11, .stream = with.universe} {
    settings_ = {.name = with.name,
                 .dim = 3,
                 .dtype = with.dtype,
                 .kind = TableKind::kDynamic,
                 .capacity = with.capacity,
                 .eviction = with.eviction,
                 .admission_threshold = with.admission,
                 .admission_capacity = with.admission > 1 ? 500 : 0,
                 .initializer = {Initializer::Kind::kUniform, -1.0f, 1.0f},
                 .missing = {Initializer::Kind::kNormal, 0.5f, 0.1f},
                 .rule = with.rule,
                 .seed = 77,
                 .placement = with.placement,
                 .device_bytes = 400 * 64,
                 .held = {},
                 .bins = with.bins};
    if (std::holds_alternative<AdaGrad>(with.rule)) settings_.initial_accumulator = 0.1f;
    oracle_ = std::make_unique<Oracle>(settings_);
    make_tables();
  }

  void run(int64_t operations) {
    while (done_ < operations && !testing::Test::HasFatalFailure()) {
      const uint64_t dice = random_.below(40);
      if (dice < 26)
        train();
      else if (dice < 34)
        evaluate();
      else if (dice < 38)
        erase();
      else if (dice == 38 && with_.eviction == Eviction::kCustom)
        rescore();
      else if (dice == 39 && random_.below(20) == 0)
        save_and_load();
    }
    compare_all();
  }

 private:
  void make_tables() {
    table_ = make_table(context_, settings_);
    lookup_ = std::make_unique<TestLookup>(
        context_, std::vector<LookupFeature>{{table_.get()}, {table_.get()}});
  }

  // Half of all keys come from a small part of the universe; a few are those that others reserve.
  int64_t draw() {
    static constexpr int64_t kExotic[] = {0, -1, INT64_MIN, INT64_MAX, 1, INT64_MIN + 1};
    const uint64_t r =
        random_.below(2) ? random_.below(with_.universe) : random_.below(with_.universe / 32 + 1);
    if (r < std::size(kExotic)) return kExotic[r];
    return r % 2 ? static_cast<int64_t>(r) : static_cast<int64_t>(mix64(r));
  }
  std::vector<int64_t> draw_keys(int64_t count) {
    std::vector<int64_t> keys(count);
    for (int64_t& key : keys) key = draw();
    done_ += count;
    return keys;
  }

  // Two features over the table: the first half of `keys` and the second.
  std::vector<float> forward(const std::vector<int64_t>& keys, Phase phase) {
    const auto bags = static_cast<int64_t>(keys.size()) / 2;
    return lookup_->forward(
        {{{keys.begin(), keys.begin() + bags}}, {{keys.begin() + bags, keys.end()}}}, bags, phase);
  }
  // Where key i's values are in the output.
  static size_t place(size_t i, size_t count) {
    return i < count / 2 ? i * 6 : (i - count / 2) * 6 + 3;
  }

  void compare(const std::vector<int64_t>& keys, const std::vector<float>& out, Phase phase) {
    for (size_t i = 0; i < keys.size(); ++i) {
      for (int64_t d = 0; d < 3; ++d) {
        ASSERT_NEAR(out[place(i, keys.size()) + d], oracle_->read(keys[i], d, phase),
                    with_.tolerance)
            << "key " << keys[i] << " after " << done_ << " operations";
      }
    }
  }

  void train() {
    const auto keys = draw_keys(2 * (1 + random_.below(150)));
    if (with_.eviction == Eviction::kCustom) {
      oracle_->next_score = static_cast<int64_t>(random_.below(50)) - 25;
      table_->set_next_score(oracle_->next_score);
    }
    oracle_->touch(keys);
    const auto out = forward(keys, Phase::kTrain);
    ASSERT_EQ(table_->size(), static_cast<int64_t>(oracle_->rows.size()));
    compare(keys, out, Phase::kTrain);
    std::vector<float> gradients(out.size()), by_key(out.size());
    for (float& g : gradients) g = random_.uniform() - 0.5f;
    for (size_t i = 0; i < keys.size(); ++i) {
      std::copy_n(&gradients[place(i, keys.size())], 3, &by_key[i * 3]);
    }
    ++step_;
    oracle_->update(keys, by_key, 0.05f, step_);
    lookup_->backward(gradients, 1.0f, step_, 0.05f);
  }

  void evaluate() {
    const auto keys = draw_keys(200);
    compare(keys, forward(keys, Phase::kEval), Phase::kEval);
    ASSERT_EQ(table_->size(), static_cast<int64_t>(oracle_->rows.size()));
  }

  void erase() {
    const auto keys = draw_keys(60);
    int64_t erased = 0;
    for (const int64_t key : keys) erased += static_cast<int64_t>(oracle_->rows.erase(key));
    ASSERT_EQ(table_->erase(keys), erased);
  }

  void rescore() {
    const auto keys = draw_keys(50);
    table_->set_score(keys, 1000);
    for (const int64_t key : keys) {
      if (oracle_->rows.contains(key)) oracle_->rows[key].score = 1000;
    }
  }

  void save_and_load() {
    const auto old_table = std::move(table_);
    const auto old_lookup = std::move(lookup_);
    make_tables();
    old_table->export_rows(context_, 1 + static_cast<int64_t>(random_.below(700)),
                           [&](const RowBatch& batch) { table_->import_rows(context_, batch); });
    table_->import_admission(old_table->export_admission());
    table_->set_clock(old_table->clock());
    ASSERT_EQ(table_->clock(), oracle_->clock);
    compare_all();
  }

  void compare_all() {
    std::vector<int64_t> keys;
    table_->export_rows(context_, 1000, [&](const RowBatch& batch) {
      for (size_t i = 0; i < batch.keys.size(); ++i) {
        keys.push_back(batch.keys[i]);
        const auto found = oracle_->rows.find(batch.keys[i]);
        ASSERT_NE(found, oracle_->rows.end()) << batch.keys[i];
        ASSERT_EQ(batch.scores[i], found->second.score) << batch.keys[i];
        for (int d = 0; d < 3; ++d)
          ASSERT_NEAR(batch.weights[i * 3 + d], found->second.weights[d], with_.tolerance);
        const size_t state = found->second.state.size();
        for (size_t s = 0; s < state; ++s) {
          ASSERT_NEAR(batch.states[i * state + s], found->second.state[s],
                      1e-3 * (1 + std::abs(found->second.state[s])));
        }
      }
    });
    ASSERT_TRUE(std::is_sorted(keys.begin(), keys.end()));
    ASSERT_EQ(keys.size(), oracle_->rows.size());
    std::vector<KeyCount> waiting;
    for (const auto& [key, count] : oracle_->waiting) waiting.push_back({key, count});
    ASSERT_EQ(table_->export_admission(), waiting);
  }

  TableOracleCase with_;
  Context context_;
  Random random_;
  TableSettings settings_;
  std::unique_ptr<Oracle> oracle_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<TestLookup> lookup_;
  int64_t done_ = 0, step_ = 0;
};

class TableOracle : public testing::TestWithParam<std::tuple<Device, TableOracleCase>> {
 protected:
  void SetUp() override {
    context_.device = std::get<Device>(GetParam());
    if (!device_is_usable(context_.device)) GTEST_SKIP() << "no CUDA device here";
  }
  Context context_;
};

TEST_P(TableOracle, AgreesOverAMillionOperations) {
  // Half as many on a GPU, where every batch of 200 keys goes there and back.
  const bool cpu = context_.device == Device::kCpu;
  Trial(context_, std::get<TableOracleCase>(GetParam())).run(cpu ? 1000000 : 500000);
}

std::string name_of_trial(const testing::TestParamInfo<std::tuple<Device, TableOracleCase>>& info) {
  return cat(std::get<TableOracleCase>(info.param).name, "_", std::get<Device>(info.param));
}

constexpr DType kF32 = DType::kF32;
const auto kCachedCases =
    testing::Values(TableOracleCase{"cached_lru", Eviction::kLru, 900, 0, Adam{}, kF32, 4000, 1e-3f,
                                    Placement::kCache},
                    TableOracleCase{"cached_lfu_f16", Eviction::kLfu, 1000, 2, Sgd{}, DType::kF16,
                                    3000, 0.05f, Placement::kCache},
                    TableOracleCase{"host", Eviction::kStep, 800, 0, AdaGrad{}, kF32, 3000, 1e-3f,
                                    Placement::kHost});
INSTANTIATE_TEST_SUITE_P(Cached, TableOracle,
                         testing::Combine(testing::Values(Device::kCpu, Device::kCuda),
                                          kCachedCases),
                         name_of_trial);
INSTANTIATE_TEST_SUITE_P(Transferred, TableOracle,
                         testing::Combine(testing::Values(Device::kCuda), kCachedCases),
                         name_of_trial);
constexpr Placement kPlain = Placement::kDevice;
INSTANTIATE_TEST_SUITE_P(
    Binned, TableOracle,
    testing::Combine(testing::Values(Device::kCpu, Device::kCuda),
                     testing::Values(TableOracleCase{"lru", Eviction::kLru, 1203, 0, Adam{}, kF32,
                                                     5000, 1e-3f, kPlain, 4},
                                     TableOracleCase{"lfu", Eviction::kLfu, 1001, 3, Sgd{}, kF32,
                                                     4000, 1e-4f, kPlain, 8},
                                     TableOracleCase{"custom", Eviction::kCustom, 700, 0,
                                                     Momentum{}, kF32, 3000, 1e-3f, kPlain, 2},
                                     TableOracleCase{"step", Eviction::kStep, 400, 0, AdaGrad{},
                                                     kF32, 2000, 1e-3f, kPlain, 1},
                                     TableOracleCase{"cached", Eviction::kLru, 2600, 0, Adam{},
                                                     kF32, 9000, 1e-3f, Placement::kCache, 8},
                                     TableOracleCase{"host", Eviction::kLfu, 4000, 2, Sgd{}, kF32,
                                                     9000, 1e-4f, Placement::kHost, 16},
                                     TableOracleCase{"waiting", Eviction::kNone, 0, 4, Sgd{}, kF32,
                                                     9000, 1e-4f, kPlain, 16})),
    name_of_trial);
INSTANTIATE_TEST_SUITE_P(
    , TableOracle,
    testing::Combine(
        testing::Values(Device::kCpu, Device::kCuda),
        testing::Values(
            TableOracleCase{"none_grows", Eviction::kNone, 0, 0, Sgd{}, kF32, 60000, 1e-4f},
            TableOracleCase{"none_admission", Eviction::kNone, 0, 3, AdaGrad{}, kF32, 3000, 1e-4f},
            TableOracleCase{"none_f16", Eviction::kNone, 0, 0, Sgd{}, DType::kF16, 5000, 0.05f},
            TableOracleCase{"lru", Eviction::kLru, 900, 0, Adam{}, kF32, 4000, 1e-3f},
            TableOracleCase{"lru_bf16", Eviction::kLru, 1500, 2, Momentum{}, DType::kBf16, 4000,
                            0.4f},
            TableOracleCase{"lfu", Eviction::kLfu, 1000, 0, RowWiseAdaGrad{}, kF32, 3000, 1e-3f},
            TableOracleCase{"lfu_admission", Eviction::kLfu, 700, 4, Sgd{}, kF32, 4000, 1e-4f},
            TableOracleCase{"step", Eviction::kStep, 800, 0, AdaGrad{}, kF32, 3000, 1e-3f},
            TableOracleCase{"step_small", Eviction::kStep, 301, 0, Ftrl{.l1 = 0.01f}, kF32, 2000,
                            1e-3f},
            TableOracleCase{"custom", Eviction::kCustom, 600, 0, Momentum{}, kF32, 3000, 1e-3f})),
    name_of_trial);

}  // namespace
}  // namespace emblem
