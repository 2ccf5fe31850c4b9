// Clients that may use a path of the HTTP server.
#include <gmock/gmock.h>

#include "serve/http/client_test.h"
#include "serve/http/routes.h"
#include "serve/http/server.h"
#include "serve/http/status/metrics_text.h"
#include "serve/protocol/fake_service_test.h"
#include "serve/protocol/shared_object_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::Not;

class GuardedServer {
 public:
  explicit GuardedServer(const AccessOptions& options) : access_(options) {
    HttpServerOptions http;
    http.address = "127.0.0.1";
    http.threads = 1;
    http.authorize = [this](std::string_view target, const Caller& caller) {
      return routes_.authorize(target, caller);
    };
    server_ = std::make_unique<HttpServer>(http, [this](HttpRequest request, HttpReply reply) {
      routes_.handle(std::move(request), std::move(reply));
    });
  }

  TestResponse get(const std::string& target, const std::string& headers = "") const {
    return TestClient(server_->port()).get(target, headers);
  }
  TestResponse post(const std::string& target, const std::string& body = "",
                    const std::string& headers = "") const {
    return TestClient(server_->port()).post(target, body, headers);
  }

  FakeService service;

 private:
  const Access access_;
  SharedMemoryRegions regions_{{.allowed_prefixes = {""}}};
  HttpRoutes routes_{service, regions_, access_};
  std::unique_ptr<HttpServer> server_;
};

constexpr const char* kInference = "Authorization: Bearer abc\r\n";
constexpr const char* kControl = "Authorization: Bearer xyz\r\n";
constexpr const char* kRow =
    R"({"inputs":[{"name":"A","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";

TEST(HttpAccessTest, HealthAndTheEmptyPageAreOpenAndAllElseNeedsTheToken) {
  const GuardedServer server({.inference_token = "abc"});
  for (const char* path : {"/", "/?x", "/v2/health/live", "/v2/health/ready"})
    EXPECT_EQ(server.get(path).status, 200) << path;
  for (const char* path : {"/v2", "/v2/models/sum", "/v2/models/stats", "/metrics", "/status.json",
                           "/v2/logging", "/nothing", "/%76%32", "/v2/models/sum/config"}) {
    EXPECT_EQ(server.get(path).status, 401) << path;
    EXPECT_NE(server.get(path, kInference).status, 401) << path;
  }
  EXPECT_EQ(server.post("/v2/models/sum/infer", kRow).status, 401);
  EXPECT_EQ(server.post("/v2/models/sum/infer", kRow, kInference).status, 200);
}

TEST(HttpAccessTest, TheReadinessOfAModelIsOpenButNotItsReason) {
  const GuardedServer server({.inference_token = "abc"});
  EXPECT_EQ(server.get("/v2/models/sum/ready").status, 200);
  const TestResponse unknown = server.get("/v2/models/none/ready");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, R"({"error":"model none is not ready"})");
}

TEST(HttpAccessTest, TheInferenceTokenDoesNotControlTheServer) {
  GuardedServer server({.inference_token = "abc", .control_token = "xyz"});
  const std::string load = "/v2/repository/models/sum/load";
  EXPECT_EQ(server.post(load).status, 401);
  const TestResponse refused = server.post(load, "", kInference);
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("does not open model-repository"));
  EXPECT_EQ(server.service.loads, 0);
  EXPECT_EQ(server.post(load, "", kControl).status, 200);
  EXPECT_EQ(server.service.loads, 1);
  EXPECT_EQ(server.post("/v2/models/sum/infer", kRow, kControl).status, 200);
  EXPECT_EQ(server.get("/v2/models/sum/stats", kInference).status, 200);
}

TEST(HttpAccessTest, RestrictedApisNeedTheirHeader) {
  const GuardedServer server({.restricted = {parse_restricted_apis("metadata=Admin-Key=1")}});
  const TestResponse refused = server.get("/v2");
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("This API is restricted, expecting header 'admin-key'"));
  EXPECT_EQ(server.get("/v2", "admin-key: 1\r\n").status, 200);
  EXPECT_EQ(server.get("/v2/models/stats").status, 200);
}

TEST(HttpAccessTest, SharedMemoryIsOffUnlessItIsAllowed) {
  const SharedObject object(4096);
  const std::string region = R"({"key":")" + object.key() + R"(","byte_size":4096})";
  const std::string path = "/v2/systemsharedmemory/region/r/register";
  const std::string request =
      R"({"inputs":[{"name":"A","shape":[1,4],"datatype":"FP32","parameters":)"
      R"({"shared_memory_region":"r","shared_memory_byte_size":16}}]})";
  const GuardedServer off({});
  EXPECT_EQ(off.post(path, region).status, 403);
  EXPECT_THAT(off.post(path, region).body, HasSubstr("--allow-shared-memory"));
  EXPECT_EQ(off.get("/v2/systemsharedmemory/status").status, 403);
  EXPECT_EQ(off.post("/v2/models/sum/infer", request).status, 403);
  EXPECT_THAT(off.get("/v2").body, Not(HasSubstr("shared_memory")));
  const GuardedServer on({.allow_shared_memory = true});
  EXPECT_EQ(on.post(path, region).status, 200);
  EXPECT_EQ(on.post("/v2/models/sum/infer", request).status, 200);
  EXPECT_THAT(on.get("/v2").body, HasSubstr("system_shared_memory"));
}

// A request as the server hands it over when its client is on another machine.
TEST(HttpAccessTest, RemoteClientsMayNotUseRegions) {
  FakeService service;
  SharedMemoryRegions regions{{.allowed_prefixes = {""}}};
  const Access access({.allow_shared_memory = true});
  HttpRoutes routes(service, regions, access);
  const auto status = [&](const std::string& method, const std::string& target,
                          const std::string& body, bool is_local) {
    HttpRequest request;
    request.method = method;
    request.target = target;
    request.body = std::as_bytes(std::span(body));
    request.is_local = is_local;
    int answered = 0;
    routes.handle(std::move(request), [&](HttpResponse response) {
      if (response.deferred) response = response.deferred();
      answered = response.status;
    });
    return answered;
  };
  EXPECT_EQ(status("GET", "/v2/systemsharedmemory/status", "", true), 200);
  EXPECT_EQ(status("GET", "/v2/systemsharedmemory/status", "", false), 403);
  const std::string request =
      R"({"inputs":[{"name":"A","shape":[1,4],"datatype":"FP32","parameters":)"
      R"({"shared_memory_region":"r","shared_memory_byte_size":16}}]})";
  EXPECT_EQ(status("POST", "/v2/models/sum/infer", request, true), 400);  // no such region
  EXPECT_EQ(status("POST", "/v2/models/sum/infer", request, false), 403);
}

}  // namespace
}  // namespace emblem
