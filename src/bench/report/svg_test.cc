#include "bench/report/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/report/svg_line_chart.h"
#include "bench/report/sweeps.h"
#include "core/math/random.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(EscapeMarkup, EscapesTagsAndAttributeQuotes) {
  EXPECT_EQ(escape_markup("<b a='1' c=\"2\">&\n\x01"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;  ");
  EXPECT_EQ(escape_markup("naïve ±"), "naïve ±");
}

TEST(LinearScaleTest, MapsEndsToEndsAndAnEmptyRangeToTheMiddle) {
  const LinearScale scale = {10, 20, 100, 0};
  EXPECT_DOUBLE_EQ(scale(10), 100);
  EXPECT_DOUBLE_EQ(scale(20), 0);
  EXPECT_DOUBLE_EQ(scale(15), 50);
  EXPECT_DOUBLE_EQ((LinearScale{3, 3, 0, 10})(3), 5);
}

TEST(RoundTicks, AreRoundNumbers) {
  EXPECT_THAT(round_ticks(0, 10, 5).at, testing::ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(round_ticks(0, 97, 5).at, testing::ElementsAre(0, 20, 40, 60, 80));
  EXPECT_THAT(round_ticks(-1, 1, 4).at, testing::ElementsAre(-1, -0.5, 0, 0.5, 1));
}

// For any range: ticks are inside, ascending, evenly spaced, multiples of a round step, and of
// moderate number.
TEST(RoundTicks, AreInsideEvenAndRoundForAnyRange) {
  Random random{7};
  for (int trial = 0; trial < 5000; ++trial) {
    const double size = std::pow(10.0, static_cast<double>(random.uniform()) * 16 - 8);
    const double low = (static_cast<double>(random.uniform()) - 0.5) * 20 * size;
    const double high = low + static_cast<double>(random.uniform() + 0.001f) * size;
    const Ticks ticks = round_ticks(low, high, 5);
    ASSERT_GE(ticks.at.size(), 2u) << low << " " << high;
    ASSERT_LE(ticks.at.size(), 9u) << low << " " << high;
    const double slack = ticks.step * 1e-6;
    ASSERT_GE(ticks.at.front(), ticks.low_end - slack);
    ASSERT_LE(ticks.at.back(), ticks.high_end + slack);
    for (size_t i = 1; i < ticks.at.size(); ++i)
      ASSERT_NEAR(ticks.at[i] - ticks.at[i - 1], ticks.step, slack);
    const double digit = ticks.step / std::pow(10.0, std::floor(std::log10(ticks.step) + 1e-9));
    ASSERT_TRUE(std::abs(digit - 1) < 1e-6 || std::abs(digit - 2) < 1e-6 ||
                std::abs(digit - 5) < 1e-6)
        << digit;
  }
}

TEST(RoundTicks, AcceptEmptyAndInvalidRanges) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (const auto& [low, high] : {std::pair{5.0, 5.0},
                                  {0.0, 0.0},
                                  {-3.0, -3.0},
                                  {nan, 1.0},
                                  {-inf, inf},
                                  {2.0, 1.0},
                                  {1e9, 1e9 * (1 + 1e-15)}}) {
    const Ticks ticks = round_ticks(low, high, 5);
    EXPECT_GE(ticks.at.size(), 2u) << low << " " << high;
    EXPECT_LE(ticks.at.size(), 12u) << low << " " << high;
    EXPECT_LT(ticks.low_end, ticks.high_end);
  }
}

TEST(FormatTick, UsesAsManyDigitsAsTheStepNeeds) {
  EXPECT_EQ(format_tick(0.25, 0.05), "0.25");
  EXPECT_EQ(format_tick(3, 1), "3");
  EXPECT_EQ(format_tick(1500, 500), "1500");
  EXPECT_EQ(format_tick(20000, 5000), "20k");
  EXPECT_EQ(format_tick(0, 5000), "0");
  EXPECT_EQ(format_tick(2.5e6, 5e5), "2.5M");
  EXPECT_EQ(format_tick(3e6, 1e6), "3M");
}

Series random_walk(size_t size, uint64_t seed) {
  Series series;
  Random random{seed};
  double value = 0;
  for (size_t i = 0; i < size; ++i)
    series.emplace_back(i, value += static_cast<double>(random.normal()));
  return series;
}

TEST(ThinOut, KeepsOrderEndsAndExtremes) {
  for (const size_t size : {1u, 2u, 5u, 499u, 500u, 501u, 20000u}) {
    const Series all = random_walk(size, size);
    const Series some = thin_out(all, 500);
    EXPECT_LE(some.size(), 504u);
    EXPECT_EQ(some.front(), all.front());
    EXPECT_EQ(some.back(), all.back());
    EXPECT_TRUE(std::is_sorted(some.begin(), some.end(),
                               [](auto& a, auto& b) { return a.first < b.first; }));
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    EXPECT_EQ(std::max_element(some.begin(), some.end(), by_value)->second,
              std::max_element(all.begin(), all.end(), by_value)->second);
    EXPECT_EQ(std::min_element(some.begin(), some.end(), by_value)->second,
              std::min_element(all.begin(), all.end(), by_value)->second);
  }
  EXPECT_TRUE(thin_out({}, 500).empty());
}

TEST(Smoothed, IsTheMeanOfTheNeighboursThatAreNumbers) {
  Series series = random_walk(300, 3);
  series[50].second = std::nan("");
  const Series smooth = smoothed(series, 20);
  ASSERT_EQ(smooth.size(), series.size());
  for (size_t i = 0; i < series.size(); ++i) {
    double sum = 0;
    int count = 0;
    for (size_t j = i < 10 ? 0 : i - 10; j < std::min<size_t>(series.size(), i + 11); ++j)
      if (!std::isnan(series[j].second)) sum += series[j].second, ++count;
    EXPECT_NEAR(smooth[i].second, sum / count, 1e-9) << i;
  }
  EXPECT_EQ(smoothed({{1, 5}}, 0), (Series{{1, 5}}));
}

TEST(LineChartTest, DrawsEveryLineTheLimitAndEscapedNames) {
  LineChart chart{
      "AUC <test>", {"step"},
      {"auc"},      {{"a & b", {{0, 0.5}, {10, 0.7}}, 0}, {"c", {{0, 0.5}, {10, 0.6}}, 1}},
      0.8,          "best"};
  const std::string svg = line_chart(chart);
  EXPECT_EQ(count_of(svg, "<path"), 2u);
  EXPECT_THAT(svg, HasSubstr("AUC &lt;test&gt;"));
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, HasSubstr("best 0.8000"));
  EXPECT_THAT(svg, HasSubstr("class='limit'"));
}

