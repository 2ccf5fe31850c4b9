// The load generator with both protocols of a server with a trivial model.
#include "bench/load/serve_bench.h"

#include <gmock/gmock.h>

#include <thread>

#include "serve/grpc/server.h"
#include "serve/http/routes.h"
#include "serve/http/server.h"
#include "serve/protocol/fake_service_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Answers every `period`-th request wrongly, if set, and refuses those after `full_after`.
class SometimesWrong : public FakeService {
 public:
  std::atomic<int> period = 0, full_after = 0;

  void infer(std::unique_ptr<InferRequest> request, InferDone done) override {
    const int number = ++count_;
    const bool spoil = period > 0 && number % period == 0;
    if (full_after > 0 && number > full_after) full = true;
    FakeService::infer(std::move(request), [spoil, done = std::move(done)](InferResult result) {
      if (spoil) {
        if (auto* response = std::get_if<InferResponse>(&result))
          response->outputs.at(0).data.at(0) ^= std::byte{1};
      }
      done(std::move(result));
    });
  }

 private:
  std::atomic<int> count_ = 0;
};

class ServeBench : public testing::TestWithParam<LoadProtocol> {
 protected:
  ServeBenchOptions options() const {
    ServeBenchOptions options;
    options.target.protocol = GetParam();
    options.target.url =
        cat("127.0.0.1:", GetParam() == LoadProtocol::kHttp ? http_.port() : grpc_.port());
    options.target.model = "sum";
    options.input.batch = 2;
    options.input.variety = 3;
    options.warmup = 0.05;
    options.requests = 60;
    return options;
  }

  static double metric(const BenchResult& result, const char* name) {
    const Measure* found = find_named(result.metrics, name);
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? -1 : found->value;
  }
  static std::vector<std::string> errors(const BenchResult& result) {
    return std::get<std::vector<std::string>>(*find_named(result.settings, "errors_by_kind"));
  }

  SometimesWrong service_;
  SharedMemoryRegions regions_{{.allowed_prefixes = {""}}};
  GrpcServer grpc_{{{.address = "127.0.0.1"}}, service_, regions_};
  const Access access_{{.allow_shared_memory = true}};
  HttpRoutes routes_{service_, regions_, access_};
  HttpServer http_{{{.address = "127.0.0.1"}}, [this](HttpRequest request, HttpReply reply) {
                     routes_.handle(std::move(request), std::move(reply));
                   }};
};

TEST_P(ServeBench, MeasuresClosedLoops) {
  ServeBenchOptions asked = options();
  asked.concurrency = {1, 3};
  const auto results = bench_serve(asked);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[1].name, AllOf(HasSubstr("sum-"), HasSubstr("-b2-c3")));
  for (const BenchResult& result : results) {
    const double rate = metric(result, "requests_per_second");
    EXPECT_GT(rate, 0);
    EXPECT_EQ(std::get<int64_t>(*find_named(result.settings, "requests")), asked.requests);
    EXPECT_DOUBLE_EQ(metric(result, "rows_per_second"), 2 * rate);
    EXPECT_GT(metric(result, "p50"), 0);
    EXPECT_LE(metric(result, "p50"), metric(result, "p99"));
    EXPECT_LE(metric(result, "p99"), metric(result, "max"));
    EXPECT_EQ(metric(result, "errors"), 0);
    // The fake server reports a microsecond for each part.
    ASSERT_EQ(result.stages.size(), 5u);
    EXPECT_DOUBLE_EQ(*find_named(result.stages, "queue"), 1e-6);
    EXPECT_DOUBLE_EQ(*find_named(result.stages, "compute infer"), 1e-6);
    EXPECT_GT(*find_named(result.stages, "outside"), 0);
  }
  EXPECT_NO_THROW(require_answers(results));
  const std::string report = serve_report(results, {});
  EXPECT_THAT(report, AllOf(HasSubstr("p99"), HasSubstr("queue 1 us"), HasSubstr(results[0].name)));
  EXPECT_EQ(parse_bench_results(to_json(results), "json").at(0), results[0]);
}

TEST_P(ServeBench, MeasuresOpenLoops) {
  ServeBenchOptions asked = options();
  asked.rates = {200};
  asked.arrivals = ArrivalKind::kConstant;
  asked.max_in_flight = 4;
  const auto results = bench_serve(asked);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_THAT(results[0].name, HasSubstr("-r200"));
  EXPECT_LE(metric(results[0], "requests_per_second"), 210);
  EXPECT_GE(metric(results[0], "send_lag_p99"), 0);
}

