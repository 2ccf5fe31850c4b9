#include "ps/tables/served_lookup.h"

#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "ps/tables/count_allocations_test.h"
#include "ps/tables/served_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Batch {
  std::vector<std::vector<int64_t>> keys;
  std::vector<std::vector<int32_t>> offsets;
  std::vector<std::vector<float>> weights;

  std::vector<FeatureKeys> views() const {
    std::vector<FeatureKeys> views;
    for (size_t f = 0; f < keys.size(); ++f) {
      views.push_back({{keys[f].data(), static_cast<int64_t>(keys[f].size())},
                       {offsets[f].data(), static_cast<int64_t>(offsets[f].size())},
                       {weights[f].data(), static_cast<int64_t>(weights[f].size())}});
    }
    return views;
  }
};

// Features: one key; bags; weighted bags; weighted mean; mean of bags; one weighted key.
Batch random_batch(uint64_t seed, int64_t bags, int64_t keys_known) {
  Random random{.seed = seed};
  Batch batch{std::vector<std::vector<int64_t>>(6), std::vector<std::vector<int32_t>>(6),
              std::vector<std::vector<float>>(6)};
  for (size_t f = 0; f < 6; ++f) {
    const bool in_bags = f >= 1 && f <= 4, weighted = f == 2 || f == 3 || f == 5;
    if (in_bags) batch.offsets[f].push_back(0);
    for (int64_t b = 0; b < bags; ++b) {
      const int64_t count = in_bags ? static_cast<int64_t>(random.below(5)) : 1;
      for (int64_t i = 0; i < count; ++i) {
        // Some keys have no row.
        batch.keys[f].push_back(static_cast<int64_t>(random.below(keys_known * 5 / 4)));
        if (weighted) batch.weights[f].push_back(random.normal());
      }
      if (in_bags) batch.offsets[f].push_back(static_cast<int32_t>(batch.keys[f].size()));
    }
  }
  return batch;
}

class ServedLookupTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr int64_t kRows = 3000;

  void SetUp() override {
    const int64_t dims[] = {16, 7, 32};
    for (int t = 0; t < 3; ++t) {
      // What trained tables look like: any initializer for unknown keys, half precision too.
      TableSettings settings{.name = cat("t", t),
                             .dim = dims[t],
                             .dtype = t == 2 ? DType::kBf16 : DType::kF32,
                             .kind = TableKind::kDynamic,
                             .missing = {Initializer::Kind::kUniform, -0.5f, 0.5f},
                             .seed = 5};
      if (t == 1) settings.missing = {Initializer::Kind::kConstant, 0.25f, 0.0f};
      trained_.push_back(make_table({}, settings));
      std::vector<int64_t> keys;
      std::vector<float> rows;
      Random random{.seed = 3, .stream = static_cast<uint64_t>(t)};
      for (int64_t key = 0; key < kRows; ++key) {
        keys.push_back(key);
        for (int64_t d = 0; d < dims[t]; ++d) rows.push_back(random.normal());
      }
      trained_.back()->import_rows({}, {keys, rows});
      serve(*trained_.back());
    }
    const int of_feature[] = {0, 1, 2, 0, 1, 2};
    const Pooling pooling[] = {Pooling::kSum,  Pooling::kSum,  Pooling::kSum,
                               Pooling::kMean, Pooling::kMean, Pooling::kSum};
    for (int f = 0; f < 6; ++f) {
      host_features_.push_back({trained_[of_feature[f]].get(), pooling[f]});
      served_features_.push_back({served_[of_feature[f]].get(), pooling[f]});
    }
  }

  // All rows in L2; or a third in L2 and all in L3; or all in a remote L2.
  void serve(const Table& table) {
    const TableSettings& settings = table.settings();
    std::shared_ptr<KvTable> l2, l3;
    if (GetParam() == "Remote") {
      l2 = std::make_shared<RemoteTable>("l2", table.dim());
    } else {
      l2 = std::make_shared<FragileTable>("l2", table.dim());
    }
    if (GetParam() == "TwoTiers") l3 = std::make_shared<RemoteTable>("l3", table.dim());
    table.export_rows({}, 1000, [&](const RowBatch& batch) {
      const size_t part = l3 != nullptr ? batch.keys.size() / 3 : batch.keys.size();
      l2->insert(batch.keys.subspan(0, part), batch.weights.subspan(0, part * table.dim()));
      if (l3 != nullptr) l3->insert(batch.keys, batch.weights);
    });
    served_.push_back(std::make_shared<ServedTable>(ServedTableSettings{.name = settings.name,
                                                                        .dim = settings.dim,
                                                                        .missing = settings.missing,
                                                                        .seed = settings.seed},
                                                    l2, l3));
  }

  std::vector<std::unique_ptr<Table>> trained_;
  std::vector<std::shared_ptr<ServedTable>> served_;
  std::vector<LookupFeature> host_features_;
  std::vector<ServedFeature> served_features_;
};
INSTANTIATE_TEST_SUITE_P(Tiers, ServedLookupTest, testing::Values("Memory", "TwoTiers", "Remote"),
                         [](const auto& info) { return info.param; });

