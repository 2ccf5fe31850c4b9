#include "serve/http/routes.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/device/device.h"
#include "core/system/log.h"
#include "core/threads/becomes_true_test.h"
#include "serve/http/client_test.h"
#include "serve/http/server.h"
#include "serve/protocol/fake_service_test.h"
#include "serve/protocol/shared_object_test.h"

namespace emblem {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

// Remembers whether the last request was cancelled while it is held. Loading waits for `may_load`.
class WatchedService : public FakeService {
 public:
  std::atomic<bool> may_load = true;

  void load(const std::string& model,
            const std::map<std::string, std::string>& parameters) override {
    may_load.wait(false);
    FakeService::load(model, parameters);
  }
  void infer(std::unique_ptr<InferRequest> request, InferDone done) override {
    {
      std::lock_guard lock(mutex_);
      cancelled_ = request->cancelled;
    }
    FakeService::infer(std::move(request), std::move(done));
  }
  bool is_last_cancelled() const {
    std::lock_guard lock(mutex_);
    return *cancelled_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<std::atomic<bool>> cancelled_;
};

class HttpRoutesTest : public testing::Test {
 protected:
  static HttpServerOptions options() {
    HttpServerOptions options;
    options.address = "127.0.0.1";
    return options;
  }
  static std::string raw(std::initializer_list<float> numbers) {
    return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(float)};
  }
  // A request with input A of one row, binary, and its output binary too.
  TestResponse infer_binary(TestClient& client, std::initializer_list<float> row) {
    const std::string head =
        R"({"inputs":[{"name":"A","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}],)"
        R"("parameters":{"binary_data_output":true}})";
    return client.post("/v2/models/sum/infer", head + raw(row),
                       "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
  }

  WatchedService service_;
  SharedMemoryRegions regions_{{.allowed_prefixes = {""}}};
  const Access access_{{.allow_shared_memory = true}};
  HttpRoutes routes_{service_, regions_, access_};
  HttpServer server_{options(), [this](HttpRequest request, HttpReply reply) {
                       routes_.handle(std::move(request), std::move(reply));
                     }};
  TestClient client_{server_.port()};
};

constexpr const char* kJsonRequest =
    R"({"id":"42","inputs":[{"name":"A","shape":[2,4],"datatype":"FP32",)"
    R"("data":[[1,2,3,4],[0.5,0,0,0]]}]})";

TEST_F(HttpRoutesTest, DescribesServerAndModels) {
  const json server = json::parse(client_.get("/v2").body);
  EXPECT_EQ(server["name"], "emblem");
  EXPECT_THAT(server["extensions"], testing::Contains("statistics"));
  for (const char* path : {"/v2/models/sum", "/v2/models/sum/versions/1", "/v2/models/su%6D"}) {
    const json model = json::parse(client_.get(path).body);
    EXPECT_EQ(model["name"], "sum");
    EXPECT_EQ(model["versions"], json({"1", "2"}));
    EXPECT_EQ(model["inputs"][1], json({{"name", "B"}, {"datatype", "INT64"}, {"shape", {-1, 2}}}));
    EXPECT_EQ(model["outputs"].size(), 2u);
  }
  const json config = json::parse(client_.get("/v2/models/sum/versions/2/config").body);
  EXPECT_EQ(config["max_batch_size"], 64);
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_FP32");
  EXPECT_EQ(config["input"][0]["dims"], json({4}));  // numbers, although they have 64 bits
  EXPECT_EQ(config["platform"], "");
}

TEST_F(HttpRoutesTest, SaysWhatIsAliveAndReady) {
  // Triton's clients look at the status, KServe's at the JSON.
  EXPECT_EQ(client_.get("/v2/health/live").body, R"({"live":true})");
  EXPECT_EQ(client_.get("/v2/health/ready").body, R"({"ready":true})");
  EXPECT_EQ(client_.get("/v2/health/ready").status, 200);
  EXPECT_EQ(client_.get("/v2/models/sum/ready").body, R"({"name":"sum","ready":true})");
  EXPECT_EQ(client_.get("/v2/models/sum/versions/9/ready").status, 404);
  EXPECT_EQ(client_.get("/v2/models/none/ready").status, 404);
  service_.ready = false;
  EXPECT_EQ(client_.get("/v2/health/live").status, 200);
  EXPECT_EQ(client_.get("/v2/health/ready").status, 400);
}