TEST_P(ServeBench, StopsWhenWindowsAgreeOrAtTheMaximum) {
  ServeBenchOptions asked = options();
  asked.requests = 0;
  asked.window = 0.1;
  asked.max_windows = 4;
  asked.stability = 1e-9;  // never reached
  const auto results = bench_serve(asked);
  EXPECT_EQ(std::get<int64_t>(*find_named(results[0].settings, "windows")), 4);
  EXPECT_FALSE(std::get<bool>(*find_named(results[0].settings, "stable")));
  EXPECT_GT(metric(results[0], "requests_per_second"), 0);
  EXPECT_THAT(serve_report(results, {}), HasSubstr("NOT STABLE"));
  asked.stability = 1000;  // reached by any three windows with answers
  asked.max_windows = 100;
  const auto stable = bench_serve(asked);
  EXPECT_LT(std::get<int64_t>(*find_named(stable[0].settings, "windows")), 100);
  EXPECT_TRUE(std::get<bool>(*find_named(stable[0].settings, "stable")));
}

TEST_P(ServeBench, SendsTensorsThroughSharedMemory) {
  ServeBenchOptions asked = options();
  asked.shared_memory = true;
  asked.concurrency = {2};
  const auto results = bench_serve(asked);
  EXPECT_EQ(errors(results[0]), std::vector<std::string>());
  EXPECT_THAT(results[0].name, HasSubstr("-shm-"));
  EXPECT_TRUE(regions_.system_status("").empty());
}

TEST_P(ServeBench, DetectsAnswersThatDiffer) {
  ServeBenchOptions asked = options();
  std::thread spoiler([&] {
    while (service_.statistics("sum", "1").at(0).inference_count < 20) std::this_thread::yield();
    service_.period = 10;
  });
  asked.requests = 500;
  const auto results = bench_serve(asked);
  spoiler.join();
  EXPECT_THAT(errors(results[0]).at(0), HasSubstr("wrong answer"));
  EXPECT_THAT([&] { require_answers(results); },
              testing::ThrowsMessage<Error>(HasSubstr("answers differ")));
}

TEST_P(ServeBench, CountsRefusalsByKind) {
  ServeBenchOptions asked = options();
  service_.full_after = 20;
  const auto results = bench_serve(asked);
  ASSERT_EQ(errors(results[0]).size(), 1u);
  EXPECT_THAT(errors(results[0])[0],
              HasSubstr(GetParam() == LoadProtocol::kHttp ? "HTTP 503" : "UNAVAILABLE"));
  asked.requests = 5;
  service_.full_after = 0;
  service_.full = false;
  BenchResult silent = bench_serve(asked).at(0);
  silent.metrics.at(0).second.value = 0;
  EXPECT_THAT([&] { require_answers({silent}); },
              testing::ThrowsMessage<Error>(HasSubstr("no request was answered")));
}

TEST_P(ServeBench, InvalidOptionsAreErrors) {
  const auto refusal = [](const ServeBenchOptions& options) -> std::string {
    try {
      bench_serve(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  ServeBenchOptions asked = options();
  asked.target.model = "absent";
  EXPECT_THAT(refusal(asked), HasSubstr("absent"));
  asked = options();
  asked.target.url = "127.0.0.1:1";
  asked.target.timeout_seconds = 2;
  EXPECT_THAT(refusal(asked), HasSubstr("127.0.0.1:1"));
  asked = options();
  asked.concurrency = {0};
  EXPECT_THAT(refusal(asked), HasSubstr("--concurrency must be"));
  asked = options();
  asked.seconds = 1;
  EXPECT_THAT(refusal(asked), HasSubstr("give one of them"));
  asked = options();
  asked.rates = {-1};
  EXPECT_THAT(refusal(asked), HasSubstr("--rate must be above 0"));
}

INSTANTIATE_TEST_SUITE_P(Protocols, ServeBench,
                         testing::Values(LoadProtocol::kHttp, LoadProtocol::kGrpc),
                         [](const auto& info) {
                           return info.param == LoadProtocol::kHttp ? "Http" : "Grpc";
                         });

}  // namespace
}  // namespace emblem
