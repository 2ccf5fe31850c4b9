#include "bench/retrieval/retrieve_bench.h"

#include <gtest/gtest.h>

#include "core/device/device_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

class RetrieveBench : public DeviceTest {};

TEST_P(RetrieveBench, ChecksAndMeasuresEveryNumberOfUsers) {
  const auto stream = use_own_stream(context_);
  for (const double filter : {0.0, 0.2}) {
    const RetrieveOptions options{.items = 3000,
                                  .dim = 16,
                                  .users = {1, 5},
                                  .top_k = 10,
                                  .dtype = DType::kF16,
                                  .filter = filter,
                                  .seconds = 0.0};
    const auto results = bench_retrieve(context_, options, [](const BenchResult&) {});
    ASSERT_EQ(results.size(), 2u);
    EXPECT_GT(find_named(results[1].metrics, "queries_per_second")->value, 0.0);
    EXPECT_GT(*find_named(results[1].shares, "of the floor"), 0.0);
  }
}

TEST_P(RetrieveBench, ComparesSearchesThatExcludeItemsWithOthers) {
  const auto stream = use_own_stream(context_);
  const RetrieveOptions options{
      .items = 3000, .dim = 16, .users = {1, 5}, .top_k = 10, .exclude = 41, .seconds = 0.0};
  const auto results = bench_retrieve(context_, options, [](const BenchResult&) {});
  ASSERT_EQ(results.size(), 2u);
  for (const BenchResult& result : results) {
    EXPECT_NE(result.name.find("-exclude41"), std::string::npos);
    const double with = find_named(result.metrics, "search_seconds")->value,
                 without = find_named(result.metrics, "search_seconds_without_exclusion")->value;
    EXPECT_GT(without, 0.0);
    EXPECT_DOUBLE_EQ(find_named(result.metrics, "times_without_exclusion")->value, with / without);
  }
  RetrieveOptions all = options;
  all.exclude = all.items;
  EXPECT_THROW(bench_retrieve(context_, all, [](const BenchResult&) {}), Error);
}

TEST(RetrieveBenchOfLists, MeasuresTheRecall) {
  const RetrieveOptions options{.items = 3000,
                                .dim = 16,
                                .users = {1},
                                .top_k = 10,
                                .similarity = Similarity::kCosine,
                                .kind = IndexKind::kIvfFlat,
                                .probes = {2, 20},
                                .topics = 50,
                                .seconds = 0.0};
  const auto results = bench_retrieve({}, options, [](const BenchResult&) {});
  ASSERT_EQ(results.size(), 2u);
  const double few = find_named(results[0].metrics, "recall_at_10")->value,
               many = find_named(results[1].metrics, "recall_at_10")->value;
  EXPECT_GT(many, 0.8);
  EXPECT_LT(few, many);
}

EMBLEM_TEST_ON_EVERY_DEVICE(RetrieveBench);

}  // namespace
}  // namespace emblem
