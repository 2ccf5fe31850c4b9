#include "bench/tables/tables_bench.h"

#include <gmock/gmock.h>

#include <set>

#include "bench/tables/bounded_power_law.h"
#include "core/threads/thread_pool.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TablesCase small() {
  TablesCase of;
  of.name = "small";
  of.tables = 2;
  of.rows = 500;
  of.batch = 120;
  of.dim = 12;
  return of;
}
constexpr TablesOptions kShort{.batches = 4, .repetitions = 1};

// 1.05 over 8.4 M rows: the published generator gives the first key 6.2 % and 26,953 distinct keys
// in 65,536.
TEST(BoundedPowerLaw, MatchesThePublishedBenchmark) {
  const BoundedPowerLaw draw(8388608, 1.05);
  std::set<int64_t> distinct;
  int64_t first = 0;
  for (uint64_t i = 0; i < 65536; ++i) {
    const int64_t key = draw(42, 0, i);
    ASSERT_GE(key, 1);
    ASSERT_LT(key, 8388608);
    distinct.insert(key);
    first += key == 1;
  }
  EXPECT_NEAR(static_cast<double>(first) / 65536, 0.062, 0.005);
  EXPECT_NEAR(static_cast<double>(distinct.size()), 26953, 400);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_GE(BoundedPowerLaw(100, 1.0)(1, 0, i), 1);
}

TEST(TablesBench, ChecksAndTimesEveryOptimizerTypeAndPooling) {
  ThreadPool pool(2);
  const Context context{.threads = &pool};
  for (const char* optimizer : {"sgd", "momentum", "adagrad", "rowwise_adagrad", "adam", "ftrl"}) {
    for (const KeyStream stream : {KeyStream::kReplay, KeyStream::kFresh}) {
      TablesCase of = small();
      of.optimizer = optimizer;
      of.stream = stream;
      of.dtype = stream == KeyStream::kFresh ? DType::kBf16 : DType::kF32;
      of.hotness = optimizer[0] == 'a' ? 10 : 1;
      of.pooling = optimizer[0] == 'a' ? Pooling::kMean : Pooling::kSum;
      const BenchResult result = bench_tables(context, of, kShort);
      EXPECT_GT(find_named(result.metrics, "train")->value, 0) << optimizer;
      EXPECT_GT(*find_named(result.shares, "eval of copy floor"), 0) << optimizer;
    }
  }
}

TEST(TablesBench, HasThePublishedConfigurations) {
  EXPECT_EQ(tables_preset("dynamicemb-2025", KeyStream::kReplay, Device::kCuda).size(), 12u);
  EXPECT_EQ(tables_preset("dynamicemb-2026", KeyStream::kFresh, Device::kCuda).size(), 10u);
  EXPECT_THAT([] { tables_preset("other", KeyStream::kReplay, Device::kCpu); },
              ThrowsMessage<Error>(HasSubstr("unknown preset \"other\"; known: dynamicemb-2025")));
}

// A machine with 125 GiB of host memory.
TEST(TablesBench, TablesInHostMemoryHaveAsManyRowsAsFit) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  for (const char* preset : {"dynamicemb-2025", "dynamicemb-2026"}) {
    for (const TablesCase& of :
         tables_preset(preset, KeyStream::kFresh, Device::kCuda, 125 * kGiB)) {
      const int64_t bytes = of.tables * of.rows * (of.optimizer == "sgd" ? 512 : 1536);
      EXPECT_LE(bytes, of.placement == Placement::kDevice ? 100 * kGiB : 105 * kGiB) << of.name;
      const bool published = of.name.starts_with("b") || of.placement == Placement::kDevice;
      EXPECT_EQ(rows_note(of).empty(), published) << rows_note(of);
    }
  }
  const TablesCase less =
      tables_preset("dynamicemb-2025", KeyStream::kReplay, Device::kCuda, 64 * kGiB).back();
  EXPECT_EQ(less.rows, (64 * kGiB / 10 * 9 - 8 * kGiB) / 1536);
  EXPECT_THAT(rows_note(less), HasSubstr("instead of the published 67108864"));
  for (const TablesCase& of :
       tables_preset("dynamicemb-2026", KeyStream::kFresh, Device::kCpu, 8 * kGiB))
    EXPECT_LE(of.tables * of.rows * 512, 4 * kGiB) << of.name;
}

TEST(TablesBench, ACaseThatDoesNotFitIsReportedAndTheOthersRun) {
  TablesCase huge = small();
  huge.name = "huge";
  huge.kind = TableKind::kStatic;
  huge.rows = 4'000'000'000;
  huge.dim = 100'000;
  std::vector<std::string> told, shown;
  const TablesRun run = bench_all_tables(
      {}, {small(), huge, small()}, kShort,
      [&](const BenchResult& result) { shown.push_back(result.name); },
      [&](const std::string& line) { told.push_back(line); });
  EXPECT_THAT(shown, testing::ElementsAre("small", "small"));
  EXPECT_EQ(run.results.size(), 2u);
  EXPECT_THAT(run.not_measured, testing::ElementsAre("huge"));
  EXPECT_THAT(told, testing::ElementsAre(testing::AllOf(HasSubstr("huge: not measured: no memory"),
                                                        testing::Not(HasSubstr("\n")))));
}

TEST(TablesBench, InvalidCasesAreErrors) {
  const auto with = [](auto change) {
    TablesCase of = small();
    TablesOptions options = kShort;
    change(of, options);
    return [=] { bench_tables({}, of, options); };
  };
  EXPECT_THAT(with([](auto& of, auto&) { of.tables = 0; }),
              ThrowsMessage<Error>(HasSubstr("the number of tables must be at least 1, not 0")));
  EXPECT_THAT(with([](auto& of, auto&) { of.hotness = 7; }),
              ThrowsMessage<Error>(HasSubstr("120 lookups is not a multiple of the hotness 7")));
  EXPECT_THAT(with([](auto& of, auto&) { of.load_factor = 1.5; }),
              ThrowsMessage<Error>(HasSubstr("from 0 to 1, not 1.5")));
  EXPECT_THAT(with([](auto&, auto& options) { options.repetitions = 0; }),
              ThrowsMessage<Error>(HasSubstr("repetitions must be at least 1")));
  EXPECT_THAT(with([](auto& of, auto&) { of.optimizer = "foo"; }),
              ThrowsMessage<Error>(HasSubstr("unknown optimizer \"foo\"; known: sgd")));
}

TEST(TablesBench, ReportsPublishedFiguresOfTheSameWorkload) {
  BenchResult result;
  result.name = "work-fresh";
  result.program = "emblem";
  result.settings = {{"unique_keys", 10.0}, {"hit_rate", 0.5}};
  result.metrics = {{"train", {0.002, "s", Better::kLower}},
                    {"eval", {0.001, "s", Better::kLower}}};
  ReferenceTable published;
  published.figures = {{"peer", "H100", "work", "", {{"train", 0.008}}, ""},
                       {"peer", "H100", "other", "", {{"train", 0.1}}, ""}};
  const std::string text = tables_report({result}, {published});
  EXPECT_THAT(text, HasSubstr("peer (H100)"));
  EXPECT_THAT(text, HasSubstr("4.00x"));
  EXPECT_THAT(text, testing::Not(HasSubstr("100 ms")));
}

}  // namespace
}  // namespace emblem
