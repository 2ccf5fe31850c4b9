#include "serve/http/status/status_history.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/protocol/fake_service_test.h"

namespace emblem {
namespace {

class CountingService : public FakeService {
 public:
  std::vector<ModelStatistics> statistics(const std::string&, const std::string&) const override {
    const std::lock_guard lock(mutex);
    return models;
  }
  mutable std::mutex mutex;
  std::vector<ModelStatistics> models;
};

void answer(ModelStatistics& model, int requests, uint64_t ns) {
  for (int i = 0; i < requests; ++i) model.latency.add(ns);
}

// Times are far in the future: what the history's thread samples is not later.
constexpr double kStart = 1e12;

TEST(StatusHistoryTest, SamplesAreDifferences) {
  CountingService service;
  service.models = {{.name = "a", .version = "1"}, {.name = "b", .version = "1"}};
  StatusHistory history(service);
  history.sample(kStart);
  {
    const std::lock_guard lock(service.mutex);
    answer(service.models[0], 50, 1'000'000);
    answer(service.models[1], 50, 1'000'000);
    service.models[1].fail.count = 20;
  }
  history.sample(kStart + 10);
  {
    const std::lock_guard lock(service.mutex);
    service.models.pop_back();
    service.models.push_back({.name = "c", .version = "1"});
    answer(service.models[1], 30, 64'000'000);
  }
  history.sample(kStart + 20);
  history.sample(kStart + 30);
  auto samples = nlohmann::json::parse(history.json())["samples"];
  ASSERT_GE(samples.size(), 3u);
  samples.erase(samples.begin(), samples.end() - 3);
  EXPECT_EQ(samples[0][0], kStart + 10);
  EXPECT_EQ(samples[0][1], 10.0);
  EXPECT_NEAR(samples[0][2].get<double>(), 1000, 200);
  EXPECT_EQ(samples[0][4], 2.0);
  EXPECT_GT(samples[0][5], 0);
  EXPECT_EQ(samples[1][1], 3.0);
  EXPECT_NEAR(samples[1][3].get<double>(), 64000, 12000);
  EXPECT_EQ(samples[1][4], 0.0);
  EXPECT_EQ(samples[2][1], 0.0);
  EXPECT_EQ(samples[2][2], 0.0);
}

TEST(StatusHistoryTest, AnHourIsKept) {
  const CountingService service;
  StatusHistory history(service);
  for (int i = 0; i < 1000; ++i) history.sample(kStart + i * 10);
  const auto samples = nlohmann::json::parse(history.json())["samples"];
  EXPECT_EQ(samples.size(), 360u);
  EXPECT_EQ(samples.back()[0], kStart + 9990);
}

}  // namespace
}  // namespace emblem