TEST_F(HttpRoutesTest, InfersJson) {
  const TestResponse response = client_.post("/v2/models/sum/versions/1/infer", kJsonRequest);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, R"({"id":"42","model_name":"sum","model_version":"1","outputs":[)"
                           R"({"name":"SUM","datatype":"FP32","shape":[2,1],"data":[10,0.5]}]})");
  EXPECT_EQ(response.header("inference-header-content-length"), "");
}

TEST_F(HttpRoutesTest, InfersBinary) {
  const TestResponse response = infer_binary(client_, {1, 2, 3, 5});
  EXPECT_EQ(response.status, 200);
  const size_t head = std::stoul(response.header("inference-header-content-length"));
  EXPECT_EQ(response.body.substr(head), raw({11}));
  EXPECT_EQ(json::parse(response.body.substr(0, head))["outputs"][0]["parameters"],
            json({{"binary_data_size", 4}}));
  EXPECT_EQ(response.header("content-type"), "application/octet-stream");
}

TEST_F(HttpRoutesTest, PassesErrorsOfTheServiceOn) {
  EXPECT_EQ(client_.post("/v2/models/none/infer", kJsonRequest).status, 404);
  EXPECT_EQ(client_.post("/v2/models/none/infer", "{").status, 404);
  EXPECT_EQ(client_.post("/v2/models/sum/infer", "{").status, 400);
  EXPECT_EQ(client_.post("/v2/models/sum/infer", "").status, 400);
  const TestResponse wrong =
      client_.post("/v2/models/sum/infer",
                   R"({"inputs":[{"name":"Q","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(json::parse(wrong.body)["error"], "model sum has no input Q FP32 [1,4]");
  service_.full = true;
  const TestResponse full = client_.post("/v2/models/sum/infer", kJsonRequest);
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(json::parse(full.body)["error"], "Exceeds maximum queue size");
}

TEST_F(HttpRoutesTest, ErrorsAreJsonWhateverTheRequestHolds) {
  const TestResponse response = client_.post(
      "/v2/models/sum/infer", "{\"inputs\":[{\"name\":\"\xff\\\"\\n\",\"shape\":[1]}]}");
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(json::parse(response.body)["error"].get<std::string>(),
              HasSubstr("\xEF\xBF\xBD\"\n"));
}

TEST_F(HttpRoutesTest, AnswersFromOtherThreadsReachTheirConnections) {
  service_.hold = true;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(server_.port()));
    clients.back()->send(TestClient::text(
        "POST", "/v2/models/sum/infer",
        R"({"inputs":[{"name":"A","shape":[1,4],"datatype":"FP32","data":[0,0,0,)" +
            std::to_string(i) + "]}]}"));
  }
  EXPECT_TRUE(becomes_true([&] { return service_.held() == 20; }));
  service_.release();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(clients[static_cast<size_t>(i)]->receive().body,
                HasSubstr("\"data\":[" + std::to_string(i) + "]"));
  }
}

TEST_F(HttpRoutesTest, ADisconnectedClientsRequestIsCancelled) {
  service_.hold = true;
  {
    TestClient leaving(server_.port());
    leaving.send(TestClient::text("POST", "/v2/models/sum/infer", kJsonRequest));
    EXPECT_TRUE(becomes_true([&] { return service_.held() == 1; }));
    EXPECT_FALSE(service_.is_last_cancelled());
    leaving.reset();
  }
  EXPECT_TRUE(becomes_true([&] { return service_.is_last_cancelled(); }));
  service_.release();
  const json after = json::parse(client_.get("/v2/models/sum/versions/1/stats").body);
  EXPECT_EQ(after["model_stats"][0]["inference_count"], 0);
}

TEST_F(HttpRoutesTest, StatisticsHaveEveryFieldThatClientsRead) {
  client_.post("/v2/models/sum/infer", kJsonRequest);
  EXPECT_EQ(json::parse(client_.get("/v2/models/stats").body)["model_stats"].size(), 2u);
  EXPECT_EQ(json::parse(client_.get("/v2/models/sum/stats").body)["model_stats"].size(), 2u);
  const json all = json::parse(client_.get("/v2/models/sum/versions/2/stats").body);
  ASSERT_EQ(all["model_stats"].size(), 1u);
  const json one = all["model_stats"][0];
  EXPECT_EQ(one["name"], "sum");
  EXPECT_EQ(one["version"], "2");
  EXPECT_EQ(one["inference_count"], 1);
  EXPECT_EQ(one["execution_count"], 1);
  for (const char* name : {"success", "fail", "queue", "compute_input", "compute_infer",
                           "compute_output", "cache_hit", "cache_miss"}) {
    EXPECT_TRUE(one["inference_stats"][name]["count"].is_number_unsigned()) << name;
    EXPECT_TRUE(one["inference_stats"][name]["ns"].is_number_unsigned()) << name;
  }
  EXPECT_EQ(one["inference_stats"]["success"], json({{"count", 1}, {"ns", 4000}}));
  EXPECT_EQ(one["batch_stats"][0]["batch_size"], 1);
}

