// Sharded lookups against one lookup over whole tables.
#include "shard/sharded_lookup.h"

#include <numeric>

#include "shard/sharded_training_test.h"

namespace emblem {
namespace {

class ShardedRanks : public testing::TestWithParam<std::tuple<int, Device>> {
 protected:
  void SetUp() override {
    if (!device_is_usable(std::get<1>(GetParam()))) GTEST_SKIP() << "no CUDA device here";
  }
};

TEST_P(ShardedRanks, GiveTheBytesOfOneRank) {
  const auto [ranks, device] = GetParam();
  const Trained one = train({1, 8, device}), several = train({ranks, 8, device});
  EXPECT_EQ(several.outputs, one.outputs);
  EXPECT_EQ(several.rows, one.rows);
  EXPECT_EQ(several.scores, one.scores);
  EXPECT_EQ(several.counts, one.counts);
  // The squares of a row are rounded once for each slice of columns, on a GPU to 32 bits.
  const double tolerance = device == Device::kCpu ? 1e-14 : 1e-7;
  for (size_t i = 0; i < one.norms.size(); ++i)
    EXPECT_NEAR(several.norms[i], one.norms[i], tolerance * one.norms[i]);
}

TEST_P(ShardedRanks, GiveTheNormOfOneRankWhereRowsAreWhole) {
  const auto [ranks, device] = GetParam();
  const Case one{.shards = 8, .device = device, .plans = Plans::kWholeRows};
  Case several = one;
  several.ranks = ranks;
  EXPECT_EQ(train(several).norms, train(one).norms);
}

INSTANTIATE_TEST_SUITE_P(, ShardedRanks,
                         testing::Combine(testing::Values(2, 3, 4, 5, 8),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_", std::get<1>(info.param));
                         });

class ShardedLookup : public DeviceTest {};

// Two ranks, so that some rows come from another.
TEST_P(ShardedLookup, RowsAndGradientsTravelIn16Bits) {
  const Device device = GetParam();
  const Trained exact = train({2, 8, device});
  for (const DType precision : {DType::kBf16, DType::kF16}) {
    const float unit = precision == DType::kBf16 ? 1.0f / 256 : 1.0f / 2048;
    const Trained rounded = train({2, 8, device, precision});
    EXPECT_EQ(rounded.counts, exact.counts);
    float largest = 0.0f;
    for (const auto& [shard, steps] : exact.outputs) {
      // Outputs of the first step; later ones have what optimizers made of the
      // differences.
      for (size_t i = 0; i < steps[0].size(); ++i) {
        const float difference = std::abs(rounded.outputs.at(shard)[0][i] - steps[0][i]);
        largest = std::max(largest, difference);
        // Up to 3 keys of weights up to 2.5, each below 0.01.
        EXPECT_LE(difference, 3 * 2.5f * 0.01f * unit);
      }
    }
    EXPECT_GT(largest, 0.0f);
    EXPECT_NE(rounded.rows, exact.rows);
    for (size_t i = 0; i < exact.norms.size(); ++i)
      EXPECT_NEAR(rounded.norms[i], exact.norms[i], 0.01 * exact.norms[i]);
    if (device == Device::kCpu) {  // which sends nothing to itself
      EXPECT_EQ(train({1, 8, device, precision}).rows, train({1, 8, device}).rows);
    }
  }
}

// An evaluation runs between two steps, and some of the announced keys are not those that follow.
TEST_P(ShardedLookup, AnnouncedKeysChangeNothing) {
  const Case plain{.ranks = 3, .shards = 8, .device = GetParam()};
  const Trained without = train(plain);
  for (const int ahead : {1, 2}) {
    Case announced = plain;
    announced.ahead = ahead;
    expect_equal(train(announced), without);
  }
}

TEST_P(ShardedLookup, PeerMemoryGivesTheBytesOfExchanges) {
  for (const DType precision : {DType::kF32, DType::kBf16}) {
    for (const int ahead : {0, 1}) {
      Case c{.ranks = 3, .shards = 8, .device = GetParam(), .precision = precision, .ahead = ahead};
      const Trained direct = train(c);
      c.reach = Reach::kExchanged;
      expect_equal(direct, train(c));
    }
  }
}

// One shard of all rows through the plain lookup; the other shard of two ranks has no rows.
TEST_P(ShardedLookup, OneShardIsThePlainLookup) {
  const Trained sharded = train({.device = GetParam()});
  const Trained of_two = train({.ranks = 2, .shards = 2, .device = GetParam()});
  const Context& context = context_;
  std::vector<std::unique_ptr<Table>> tables;
  for (const TableSettings& settings : sample_tables())
    tables.push_back(make_table(context, settings));
  std::vector<LookupFeature> features;
  for (const ShardedFeature& feature : sample_features())
    features.push_back({tables[feature.table].get(), feature.pooling});
  const auto lookup = make_lookup(context, features, kSettings);
  Trained plain;
  for (int step = 1; step <= kSteps; ++step) {
    const auto seed = static_cast<uint64_t>(step * 100);
    const ShardBatch batch = random_batch(seed, kBags[0]);
    const auto gradients = random_gradients(seed, kBags[0] * lookup->width());
    Buffer<float> out(context.device, kBags[0], lookup->width());
    Uploaded uploaded(context);
    const auto keys = uploaded.views(batch);
    lookup->forward(context, keys, step == 3 ? Phase::kEval : Phase::kTrain, out.view());
    plain.outputs[0].push_back(out.to_host(context));
    if (step == 3) continue;
    const auto view = Buffer<float>::from(context, gradients, lookup->width());
    plain.norms.push_back(lookup->squared_gradient_norm(context, view.view()));
    lookup->backward(context, view.view(), 0.5f, 0.1f, step);
    lookup->check(context);
  }
  for (const auto& table : tables) take_content(context, *table, plain);
  EXPECT_EQ(sharded.outputs, plain.outputs);
  EXPECT_EQ(of_two.outputs.at(0), plain.outputs.at(0));
  const std::vector<LookupCounts> counts = lookup->take_counts(context);
  for (const Trained* each : {&sharded, &of_two}) {
    EXPECT_EQ(each->rows, plain.rows);
    EXPECT_EQ(each->scores, plain.scores);
    EXPECT_EQ(each->counts, counts);
  }
  // A GPU squares rows in 32 bits.
  const double tolerance = GetParam() == Device::kCpu ? 1e-12 : 1e-8;
  for (size_t i = 0; i < plain.norms.size(); ++i)
    EXPECT_NEAR(sharded.norms[i], plain.norms[i], tolerance * plain.norms[i]);
}

// train() compares what is noted with the counts.
TEST(HostShardedLookup, NotesKeysWithoutARow) {
  Case c{.shards = 6, .plans = Plans::kNothingPooled};
  const Trained one = train(c);
  int64_t missing = 0;
  for (const LookupCounts& counts : one.counts) missing += counts.missing;
  EXPECT_GT(missing, 0);
  for (c.ranks = 2; c.ranks <= 3; ++c.ranks) EXPECT_EQ(train(c).counts, one.counts);
  c.hosts = {"a", "a", "b", "b"};
  c.host_dedup = HostDedup::kRows;
  EXPECT_EQ(train(c).counts, one.counts);
}

// Where no rank has bags, rows travel in the type of the output, which loses nothing.
TEST_P(ShardedLookup, OutputsIn16BitsAreThoseOfThePlainLookup) {
  if (GetParam() == Device::kCpu) GTEST_SKIP() << "outputs have 16 bits on GPUs alone";
  constexpr int64_t kRows = 40;
  for (const auto& [type, with_bags] :
       {std::pair{DType::kBf16, false}, {DType::kF16, false}, {DType::kBf16, true}}) {
    const std::vector<TableSettings> settings = {
        {.name = "wide", .dim = 128, .capacity = 1000},
        {.name = "open", .dim = type == DType::kF16 ? 7 : 8, .kind = TableKind::kDynamic},
        {.name = "narrow", .dim = 4, .dtype = DType::kF16, .capacity = 1000}};
    run_thread_ranks(3, [&](Communicator& ranks) {
      Context context{.device = GetParam()};
      const auto stream = use_own_stream(context);
      std::vector<std::unique_ptr<Table>> parts, whole;
      std::vector<ShardedTable> sharded;
      std::vector<ShardedFeature> features;
      std::vector<LookupFeature> plain_features;
      std::vector<Buffer<int64_t>> keys;
      std::vector<int32_t> begins(kRows + 1);
      std::iota(begins.begin(), begins.end(), 0);
      const auto offsets = Buffer<int32_t>::from(context, begins);
      std::vector<FeatureKeys> views;
      Random random{static_cast<uint64_t>(ranks.rank()), 1};
      for (const TableSettings& table : settings) {
        const TableShards shards = over_all_ranks(table.name, ranks.size());
        parts.push_back(make_table(context, settings_of_part(table, shards, ranks.rank())));
        whole.push_back(make_table(context, table));
        sharded.push_back({table, shards, parts.back().get()});
        features.push_back({features.size(), Pooling::kSum});
        plain_features.push_back({whole.back().get(), Pooling::kSum});
        std::vector<int64_t> of_table(kRows);
        for (int64_t& key : of_table) key = static_cast<int64_t>(random.below(1000));
        keys.push_back(Buffer<int64_t>::from(context, of_table));
        views.push_back({.keys = std::as_const(keys.back()).view()});
        if (with_bags && ranks.rank() == 1) views.back().offsets = offsets.view();
      }
      const auto lookup = make_sharded_lookup(context, sharded, features, {&ranks, &ranks, 1});
      const auto plain = make_lookup(context, plain_features);
      Buffer<uint16_t> out(context.device, kRows, lookup->width());
      Buffer<uint16_t> expected(context.device, kRows, lookup->width());
      for (const Phase phase : {Phase::kTrain, Phase::kEval}) {
        lookup->forward(context, views, phase,
                        {out.data(), kRows, lookup->width(), type, context.device});
        plain->forward(context, views, phase,
                       {expected.data(), kRows, lookup->width(), type, context.device});
        EXPECT_EQ(out.to_host(context), expected.to_host(context));
      }
    });
  }
}

TEST(SettingsOfPart, RefuseColumnsOfTablesThatNeedWholeRows) {
  const auto problem = [](const TableSettings& settings) {
    try {
      settings_of_part(settings, by_columns("a", {0, 1}, 2), 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const TableSettings plain{.name = "a", .dim = 2, .capacity = 10, .rule = Adam{}};
  TableSettings row_wise = plain, narrow = plain;
  row_wise.rule = RowWiseAdaGrad{};
  narrow.dim = 1;
  EXPECT_EQ(problem(plain), "none");
  EXPECT_EQ(problem(row_wise),
            cat("the plan (train_config.plan_path) cuts table a into slices of "
                "columns, but ",
                name_of(row_wise.rule), " needs whole rows; use 'rows' or 'rank N'"));
  EXPECT_EQ(problem(narrow),
            "the plan (train_config.plan_path) cuts the columns of table a into 2 slices, but it "
            "has 1; name fewer ranks");
}

// A GPU kernel takes 128 features, and every slice of columns is one.
TEST_P(ShardedLookup, TakesMoreSlicesThanAKernelTakesFeatures) {
  constexpr size_t kTables = 70;
  const int64_t dim = 3;
  run_thread_ranks(2, [&](Communicator& ranks) {
    Context context{.device = GetParam()};
    const auto stream = use_own_stream(context);
    std::vector<std::unique_ptr<Table>> tables;
    std::vector<ShardedTable> sharded;
    std::vector<ShardedFeature> features;
    std::vector<FeatureKeys> keys;
    const auto key = Buffer<int64_t>::from(context, {ranks.rank(), 5});
    for (size_t t = 0; t < kTables; ++t) {
      const TableSettings settings{.name = cat("t", t), .dim = dim, .capacity = 10, .seed = t};
      TableShards shards = by_columns(settings.name, {1, 0}, 2);
      shards.pooled_at_owner = t % 5 == 0;
      tables.push_back(make_table(context, settings_of_part(settings, shards, ranks.rank())));
      sharded.push_back({settings, shards, tables.back().get()});
      features.push_back({t, Pooling::kSum});
      keys.push_back({.keys = key.view()});
    }
    const auto lookup = make_sharded_lookup(context, sharded, features, {&ranks, &ranks, 1});
    Buffer<float> out(context.device, 2, lookup->width());
    lookup->forward(context, keys, Phase::kEval, out.view());
    lookup->check(context);
    const std::vector<float> found = out.to_host(context);
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t row = i / (kTables * dim), t = i % (kTables * dim) / dim;
      const uint64_t of = row == 0 ? static_cast<uint64_t>(ranks.rank()) : 5;
      EXPECT_EQ(found[i], Initializer{}(t, of, static_cast<int64_t>(i % dim))) << t;
    }
  });
}

TEST_P(ShardedLookup, RefusesKeysOutsideAStaticTable) {
  TableShards pooled = over_all_ranks("a", 1);
  pooled.pooled_at_owner = true;
  for (const TableShards& shards : {over_all_ranks("a", 1), by_columns("a", {0}, 1), pooled}) {
    run_thread_ranks(1, [&](Communicator& ranks) {
      const Context& context = context_;
      const TableSettings settings{.name = "a", .dim = 2, .capacity = 10};
      const auto table = make_table(context, settings);
      const ShardedTable sharded{settings, shards, table.get()};
      const ShardedFeature feature{0, Pooling::kSum};
      const auto lookup =
          make_sharded_lookup(context, {&sharded, 1}, {&feature, 1}, {&ranks, &ranks, 1});
      const auto key = Buffer<int64_t>::from(context, {10});
      Buffer<float> out(context.device, 1, 2);
      const FeatureKeys keys{.keys = key.view()};
      try {
        lookup->forward(context, {&keys, 1}, Phase::kTrain, out.view());
        lookup->check(context);
        FAIL();
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "table a: key 10 is outside [0, 10): raise num_buckets, use "
                     "hash_bucket_size, or make the table dynamic");
      }
    });
  }
}

EMBLEM_TEST_ON_EVERY_DEVICE(ShardedLookup);

}  // namespace
}  // namespace emblem
