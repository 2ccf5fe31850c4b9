// embedding/tables_test.h - tables and lookups for tests that run on every device.
#pragma once

#include <deque>
#include <vector>

#include "core/device/device_test.h"
#include "embedding/lookup.h"

namespace emblem {

// Keys, offsets and weights of a feature.
struct Bags {
  std::vector<int64_t> keys;
  std::vector<int32_t> offsets;
  std::vector<float> weights;
};

// All that a table holds.
struct Content {
  std::vector<int64_t> keys, scores;
  std::vector<float> weights, states;
  int64_t clock = 0;
  bool operator==(const Content&) const = default;
};
inline Content content_of(const Context& context, const Table& table) {
  Content content;
  table.export_rows(context, 1000, [&](const RowBatch& rows) {
    content.keys.insert(content.keys.end(), rows.keys.begin(), rows.keys.end());
    content.scores.insert(content.scores.end(), rows.scores.begin(), rows.scores.end());
    content.weights.insert(content.weights.end(), rows.weights.begin(), rows.weights.end());
    content.states.insert(content.states.end(), rows.states.begin(), rows.states.end());
  });
  content.clock = table.clock();
  return content;
}

// In suites that are instantiated as "Transferred", host threads move all rows of caches, in small
// pieces and through a staging buffer that is soon full.
inline LookupSettings settings_of_suite(Sums sums) {
  const std::string suite =
      testing::UnitTest::GetInstance()->current_test_info()->test_suite_name();
  LookupSettings settings{.sums = sums, .transfer = {}};
  if (suite.starts_with("Transferred/"))
    settings.transfer = {.min_rows = 1, .piece_bytes = 512, .max_buffer_bytes = 16 << 10};
  return settings;
}

// A lookup on the context's device, fed from host memory.
class TestLookup {
 public:
  TestLookup(const Context& context, std::vector<LookupFeature> features, Sums sums = Sums::kFast)
      : context_(context), lookup_(make_lookup(context, features, settings_of_suite(sums))) {}

  int64_t width() const { return lookup_->width(); }
  std::vector<float> forward(const std::vector<Bags>& bags, int64_t rows,
                             Phase phase = Phase::kTrain) {
    auto& kept = phase == Phase::kTrain ? train_bags_ : eval_bags_;  // until backward
    kept.clear();
    std::vector<FeatureKeys> features = upload(bags, kept);
    absent_.clear();
    for (FeatureKeys& keys : features) {
      absent_.push_back(Buffer<uint8_t>::from(context_, std::vector<uint8_t>(keys.keys.size(), 7)));
      keys.absent = absent_.back().view();
    }
    Buffer<float> out(context_.device, rows, width());
    lookup_->forward(context_, features, phase, out.view());
    lookup_->check(context_);
    return out.to_host(context_);
  }
  // Flags of the keys of the last forward, by feature: 1 without a row.
  std::vector<std::vector<uint8_t>> absent() const {
    std::vector<std::vector<uint8_t>> flags;
    for (const Buffer<uint8_t>& of : absent_) flags.push_back(of.to_host(context_));
    return flags;
  }
  // The keys of a coming forward. They stay where they are until the one after.
  void prefetch(const std::vector<Bags>& bags) {
    std::swap(coming_bags_, earlier_bags_);
    coming_bags_.clear();
    lookup_->prefetch(context_, upload(bags, coming_bags_));
  }
  std::vector<LookupCounts> take_counts() { return lookup_->take_counts(context_); }
  double squared_gradient_norm(const std::vector<float>& gradients) {
    auto there = Buffer<float>::from(context_, gradients, width());
    return lookup_->squared_gradient_norm(context_, there.view());
  }
  void backward(const std::vector<float>& gradients, float scale = 1.0f, int64_t step = 1,
                float rate = 0.1f) {
    auto there = Buffer<float>::from(context_, gradients, width());
    lookup_->backward(context_, there.view(), scale, rate, step);
    lookup_->check(context_);
  }

 private:
  struct There {
    Buffer<int64_t> keys;
    Buffer<int32_t> offsets;
    Buffer<float> weights;
  };
  std::vector<FeatureKeys> upload(const std::vector<Bags>& bags, std::deque<There>& kept) {
    std::vector<FeatureKeys> features;
    for (const Bags& of : bags) {
      There& there = kept.emplace_back();
      there.keys = Buffer<int64_t>::from(context_, of.keys);
      there.offsets = Buffer<int32_t>::from(context_, of.offsets);
      there.weights = Buffer<float>::from(context_, of.weights);
      features.push_back({there.keys.view(), there.offsets.view(), there.weights.view()});
    }
    return features;
  }

  Context context_;
  std::unique_ptr<Lookup> lookup_;
  std::deque<There> train_bags_, eval_bags_, coming_bags_, earlier_bags_;
  std::deque<Buffer<uint8_t>> absent_;
};

#define EMBLEM_TEST_TRANSFERS_TOO(Suite) \
  EMBLEM_TEST_ON_EVERY_DEVICE(Suite);    \
  INSTANTIATE_TEST_SUITE_P(Transferred, Suite, testing::Values(Device::kCuda), device_name)

class TablesTest : public DeviceTest {
 protected:
  Table& make(TableSettings settings) {
    return *tables_.emplace_back(make_table(context_, std::move(settings)));
  }
  // A static table whose row r is {r, 10 r, ...}.
  Table& ramp(const TableSettings& settings) {
    Table& table = make(settings);
    std::vector<int64_t> keys;
    std::vector<float> weights;
    for (int64_t key = 0; key < settings.capacity; ++key) {
      keys.push_back(key);
      for (int64_t d = 0; d < settings.dim; ++d)
        weights.push_back(static_cast<float>(key * (d == 0 ? 1 : 10)));
    }
    table.import_rows(context_, {keys, weights});
    return table;
  }
  TestLookup over(std::vector<LookupFeature> features, Sums sums = Sums::kFast) {
    return TestLookup(context_, std::move(features), sums);
  }
  static std::vector<float> row(const Table& table, int64_t key) {
    std::vector<float> weights(table.dim());
    EXPECT_TRUE(table.read(key, weights));
    return weights;
  }
  std::vector<int64_t> keys_of(const Table& table, std::optional<int64_t> since = {}) {
    std::vector<int64_t> keys;
    table.export_rows(
        context_, 3,
        [&](const RowBatch& batch) {
          keys.insert(keys.end(), batch.keys.begin(), batch.keys.end());
        },
        since);
    return keys;
  }

 private:
  std::deque<std::unique_ptr<Table>> tables_;
};

}  // namespace emblem