TEST_F(HttpRoutesTest, ManagesTheRepository) {
  EXPECT_EQ(json::parse(client_.post("/v2/repository/index").body).size(), 3u);
  EXPECT_EQ(json::parse(client_.post("/v2/repository/index", "{}").body)[2],
            json({{"name", "broken"},
                  {"version", "1"},
                  {"state", "UNAVAILABLE"},
                  {"reason", "no table"}}));
  EXPECT_EQ(json::parse(client_.post("/v2/repository/index", R"({"ready":true})").body).size(), 2u);
  EXPECT_EQ(
      client_.post("/v2/repository/models/sum/load", R"({"parameters":{"config":"{}","n":1}})")
          .status,
      200);
  EXPECT_EQ(
      client_
          .post("/v2/repository/models/sum/unload", R"({"parameters":{"unload_dependents":true}})")
          .status,
      200);
  EXPECT_EQ(service_.loads, 1);
  EXPECT_EQ(service_.unloads, 1);
  EXPECT_EQ(client_.post("/v2/repository/models/none/load").status, 404);
  EXPECT_EQ(client_.post("/v2/repository/models/sum/load", "{\"parameters\":7}").status, 400);
  EXPECT_EQ(client_.post("/v2/repository/mine/index").status, 501);
}

TEST_F(HttpRoutesTest, UnknownNamesInBodiesAndQueriesAreRefused) {
  const auto refused = [&](const std::string& path, const std::string& body) {
    const TestResponse response = client_.post(path, body);
    EXPECT_EQ(response.status, 400) << path << " " << body;
    return response.body;
  };
  EXPECT_THAT(refused("/v2/repository/index", R"({"redy":true})"),
              HasSubstr("member \\\"redy\\\" of the request is unknown; did you mean \\\"ready"));
  EXPECT_THAT(refused("/v2/repository/models/sum/load", R"({"config":"{}"})"),
              HasSubstr("is unknown (known: parameters)"));
  EXPECT_THAT(refused("/v2/repository/models/sum/unload", R"({"parameters":{"dependents":true}})"),
              HasSubstr("did you mean \\\"unload_dependents"));
  EXPECT_THAT(refused("/v2/systemsharedmemory/region/r/register", R"({"size":4096})"),
              HasSubstr("did you mean \\\"byte_size"));
  EXPECT_THAT(refused("/v2/models/sum/infer?top_k=3", R"({"inputs":[]})"),
              HasSubstr("parameter \\\"top_k\\\" of the query is unknown"));
  EXPECT_EQ(client_.get("/v2/models/sum/stats?version=2").status, 400);
  EXPECT_EQ(service_.loads + service_.unloads, 0);
  for (const char* path : {"/v2/health/ready?probe=1", "/metrics?format=text", "/?", "/v2?"})
    EXPECT_EQ(client_.get(path).status, 200) << path;
}

TEST_F(HttpRoutesTest, ChangesItemsOfAModel) {
  const std::string ids =
      R"({"inputs":[{"name":"ids","shape":[1],"datatype":"INT64","data":[7]}]})";
  const json put = json::parse(client_.post("/v2/models/sum/items", ids).body);
  EXPECT_EQ(put, json::parse(R"({"model_name":"sum","model_version":"2","change":1,"items":10})"));
  EXPECT_EQ(client_.post("/v2/models/sum/versions/2/items/remove", ids).status, 200);
  EXPECT_EQ(client_.post("/v2/models/sum/items/remove", ids).status, 200);
  const TestResponse empty = client_.post("/v2/models/sum/items", R"({"inputs":[]})");
  EXPECT_EQ(empty.status, 400);
  EXPECT_THAT(empty.body, HasSubstr("is missing"));
  EXPECT_EQ(client_.get("/v2/models/sum/items").status, 405);
  EXPECT_THAT(service_.changes(),
              testing::ElementsAre("put sum/ ids", "remove sum/2 ids", "remove sum/ ids"));
}