TEST_P(ServedLookupTest, GivesTheBitsOfTheLookupInTraining) {
  ThreadPool threads(2);
  const auto host = make_lookup({}, host_features_);
  const auto served = make_served_lookup(served_features_);
  ASSERT_EQ(served->width(), host->width());
  for (const int64_t bags : {1, 2, 33, 700, 1, 0, 2000}) {
    const Batch batch = random_batch(static_cast<uint64_t>(bags) + 7, bags, kRows);
    const Context context{.threads = bags > 500 ? &threads : nullptr};
    std::vector<float> expected(bags * host->width(), -1.0f), got(bags * host->width(), -2.0f);
    host->forward(context, batch.views(), Phase::kEval, {expected.data(), bags, host->width()});
    served->forward(context, batch.views(), Phase::kEval, {got.data(), bags, host->width()});
    EXPECT_TRUE(got.empty() ||
                std::memcmp(expected.data(), got.data(), got.size() * sizeof(float)) == 0)
        << bags;
    EXPECT_EQ(served->take_counts(context), host->take_counts(context)) << bags;
  }
  EXPECT_GT(served_[0]->missing_everywhere(), 0u);
  EXPECT_EQ(served_[0]->l3_counts().hits > 0, GetParam() == "TwoTiers");
}

// The same values whether a row is in memory or comes from a tier below, which has it in fp32.
TEST(NarrowRows, AreReadAsTheyWereRounded) {
  constexpr int64_t kDim = 24, kNarrowRows = 400;
  for (const DType type : {DType::kBf16, DType::kF16, DType::kInt8}) {
    SCOPED_TRACE(name_of(type));
    MemoryStore memory({.row_type = type}), third({.row_type = type});
    std::vector<int64_t> keys(kNarrowRows);
    std::vector<float> rows(kNarrowRows * kDim), rounded(rows.size());
    std::vector<uint8_t> found(kNarrowRows);
    Random random{.seed = 6};
    for (int64_t key = 0; key < kNarrowRows; ++key) keys[static_cast<size_t>(key)] = key;
    for (float& value : rows) value = random.normal();
    const auto all = memory.open("all", kDim), some = third.open("some", kDim);
    const auto below = std::make_shared<RemoteTable>("below", kDim);
    all->insert(keys, rows);
    some->insert(std::span(keys).first(100), std::span(rows).first(100 * kDim));
    below->insert(keys, rows);
    all->fetch(keys, rounded, found);
    ServedTable in_memory({.name = "in_memory", .dim = kDim}, all, nullptr);
    ServedTable in_tiers({.name = "in_tiers", .dim = kDim}, some, below);
    const std::vector<ServedFeature> features = {{&in_memory, Pooling::kSum},
                                                 {&in_tiers, Pooling::kSum}};
    std::vector<float> out(kNarrowRows * 2 * kDim);
    const FeatureKeys of_feature{.keys = {keys.data(), kNarrowRows, 1}};
    const std::vector<FeatureKeys> of_features = {of_feature, of_feature};
    make_served_lookup(features)->forward({}, of_features, Phase::kEval,
                                          {out.data(), kNarrowRows, 2 * kDim});
    for (int64_t row = 0; row < kNarrowRows; ++row) {
      for (int64_t d = 0; d < 2 * kDim; ++d)
        ASSERT_EQ(out[row * 2 * kDim + d], rounded[row * kDim + d % kDim]) << row;
    }
    // Bags of two keys, weighted.
    std::vector<int32_t> offsets(kNarrowRows / 2 + 1);
    for (size_t bag = 0; bag < offsets.size(); ++bag) offsets[bag] = static_cast<int32_t>(2 * bag);
    const std::vector<float> weights(kNarrowRows, 0.5f);
    const FeatureKeys bags{.keys = {keys.data(), kNarrowRows, 1},
                           .offsets = {offsets.data(), kNarrowRows / 2 + 1, 1},
                           .weights = {weights.data(), kNarrowRows, 1}};
    const std::vector<FeatureKeys> of_bags = {bags, bags};
    make_served_lookup(features)->forward({}, of_bags, Phase::kEval,
                                          {out.data(), kNarrowRows / 2, 2 * kDim});
    for (int64_t d = 0; d < 2 * kDim; ++d)
      ASSERT_NEAR(out[d], 0.5f * (rounded[d % kDim] + rounded[kDim + d % kDim]), 1e-6);
  }
}

