#include "bench/loader/loader_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPipeline[] = R"(
data_config { dataset_type: CriteoTsvDataset fg_mode: FG_DAG batch_size: 64 num_workers: 2 prefetch_batches: 4
              num_dense: 2 num_sparse: 3 }
feature_configs { raw_feature { feature_name: "I{1..2}" } }
feature_configs { id_feature { feature_name: "C{1..3}" embedding_dim: 4 hash_bucket_size: 100 } }
)";

// 1,000 rows of text: label i % 2, dense values i and 1, keys i, 1 and 2.
std::string rows_as_tsv() {
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    char line[96];
    std::snprintf(line, sizeof line, "%d\t%d\t1\t%08x\t00000001\t00000002\n", i % 2, i, i);
    text += line;
  }
  return text;
}

class LoaderBenchTest : public testing::Test {
 protected:
  LoaderBenchTest() {
    folder_.write("one/part.tsv", rows_as_tsv());
    folder_.write("two/part.tsv", rows_as_tsv());
    config_ = parse_pipeline(kPipeline, "test");
    config_.set_train_input_path(folder_.path("one"));
  }

  std::vector<std::string> names(const LoaderAxes& axes) const {
    std::vector<std::string> found;
    for (const LoaderSetting& setting : loader_settings(config_, axes))
      found.push_back(setting.name());
    return found;
  }

  const TempFolder folder_;
  config::PipelineConfig config_;
};

TEST_F(LoaderBenchTest, AnEmptyAxisKeepsTheValueOfThePipeline) {
  LoaderAxes axes;
  axes.workers = {3};
  EXPECT_THAT(names(axes), ElementsAre("tsv-w3-b64-p4"));
  axes.workers.clear();
  EXPECT_EQ(names(axes).front(), "tsv-w1-b64-p4");
}

TEST_F(LoaderBenchTest, AllCombinationsHaveDistinctNames) {
  LoaderAxes axes;
  axes.inputs = {"small=" + folder_.path("one"), folder_.path("two")};
  axes.workers = {1, 2};
  axes.batches = {32, 64};
  axes.prefetch = {1, 8};
  axes.shuffle = {false, true};
  axes.sample_ratios = {1, 0.5};
  axes.caches = {CacheState::kWarm, CacheState::kCold};
  const std::vector<std::string> all = names(axes);
  EXPECT_EQ(all.size(), 128u);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 128u);
  EXPECT_THAT(all, testing::Contains("small-w2-b32-p8-shuffled-r0.5-cold"));
}