// With a control token, that of inference is not enough.
TEST(HttpRoutesAccess, ChangesOfItemsNeedWhatTheRepositoryNeeds) {
  FakeService service;
  SharedMemoryRegions regions{{}};
  const Access access({.inference_token = "ask", .control_token = "change"});
  const HttpRoutes routes(service, regions, access);
  for (const char* path : {"/v2/models/sum/items", "/v2/models/sum/versions/1/items/remove"}) {
    EXPECT_EQ(routes.authorize(path, {.authorization = "Bearer ask"})->status, 403) << path;
    EXPECT_FALSE(routes.authorize(path, {.authorization = "Bearer change"})) << path;
    EXPECT_TRUE(routes.takes_payload(path)) << path;
  }
}

TEST_F(HttpRoutesTest, AnswersOthersWhileAModelLoads) {
  service_.may_load = false;
  client_.send(TestClient::text("POST", "/v2/repository/models/sum/load"));
  for (int i = 0; i < 4; ++i) {  // on every thread of the server
    TestClient other(server_.port());
    EXPECT_EQ(infer_binary(other, {1, 2, 3, 4}).status, 200);
  }
  EXPECT_EQ(service_.loads, 0);
  service_.may_load = true;
  service_.may_load.notify_all();
  EXPECT_EQ(client_.receive().status, 200);
  EXPECT_EQ(service_.loads, 1);
}

TEST_F(HttpRoutesTest, UsesSharedMemoryForInputsAndOutputs) {
  SharedObject object(4096);
  const std::string row = raw({1, 2, 3, 4});
  std::memcpy(object.bytes().data(), row.data(), row.size());
  const std::string path = "/v2/systemsharedmemory";
  const std::string region = R"({"key":")" + object.key() + R"(","offset":0,"byte_size":4096})";
  EXPECT_EQ(client_.post(path + "/region/r/register", region).status, 200);
  EXPECT_EQ(client_.post(path + "/region/r/register", region).status, 400);
  EXPECT_EQ(json::parse(client_.get(path + "/region/r/status").body)[0]["byte_size"], 4096);
  EXPECT_EQ(client_.get(path + "/region/q/status").status, 404);
  const TestResponse response = client_.post(
      "/v2/models/sum/infer",
      R"({"inputs":[{"name":"A","shape":[1,4],"datatype":"FP32","parameters":)"
      R"({"shared_memory_region":"r","shared_memory_byte_size":16}}],"outputs":[{"name":"SUM",)"
      R"("parameters":{"shared_memory_region":"r","shared_memory_byte_size":4,)"
      R"("shared_memory_offset":64}}]})");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(json::parse(response.body)["outputs"][0],
            json({{"name", "SUM"}, {"datatype", "FP32"}, {"shape", {1, 1}}}));
  float sum = 0;
  std::memcpy(&sum, object.bytes().data() + 64, sizeof(sum));
  EXPECT_EQ(sum, 10);
  EXPECT_EQ(client_.post(path + "/region/r/unregister").status, 200);
  EXPECT_EQ(client_.post(path + "/unregister").status, 200);
  EXPECT_EQ(client_.get(path + "/status").body, "[]");
  EXPECT_EQ(client_.post(path + "/region/r/register", "{}").status, 400);
  EXPECT_EQ(
      client_.post(path + "/region/r/register", R"({"key":"/emblem_test_nothing","byte_size":8})")
          .status,
      400);
}

TEST_F(HttpRoutesTest, HasNoCudaRegionsYet) {
  EXPECT_EQ(client_.get("/v2/cudasharedmemory/status").body, "[]");
  EXPECT_EQ(client_.post("/v2/cudasharedmemory/unregister").status, 200);
  EXPECT_EQ(client_.post("/v2/cudasharedmemory/region/g/unregister").status, 200);
  EXPECT_EQ(client_.post("/v2/cudasharedmemory/region/g/register", "{}").status,
            kHasCuda ? 400 : 501);
}

TEST_F(HttpRoutesTest, TraceSettingsCanBeReadAndChanged) {
  const std::string server = "/v2/trace/setting", model = "/v2/models/sum/trace/setting";
  EXPECT_EQ(json::parse(client_.get(server).body),
            json::parse(R"({"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1",)"
                        R"("log_frequency":"0","trace_file":"","trace_mode":"triton"})"));
  EXPECT_EQ(client_.get("/v2/models/none/trace/setting").status, 404);
  const auto changed = [&](const std::string& path, const std::string& body) {
    return json::parse(client_.post(path, body).body);
  };
  EXPECT_EQ(changed(server, R"({"trace_level":["TIMESTAMPS"],"trace_rate":"5"})")["trace_rate"],
            "5");
  EXPECT_EQ(changed(model, R"({"trace_rate":"7"})")["trace_rate"], "7");
  EXPECT_EQ(changed(model, R"({"trace_rate":null})")["trace_rate"], "5");
  EXPECT_EQ(changed(model, "{}")["trace_level"], json({"TIMESTAMPS"}));
  EXPECT_EQ(changed(server, R"({"trace_file":"/tmp/x"})")["error"],
            "trace file location can not be updated through network protocol");
  EXPECT_EQ(changed(server, R"({"trace_rate":"often"})")["error"],
            "Unable to parse 'trace_rate', got: often");
}