TEST_P(ServedLookupTest, ManyLookupsReadTheSameTablesAtOnceWhileTheyAreUpdated) {
  std::atomic<int64_t> wrong{0};
  std::atomic<bool> stop{false};
  const Batch batch = random_batch(11, 40, kRows);
  const auto views = batch.views();
  std::vector<float> expected(40 * make_lookup({}, host_features_)->width());
  const auto width = static_cast<int64_t>(expected.size()) / 40;
  make_lookup({}, host_features_)->forward({}, views, Phase::kEval, {expected.data(), 40, width});
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      const auto lookup = make_served_lookup(served_features_);
      std::vector<float> out(expected.size());
      for (int i = 0; i < 60; ++i) {
        lookup->forward({}, views, Phase::kEval, {out.data(), 40, width});
        wrong += std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) != 0;
      }
    });
  }
  std::thread writer([&] {  // the same values again, and keys that no lookup asks for
    for (int64_t round = 0; !stop; ++round) {
      for (size_t t = 0; t < served_.size(); ++t) {
        trained_[t]->export_rows({}, 500, [&](const RowBatch& rows) {
          if (!stop) served_[t]->apply(rows.keys, rows.weights);
        });
        const std::vector<int64_t> other = {1000000 + round};
        served_[t]->apply(other, std::vector<float>(served_[t]->dim(), 1.0f));
      }
    }
  });
  for (auto& reader : readers) reader.join();
  stop = true;
  writer.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(ServedLookupTest, InMemoryItAllocatesNothingOnceItIsWarm) {
  if (GetParam() != "Memory") GTEST_SKIP() << "only tables in memory promise this";
  const auto lookup = make_served_lookup(served_features_);
  const Batch small = random_batch(1, 1, kRows), large = random_batch(2, 900, kRows);
  const auto small_views = small.views(), large_views = large.views();
  const int64_t width = lookup->width();
  std::vector<float> out(900 * width);
  for (int i = 0; i < 2; ++i) {
    lookup->forward({}, large_views, Phase::kEval, {out.data(), 900, width});
    lookup->forward({}, small_views, Phase::kEval, {out.data(), 1, width});
  }
  const int64_t before = allocations();
  for (int i = 0; i < 3; ++i) {
    lookup->forward({}, large_views, Phase::kEval, {out.data(), 900, width});
    lookup->forward({}, small_views, Phase::kEval, {out.data(), 1, width});
  }
  EXPECT_EQ(allocations(), before);
}

TEST_P(ServedLookupTest, TrainingAndInputOfTheWrongShapeAreRefused) {
  const std::vector<ServedFeature> one = {served_features_[0]};
  const auto lookup = make_served_lookup(one);
  std::vector<float> out(64);
  const int64_t keys[] = {1, 2};
  const int32_t falling[] = {0, 2, 1};
  const float weights[] = {1};
  const auto forward = [&](FeatureKeys of, int64_t bags, Phase phase = Phase::kEval,
                           int64_t cols = 16) {
    return [=, &lookup, &out] {
      lookup->forward({}, std::vector<FeatureKeys>{of}, phase,
                      View<float>{const_cast<float*>(out.data()), bags, cols});
    };
  };
  const View<const int64_t> two{keys, 2};
  EXPECT_THAT(forward({two}, 2, Phase::kTrain),
              ThrowsMessage<Error>(HasSubstr("cannot be trained")));
  EXPECT_THROW(lookup->backward({}, {}, 1, 1, 1), Error);
  EXPECT_THROW(lookup->squared_gradient_norm({}, {}), Error);
  EXPECT_THAT(forward({two}, 3), ThrowsMessage<Error>(HasSubstr("has 2 keys for 3 bags")));
  EXPECT_THAT(forward({two}, 2, Phase::kEval, 15), ThrowsMessage<Error>(HasSubstr("but need 16")));
  EXPECT_THAT(forward({two, {falling, 3}}, 2), ThrowsMessage<Error>(HasSubstr("do not rise")));
  EXPECT_THAT(forward({two, {falling, 3}}, 1), ThrowsMessage<Error>(HasSubstr("1 bags need 2")));
  EXPECT_THAT(forward({two, {}, {weights, 1}}, 2),
              ThrowsMessage<Error>(HasSubstr("1 weights for 2 keys")));
  EXPECT_THAT([&] { lookup->forward({}, {}, Phase::kEval, {}); },
              ThrowsMessage<Error>(HasSubstr("keys of 0 features")));
  EXPECT_THAT([] { make_served_lookup(std::vector<ServedFeature>{{}}); },
              ThrowsMessage<Error>(HasSubstr("feature 0 has no table")));
}

}  // namespace
}  // namespace emblem