TEST(LineChartTest, ALongLineGetsARunningMeanAndStaysSmall) {
  const std::string svg =
      line_chart({"loss", {"step"}, {"loss"}, {{"run", random_walk(100000, 1), 0}}});
  EXPECT_EQ(count_of(svg, "<path"), 2u);
  EXPECT_LT(svg.size(), 40000u);
}

TEST(LineChartTest, NanLeavesAGap) {
  const double nan = std::nan("");
  const std::string svg =
      line_chart({"loss", {"step"}, {"loss"}, {{"run", {{0, 1}, {1, nan}, {2, 3}, {3, 4}}, 0}}});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(count_of(svg, "M"), 2u);
  EXPECT_EQ(line_chart({"loss", {"step"}, {"loss"}, {{"run", {{0, nan}}, 0}}}), "");
  EXPECT_EQ(line_chart({"loss", {"step"}, {"loss"}, {}}), "");
  EXPECT_THAT(line_chart({"one", {"step"}, {"one"}, {{"run", {{5, 2}}, 0}}}), HasSubstr("<circle"));
}

TEST(LineChartTest, AxesAreLabelledWithQuantityAndUnit) {
  const std::string svg = line_chart(
      {"rate", {"batch size", "samples"}, {"rate", "samples/s"}, {{"run", {{1, 2}, {3, 4}}, 0}}});
  EXPECT_THAT(svg, HasSubstr(">batch size, samples<"));
  EXPECT_THAT(svg, HasSubstr(">rate, samples/s<"));
}

TEST(LineChartTest, ALogarithmicAxisSkipsValuesOfZeroOrLess) {
  LineChart chart{"time",
                  {"batch", "", AxisScale::kLog},
                  {"time", "s", AxisScale::kLog},
                  {{"run", {{1, 1e-5}, {10, 1e-3}, {100, 0}, {1000, 0.1}}, 0}}};
  const std::string svg = line_chart(chart);
  EXPECT_EQ(count_of(svg, "<circle"), 3u);
  for (const char* mark : {">100 us<", ">1 ms<", ">10 ms<", ">1000<"})
    EXPECT_THAT(svg, HasSubstr(mark));
  // Equal ratios are equal distances.
  chart.lines = {{"run", {{1, 1}, {10, 10}, {100, 100}}, 0}};
  EXPECT_THAT(line_chart(chart), HasSubstr("cx='252.0'"));
  EXPECT_THAT(
      line_chart(
          {"one", {"b", "", AxisScale::kLog}, {"t", "s", AxisScale::kLog}, {{"r", {{5, 2}}, 0}}}),
      HasSubstr("<circle"));
}

TEST(LineChartTest, ManyNamesOfPositionsAreThinnedOut) {
  LineChart chart{"trend", {"revision"}, {"auc"}, {{"run", {}, 0}}};
  for (int i = 0; i < 40; ++i) {
    chart.x.names.push_back("r" + std::to_string(1000 + i));
    chart.lines[0].points.emplace_back(i, i);
  }
  const std::string svg = line_chart(chart);
  EXPECT_LE(count_of(svg, ">r1"), 8u);
  EXPECT_THAT(svg, HasSubstr(">r1039<"));
}

TEST(HeatMapTest, TheBestCellHasAFrameAndMissingOnesAreSkipped) {
  HeatMap map{
      "m", "batch", "workers", "samples/s", {"1", "2"}, {"1", "2"}, {{1e6, 2e6}, {3e6, {}}}};
  const std::string svg = heat_map(map);
  EXPECT_EQ(count_of(svg, "<rect"), 3u);
  EXPECT_EQ(count_of(svg, "cell best"), 1u);
  EXPECT_THAT(svg, HasSubstr(">3.00 M<"));
  map.better = Better::kLower;
  EXPECT_THAT(heat_map(map), HasSubstr("cell best' x='33.9'"));
  map.values = {{std::nan(""), {}}, {{}, {}}};
  EXPECT_EQ(heat_map(map), "");
}

TEST(StackedBar, PartsFillTheirShareAndNeverOverflow) {
  const std::string bar = stacked_bar({{"load", 1, 0}, {"lookup", 3, 1}}, 8, "a step");
  EXPECT_THAT(bar, HasSubstr("x='0.00' width='125.00'"));
  EXPECT_THAT(bar, HasSubstr("x='125.00' width='375.00'"));
  const std::string over = stacked_bar({{"a", 9, 0}, {"b", 9, 1}}, 8, "t");
  EXPECT_THAT(over, HasSubstr("width='1000.00'"));
  EXPECT_EQ(count_of(over, "class='fill"), 1u);
  EXPECT_EQ(count_of(stacked_bar({{"a", std::nan(""), 0}, {"b", -1, 0}}, 8, "t"), "class='fill"),
            0u);
}

}  // namespace
}  // namespace emblem
