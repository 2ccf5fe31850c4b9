#include "bench/load/loop.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "bench/result/sample_statistics.h"

namespace emblem {
namespace {

using std::chrono::milliseconds;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pair;

TEST(LatencySummary, PercentilesAreValuesThatOccurred) {
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), 1.0);
  EXPECT_EQ(percentile(values, 0.5), 500);
  EXPECT_EQ(percentile(values, 0.99), 990);
  EXPECT_EQ(percentile(values, 0.999), 999);
  EXPECT_EQ(percentile(values, 1.0), 1000);
  EXPECT_EQ(percentile(std::vector<double>{7}, 0.01), 7);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

TEST(LatencySummary, TakesValuesInAnyOrder) {
  const LatencySummary summary = summarize({4, 1, 3, 2});
  EXPECT_EQ(summary.count, 4);
  EXPECT_EQ(summary.mean, 2.5);
  EXPECT_EQ(summary.p50, 2);
  EXPECT_EQ(summary.p90, 4);
  EXPECT_EQ(summary.max, 4);
  EXPECT_EQ(summarize({}).count, 0);
}

LoadWindow window_of(double seconds, int64_t count, double mean) {
  LoadWindow window{seconds, {}};
  window.latency.count = count;
  window.latency.mean = mean;
  return window;
}

TEST(LatencySummary, ThreeSimilarWindowsAreStable) {
  const LoadWindow slow = window_of(1, 50, 2), usual = window_of(1, 100, 1),
                   near = window_of(1, 95, 1.05), late = window_of(1, 100, 1.5);
  EXPECT_FALSE(is_stable(std::vector{usual, usual}, 3, 0.1));
  EXPECT_FALSE(is_stable(std::vector{slow, usual, usual}, 3, 0.1));
  EXPECT_TRUE(is_stable(std::vector{slow, usual, near, usual}, 3, 0.1));
  EXPECT_FALSE(is_stable(std::vector{usual, usual, late}, 3, 0.1));
  EXPECT_FALSE(
      is_stable(std::vector{window_of(1, 0, 0), window_of(1, 0, 0), window_of(1, 0, 0)}, 3, 0.1));
}

TEST(Arrivals, ConstantOnesAreEvenlySpaced) {
  Arrivals arrivals(100, ArrivalKind::kConstant, 1);
  EXPECT_EQ(arrivals.next(), 0.0);
  EXPECT_EQ(arrivals.next(), 0.01);
  for (int i = 2; i < 1000; ++i) arrivals.next();
  EXPECT_EQ(arrivals.next(), 10.0);
}

TEST(Arrivals, PoissonOnesHaveTheRateAndTheSpreadOfAPoissonProcess) {
  Arrivals arrivals(200, ArrivalKind::kPoisson, 5);
  double last = 0, sum = 0, squares = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double next = arrivals.next();
    ASSERT_GE(next, last);
    sum += next - last;
    squares += (next - last) * (next - last);
    last = next;
  }
  const double mean = sum / kCount;
  EXPECT_THAT(mean, DoubleNear(0.005, 0.0002));
  // The standard deviation of an exponential distribution is its mean.
  EXPECT_THAT(std::sqrt(squares / kCount - mean * mean), DoubleNear(0.005, 0.0002));
  Arrivals same(200, ArrivalKind::kPoisson, 5), other(200, ArrivalKind::kPoisson, 6);
  EXPECT_NE(same.next(), other.next());
}

LoadExchange exchange_that_takes(milliseconds time) {
  return [time](size_t) -> LoadOutcome {
    std::this_thread::sleep_for(time);
    return {LoadClock::now(), std::nullopt};
  };
}

TEST(LoadLoop, AClosedLoopKeepsWorkersBusyUntilItsNumberOfRequests) {
  LoadLoop loop({.most_requests = 21},
                {exchange_that_takes(milliseconds(5)), exchange_that_takes(milliseconds(5))}, 4);
  loop.wait_until(20);
  EXPECT_TRUE(loop.is_finished());
  const LoadTally tally = loop.tally(0, 100);
  EXPECT_EQ(tally.samples.size(), 21u);
  for (const LoadSample& sample : tally.samples) EXPECT_GE(sample.latency, 0.005);
  EXPECT_TRUE(tally.errors.empty());
}

TEST(LoadLoop, RequestsAreSentRoundRobin) {
  std::vector<size_t> seen;
  LoadLoop loop({.most_requests = 7}, {[&](size_t request) -> LoadOutcome {
                  seen.push_back(request);
                  return {LoadClock::now(), std::nullopt};
                }},
                3);
  loop.wait_until(20);
  loop.stop();
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST(LoadLoop, CountsErrorsByKindAndNotAmongTheLatencies) {
  int calls = 0;
  LoadLoop loop({.most_requests = 10}, {[&](size_t) -> LoadOutcome {
                  if (++calls % 5 == 0) return {LoadClock::now(), "HTTP 503"};
                  return {LoadClock::now(), std::nullopt};
                }},
                1);
  loop.wait_until(20);
  loop.stop();
  const LoadTally tally = loop.tally(0, 100);
  EXPECT_EQ(tally.samples.size(), 8u);
  EXPECT_THAT(tally.errors, ElementsAre(Pair("HTTP 503", 2)));
  EXPECT_TRUE(loop.tally(50, 100).samples.empty());
}

// A stall of 200 ms delays the 20 requests that are due during it. Measured from sending, only one
// would be slow; measured from when they were due, all are.
TEST(LoadLoop, AnOpenLoopMeasuresFromWhenRequestsWereDue) {
  int calls = 0;
  LoadLoop loop({.rate = 100, .arrivals = ArrivalKind::kConstant, .most_requests = 40},
                {[&](size_t) -> LoadOutcome {
                  if (calls++ == 5) std::this_thread::sleep_for(milliseconds(200));
                  return {LoadClock::now(), std::nullopt};
                }},
                1);
  loop.wait_until(20);
  loop.stop();
  const LoadTally tally = loop.tally(0, 100);
  ASSERT_EQ(tally.samples.size(), 40u);
  const auto waited = [&](double at_least) {
    return std::count_if(tally.samples.begin(), tally.samples.end(),
                         [&](const LoadSample& sample) { return sample.latency >= at_least; });
  };
  EXPECT_GE(waited(0.100), 10);
  EXPECT_GE(waited(0.010), 18);
  EXPECT_GE(tally.samples[6].send_lag, 0.15);
  EXPECT_GE(tally.samples[39].ended, 0.39);  // none was sent before it was due
}

}  // namespace
}  // namespace emblem
