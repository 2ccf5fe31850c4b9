#include "bench/report/sweeps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/report/svg.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BenchResult result_of(int64_t batch, int64_t workers, double rate) {
  BenchResult result;
  result.benchmark = "loader";
  result.name = cat("raw-w", workers, "-b", batch);
  result.program = "emblem 0.1.0";
  result.settings = {{"batch", batch}, {"workers", workers}, {"steps", batch + workers}};
  result.metrics = {
      {"samples_per_second", {rate, "samples/s", Better::kHigher}},
      {"batch_seconds_p50", {static_cast<double>(batch) / rate, "s", Better::kLower}}};
  return result;
}

std::vector<BenchResult> sweep() {
  std::vector<BenchResult> results;
  for (const int64_t workers : {4, 1, 2})
    for (const int64_t batch : {512, 8192, 2048, 128})
      results.push_back(result_of(batch, workers, static_cast<double>(batch * workers)));
  return results;
}

TEST(SweepMaps, ShowTheFirstMetricOverTheSettingsThatVary) {
  const std::vector<SweepMap> maps = sweep_maps(sweep());
  ASSERT_EQ(maps.size(), 1u);
  const HeatMap& map = maps[0].map;
  EXPECT_EQ(map.x_label, "batch (samples)");
  EXPECT_EQ(map.y_label, "workers (threads)");
  EXPECT_THAT(map.columns, ElementsAre("128", "512", "2048", "8192"));
  EXPECT_THAT(map.rows, ElementsAre("1", "2", "4"));
  EXPECT_EQ(*map.values[2][1], 512 * 4);
  EXPECT_THAT(heat_map(map), HasSubstr("cell best"));
}

TEST(SweepMaps, AFurtherSettingAndAPeerGetMapsOfTheirOwn) {
  std::vector<BenchResult> results = sweep();
  const size_t half = results.size();
  for (size_t i = 0; i < half; ++i) {
    results[i].settings.emplace_back("shuffle", false);
    BenchResult shuffled = results[i], peer = results[i];
    std::get<bool>(shuffled.settings.back().second) = true;
    peer.program = "pytorch 2.4";
    results.push_back(shuffled);
    results.push_back(peer);
  }
  std::vector<std::string> captions;
  for (const SweepMap& map : sweep_maps(results)) captions.push_back(map.caption);
  EXPECT_THAT(captions, ElementsAre("loader, samples per second, shuffle no",
                                    "loader, samples per second, shuffle yes",
                                    "loader, samples per second, pytorch 2.4"));
}

TEST(SweepMaps, NeedTwoSettingsThatVaryAndFourCells) {
  EXPECT_TRUE(sweep_maps({result_of(1, 1, 1), result_of(2, 1, 2), result_of(3, 1, 3)}).empty());
  EXPECT_TRUE(sweep_maps({result_of(1, 1, 1), result_of(2, 2, 2)}).empty());
  EXPECT_TRUE(sweep_maps({}).empty());
}

TEST(SweepMaps, TheAxesThatResultsNameAreUsedAndNoOthers) {
  std::vector<BenchResult> results = sweep();
  for (BenchResult& result : results)
    result.settings.emplace_back("axes", std::vector<std::string>{"batch"});
  EXPECT_TRUE(sweep_maps(results).empty());
}

TEST(BatchCharts, DrawALineForEachNameOverTheBatchSize) {
  const std::vector<LineChart> charts = batch_charts(sweep());
  ASSERT_EQ(charts.size(), 1u);
  EXPECT_EQ(charts[0].title, "loader, batch seconds p50");
  ASSERT_EQ(charts[0].lines.size(), 3u);
  EXPECT_EQ(charts[0].lines[0].name, "raw-w4");
  EXPECT_EQ(charts[0].lines[0].points.front().first, 128);
  EXPECT_EQ(charts[0].x.scale, AxisScale::kLog);
  const std::string svg = line_chart(charts[0]);
  EXPECT_THAT(svg, HasSubstr(">8192<"));
  EXPECT_THAT(svg, HasSubstr(" ms<"));
}

TEST(BatchCharts, MoreLinesThanColoursGoToFurtherCharts) {
  std::vector<BenchResult> results;
  for (int64_t workers = 1; workers <= 10; ++workers)
    for (const int64_t batch : {1, 2, 4}) results.push_back(result_of(batch, workers, 5));
  const std::vector<LineChart> charts = batch_charts(results);
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].lines.size(), static_cast<size_t>(kChartColors));
  EXPECT_EQ(charts[1].lines.size(), static_cast<size_t>(10 - kChartColors));
}

}  // namespace
}  // namespace emblem
