#include "serve/http/status/metrics_text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "serve/http/client_test.h"
#include "serve/http/server.h"
#include "serve/http/status/status_page.h"
#include "serve/protocol/fake_service_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;

class BusyService : public FakeService {
 public:
  std::vector<ModelStatistics> statistics(const std::string&, const std::string&) const override {
    ModelStatistics one{.name = "a\"b\\c", .version = "3"};
    one.inference_count = 640;
    one.execution_count = 10;
    for (int i = 0; i < 20; ++i) {
      one.success.add(2'000'000);
      one.latency.add(2'000'000);
    }
    one.fail.count = 9;
    one.rejected = 4;
    one.cancelled = 2;
    one.pending = 5;
    one.by_batch[64].compute_infer.count = 10;
    return {one};
  }
  std::vector<RepositoryEntry> index() const override {
    return {{"a\"b\\c", "3", "READY", ""}, {"new", "1", "LOADING", "reading tables"}};
  }
  std::string extra_metrics() const override {
    return "# HELP emblem_cache_hit_rate x\n"
           "emblem_cache_hit_rate{model=\"m\",tier=\"dev\\\"ice\"} 0.75\n"
           "emblem_update_age_seconds 12.5";
  }
};

TEST(MetricsTextTest, HasTritonsNames) {
  const BusyService service;
  const std::string text = MetricsText(service).text();
  const std::string labels = R"({model="a\"b\\c",version="3")";
  for (const std::string& line :
       {"nv_inference_request_success" + labels + "} 20", "nv_inference_count" + labels + "} 640",
        "nv_inference_exec_count" + labels + "} 10",
        "nv_inference_request_failure" + labels + ",reason=\"REJECTED\"} 4",
        "nv_inference_request_failure" + labels + ",reason=\"CANCELED\"} 2",
        "nv_inference_request_failure" + labels + ",reason=\"OTHER\"} 3",
        "nv_inference_pending_request_count" + labels + "} 5",
        "nv_inference_request_duration_us" + labels + "} 40000",
        "nv_inference_request_summary_us_count" + labels + "} 20",
        std::string("emblem_cache_hit_rate{model=\"m\",tier=\"dev\\\"ice\"} 0.75")}) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
  for (const char* quantile : {"0.5", "0.9", "0.95", "0.99", "0.999"})
    EXPECT_THAT(text, HasSubstr("quantile=\"" + std::string(quantile) + "\"} "));
  EXPECT_THAT(text, HasSubstr("\nnv_cpu_utilization "));
  EXPECT_THAT(text, HasSubstr("\nnv_cpu_memory_total_bytes "));
  EXPECT_THAT(text, HasSubstr("\nnv_cpu_memory_used_bytes "));
}

TEST(MetricsTextTest, HasHistogramsOfLatencyAndBatchSize) {
  const BusyService service;  // 20 requests of 2 ms, 10 batches of 64 rows
  const std::string text = MetricsText(service).text();
  const std::string labels = R"({model="a\"b\\c",version="3")";
  for (const std::string& line :
       {"emblem_request_duration_seconds_bucket" + labels + R"(,le="0.001024"} 0)",
        "emblem_request_duration_seconds_bucket" + labels + R"(,le="0.002048"} 20)",
        "emblem_request_duration_seconds_bucket" + labels + R"(,le="16.7772"} 20)",
        "emblem_request_duration_seconds_bucket" + labels + R"(,le="+Inf"} 20)",
        "emblem_request_duration_seconds_sum" + labels + "} 0.04",
        "emblem_request_duration_seconds_count" + labels + "} 20",
        "emblem_batch_rows_bucket" + labels + R"(,le="32"} 0)",
        "emblem_batch_rows_bucket" + labels + R"(,le="64"} 10)",
        "emblem_batch_rows_bucket" + labels + R"(,le="+Inf"} 10)",
        "emblem_batch_rows_sum" + labels + "} 640", "emblem_batch_rows_count" + labels + "} 10"})
    EXPECT_THAT(text, HasSubstr(line + "\n"));
}

TEST(MetricsTextTest, EveryMetricIsDescribedOnceAndItsSamplesAreTogether) {
  const BusyService service;
  std::istringstream lines(MetricsText(service).text());
  std::set<std::string> described;
  std::string line, current;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string first, kind, name;
    words >> first >> kind >> name;
    if (first == "#" && kind == "HELP") {
      EXPECT_TRUE(described.insert(name).second) << name;
      current = name;
      ASSERT_TRUE(std::getline(lines, line));
      EXPECT_THAT(line, testing::StartsWith("# TYPE " + name + " "));
    } else {
      EXPECT_THAT(line, testing::StartsWith(current));
    }
  }
  EXPECT_TRUE(described.contains("emblem_update_age_seconds"));
}

TEST(MetricsTextTest, EveryLineIsOneThatPrometheusReads) {
  const BusyService service;
  std::istringstream lines(MetricsText(service).text());
  const std::regex sample(
      R"re([a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-z_]+="([^"\\]|\\.)*",?)*\})? [-+0-9.e]+)re");
  const std::regex comment(R"(# (HELP|TYPE) [a-z_]+ .+)");
  std::string line;
  while (std::getline(lines, line))
    EXPECT_TRUE(std::regex_match(line, line[0] == '#' ? comment : sample)) << line;
}

TEST(MetricsTextTest, HasAServerOfItsOwn) {
  const FakeService service;
  HttpServer server({{.address = "127.0.0.1", .threads = 1}}, make_metrics_handler(service));
  TestClient client(server.port());
  EXPECT_THAT(client.get("/metrics").body, HasSubstr("nv_inference_count"));
  EXPECT_EQ(client.get("/v2").status, 404);
  EXPECT_EQ(client.post("/metrics").status, 405);
}

TEST(MetricsTextTest, TheMachineUsesSomeMemoryAndAShareOfItsProcessors) {
  EXPECT_GT(used_memory_bytes(), 0);
  CpuUsage cpu;
  EXPECT_GE(cpu.share(), 0.0);
  EXPECT_LE(cpu.share(), 1.0);
}

TEST(StatusSourceTest, TellsWhatThePageShows) {
  const BusyService service;
  const auto status = nlohmann::json::parse(StatusSource(service).json());
  EXPECT_EQ(status["ready"], true);
  ASSERT_EQ(status["models"].size(), 2u);
  const auto& busy = status["models"][0];
  EXPECT_EQ(busy["name"], "a\"b\\c");
  EXPECT_EQ(busy["rows"], 640);
  EXPECT_EQ(busy["success"], 20);
  EXPECT_EQ(busy["batches"], nlohmann::json::parse("[[64,10]]"));
  EXPECT_EQ(busy["latency"], nlohmann::json::parse("[[43,20]]"));
  EXPECT_EQ(status["models"][1]["state"], "LOADING");
  EXPECT_EQ(status["models"][1]["reason"], "reading tables");
  EXPECT_EQ(
      status["metrics"],
      nlohmann::json::parse(
          R"([{"name":"emblem_cache_hit_rate","labels":{"model":"m","tier":"dev\"ice"},)"
          R"("value":"0.75"},{"name":"emblem_update_age_seconds","labels":{},"value":"12.5"}])"));
}

TEST(StatusPageTest, NeedsNothingFromElsewhere) {
  const std::string page(status_page());
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  const std::regex elsewhere(R"((src|href)\s*=\s*["']?(https?:)?//|@import|url\()");
  EXPECT_FALSE(std::regex_search(page, elsewhere));
}

}  // namespace
}  // namespace emblem