TEST_F(LoaderBenchTest, BadAxesAreErrorsThatSayWhatIsExpected) {
  const auto error_of = [&](const LoaderAxes& axes) -> std::string {
    try {
      loader_settings(config_, axes);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  LoaderAxes axes;
  axes.workers = {0};
  EXPECT_THAT(error_of(axes), HasSubstr("--workers has 0; expected at least 1"));
  axes.workers = {1};
  axes.inputs = {"label="};
  EXPECT_THAT(error_of(axes), HasSubstr("PATH or LABEL=PATH"));
  axes.inputs = {folder_.path("absent")};
  EXPECT_THAT(error_of(axes), HasSubstr("absent"));
}

TEST_F(LoaderBenchTest, FiguresAndSumsAreThoseOfTheData) {
  ThreadPool threads(2);
  Context context;
  context.threads = &threads;
  LoaderBenchOptions options;
  options.axes.workers = {1, 2};
  options.axes.caches = {CacheState::kWarm, CacheState::kCold};
  options.limits.seconds = 0.02;
  options.rounds = 2;
  const LoaderBench bench = bench_loader(context, config_, options, {});
  ASSERT_EQ(bench.results.size(), 4u);
  for (const BenchResult& result : bench.results) {
    for (const char* name :
         {"samples_per_second", "bytes_per_second", "batch_seconds_p50", "batch_seconds_p99",
          "cpu_use", "peak_memory", "first_batch_seconds"}) {
      const Measure* measure = find_named(result.metrics, name);
      ASSERT_NE(measure, nullptr) << name;
      EXPECT_GT(measure->value, 0) << name;
    }
    for (const char* name : {"producer_wait", "consumer_wait"}) {
      EXPECT_GE(find_named(result.metrics, name)->value, 0) << name;
      EXPECT_LE(find_named(result.metrics, name)->value, 101) << name;
    }
    EXPECT_EQ(std::get<int64_t>(*find_named(result.settings, "check_rows")), 1000);
    EXPECT_EQ(std::get<double>(*find_named(result.settings, "check_labels")), 500);
    EXPECT_EQ(std::get<double>(*find_named(result.settings, "check_dense")), 499500 + 1000);
  }
  EXPECT_EQ(bench.settings[bench.advice.recommended].cache, CacheState::kWarm);
  EXPECT_GE(bench.advice.share, kGoodEnough);
  const auto fragment = parse_pipeline(bench.fragment, "fragment");
  EXPECT_EQ(fragment.train_input_path(), folder_.path("one"));
  EXPECT_EQ(fragment.data_config().batch_size(), 64u);
  EXPECT_EQ(fragment.data_config().dataset_type(), config::CriteoTsvDataset);
}

TEST_F(LoaderBenchTest, WorkersWaitForASlowConsumer) {
  LoaderAxes axes;
  axes.workers = {1};
  axes.batches = {8};
  const LoaderSetting setting = loader_settings(config_, axes).front();
  const LoaderRun run =
      run_loader(setting, layout_of(config_), {.seconds = 0.1, .step_seconds = 0.005});
  EXPECT_GT(run.producer_wait_seconds, 0);
}

TEST_F(LoaderBenchTest, ColdFilesAreReadOnceAndTimedFromOpening) {
  LoaderAxes axes;
  axes.workers = {1};
  axes.batches = {5000};
  axes.caches = {CacheState::kCold};
  const LoaderRun run =
      run_loader(loader_settings(config_, axes).front(), layout_of(config_), {.seconds = 5});
  EXPECT_EQ(run.rows, 1000);
  EXPECT_EQ(run.bytes, static_cast<int64_t>(rows_as_tsv().size()));
  EXPECT_EQ(run.batch_seconds.size(), 1u);
}

TEST(LoadedTrainingTest, TheIdleShareIsTheCostOfLoading) {
  EXPECT_DOUBLE_EQ((LoadedTraining{.loaded_rate = 75, .resident_rate = 100}).idle_share(), 0.25);
  EXPECT_EQ((LoadedTraining{.loaded_rate = 101, .resident_rate = 100}).idle_share(), 0);
  EXPECT_EQ(LoadedTraining{}.idle_share(), 0);
}

// Settings with the given differences and invented rates.
std::vector<LoaderSetting> settings_with(const std::vector<std::tuple<int, int64_t, int>>& sizes) {
  std::vector<LoaderSetting> settings;
  for (const auto& [workers, batch, prefetch] : sizes) {
    LoaderSetting setting;
    setting.loading.workers = workers;
    setting.loading.batch_size = batch;
    setting.loading.prefetch_batches = prefetch;
    settings.push_back(setting);
  }
  return settings;
}

TEST(LoaderAdvice, TheSmallestWithinThreePercentIsRecommended) {
  const auto settings =
      settings_with({{4, 1024, 8}, {2, 1024, 8}, {2, 1024, 2}, {1, 1024, 8}, {2, 512, 8}});
  const auto agree = [](size_t, size_t) { return 0.99; };
  const LoaderAdvice advice = advise(settings, {100, 98, 97.5, 96, 90}, agree);
  EXPECT_EQ(advice.best, 0u);
  EXPECT_EQ(advice.recommended, 2u);
  EXPECT_EQ(advice.compared, 5u);
  EXPECT_EQ(advice.share, 0.99);
}

TEST(LoaderAdvice, ACandidateThatIsSlowerWhenMeasuredAgainIsRejected) {
  const auto settings = settings_with({{4, 1024, 8}, {2, 1024, 8}, {1, 1024, 8}});
  const LoaderAdvice advice = advise(settings, {100, 98, 99}, [](size_t candidate, size_t best) {
    EXPECT_EQ(best, 0u);
    return candidate == 2 ? 0.6 : 0.975;
  });
  EXPECT_EQ(advice.recommended, 1u);
  const LoaderAdvice none = advise(settings, {100, 98, 99}, [](size_t, size_t) { return 0.5; });
  EXPECT_EQ(none.recommended, 0u);
  EXPECT_EQ(none.share, 1);
}

TEST(LoaderAdvice, ShufflingAndSamplingAreNotChosenForSpeed) {
  auto settings = settings_with({{2, 1024, 8}, {1, 1024, 8}, {1, 1024, 8}});
  settings[0].loading.shuffle = true;
  settings[1].loading.shuffle = true;
  const LoaderAdvice advice = advise(settings, {50, 20, 100}, [](size_t, size_t) { return 1.0; });
  EXPECT_EQ(advice.recommended, 0u);
  EXPECT_EQ(advice.compared, 2u);
}

}  // namespace
}  // namespace emblem