TEST_F(HttpRoutesTest, LogSettingsCanBeReadAndChanged) {
  const std::string path = "/v2/logging";
  EXPECT_EQ(json::parse(client_.get(path).body),
            json::parse(R"({"log_file":"","log_info":true,"log_warning":true,"log_error":true,)"
                        R"("log_verbose_level":0,"log_format":"default"})"));
  const auto changed = [&](const std::string& body) {
    return json::parse(client_.post(path, body).body);
  };
  EXPECT_EQ(changed(R"({"log_verbose_level":1,"log_format":"ISO8601","log_info":null})"),
            json::parse(R"({"log_file":"","log_info":true,"log_warning":true,"log_error":true,)"
                        R"("log_verbose_level":1,"log_format":"ISO8601"})"));
  EXPECT_EQ(log_settings(), (LogSettings{.verbose_level = 1, .iso8601 = true}));
  set_log_settings({});
  EXPECT_EQ(changed(R"({"log_file":"x"})")["error"],
            "log file location can not be updated through network protocol");
  EXPECT_EQ(client_.post(path, R"({"log_file":"x"})").status, 501);
  EXPECT_EQ(client_.post(path, R"({"log_format":"loud"})").status, 400);
}

TEST_F(HttpRoutesTest, KnowsNoOtherPathsAndMethods) {
  for (const char* path : {"/v1", "/v2/modelz", "/v2/models", "/v2/models/sum/frobnicate",
                           "/v2/models/sum/versions", "/v2/repository", "/favicon.ico"}) {
    const TestResponse response = client_.get(path);
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_TRUE(json::parse(response.body).contains("error")) << path;
  }
  EXPECT_EQ(client_.get("/v2/models/sum/versions/one").status, 400);
  const TestResponse wrong = client_.get("/v2/models/sum/infer");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST");
  EXPECT_EQ(client_.post("/v2/health/live").header("allow"), "GET");
  EXPECT_EQ(client_.post("/v2/logging/x").status, 404);
  client_.send("BREW /v2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client_.receive().status, 405);
  client_.send("HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client_.receive(/*without_body=*/true).status, 200);
  client_.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client_.receive().status, 400);
}

TEST_F(HttpRoutesTest, RefusesPathTricks) {
  for (const char* path :
       {"/v2/models/../repository", "/v2/models/%2e%2e/config", "/v2/models/..%2f..%2fetc%2fpasswd",
        "/v2//models/sum", "/v2/models/sum/", "/v2/models/a%00b", "/v2/models/%zz"}) {
    EXPECT_EQ(client_.get(path).status, 400) << path;
  }
  EXPECT_EQ(client_
                .post("/v2/systemsharedmemory/region/r/register",
                      R"({"key":"/../../etc/passwd","byte_size":8})")
                .status,
            400);
}

TEST_F(HttpRoutesTest, OffersMetricsAndTheStatusPage) {
  const TestResponse metrics = client_.get("/metrics");
  EXPECT_THAT(metrics.body,
              HasSubstr("nv_inference_request_success{model=\"sum\",version=\"1\"} 0"));
  EXPECT_THAT(metrics.header("content-type"), HasSubstr("version=0.0.4"));
  const TestResponse page = client_.get("/");
  EXPECT_THAT(page.body, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(page.header("content-type"), HasSubstr("text/html"));
  EXPECT_THAT(page.header("content-security-policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(json::parse(client_.get("/status.json").body)["models"].size(), 3u);
}

TEST_F(HttpRoutesTest, TensorsOfManyRequestsAtOnceStayApart) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  constexpr int kThreads = 8, kRequests = 250;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestClient client(server_.port());
      for (int i = 0; i < kRequests; ++i) {
        const auto value = static_cast<float>(t * 10000 + i);
        const TestResponse response = infer_binary(client, {value, 1, 2, 3});
        right += response.status == 200 && response.body.ends_with(raw({value + 6}));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kRequests);
}

}  // namespace
}  // namespace emblem
