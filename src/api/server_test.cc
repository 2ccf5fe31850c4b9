#include "emblem/server.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <limits>
#include <thread>

#include "api/trained_test.h"
#include "core/files/file_descriptor.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"
#include "serve/http/client_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class PublicServer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    checkpoint_ = train_clicks(folder_->path("model"));
  }
  static void TearDownTestSuite() { delete folder_; }

  api::Model model() const { return api::Model(checkpoint_, {.threads = 1}); }
  std::string repository() const {
    model().export_to(models_.path("clicks"));
    return models_.path();
  }
  static TestResponse get(const api::Server& server, const std::string& target,
                          const std::string& headers = "") {
    TestClient client(static_cast<uint16_t>(server.http_port()));
    return client.get(target, headers);
  }

  static bool can_listen_on(int port, const std::string& models) {
    try {
      const api::Server server({.models = models, .http_port = port});
      EXPECT_EQ(server.http_port(), port);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
      return false;
    }
  }
  static bool has_ipv6() {
    const FileDescriptor made(::socket(AF_INET6, SOCK_STREAM, 0));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    return ::bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }

  static inline TempFolder* folder_ = nullptr;
  static inline std::string checkpoint_;
  TempFolder models_;
};

TEST_F(PublicServer, SeveralOfThemServeInOneProcess) {
  api::Server plain({.models = repository()});
  api::Server secret(model(), "clicks", {.address = "127.0.0.1", .health_port = 0, .token = "xyz"});
  EXPECT_EQ(plain.url(), "http://127.0.0.1:" + std::to_string(plain.http_port()));
  for (const api::Server* server : {&plain, &secret}) {
    EXPECT_TRUE(server->is_ready());
    ASSERT_EQ(server->models().size(), 1u);
    EXPECT_EQ(server->models()[0].name, "clicks");
    EXPECT_EQ(server->models()[0].state, "READY");
    EXPECT_EQ(get(*server, "/v2/health/ready").status, 200);
    EXPECT_GT(server->metrics_port(), 0);
  }
  EXPECT_NE(plain.http_port(), secret.http_port());
  EXPECT_EQ(plain.health_port(), 0);
  EXPECT_GT(secret.health_port(), 0);
  EXPECT_EQ(get(plain, "/v2/models/clicks").status, 200);
  EXPECT_EQ(get(secret, "/v2/models/clicks").status, 401);
  EXPECT_EQ(get(secret, "/v2/models/clicks", "Authorization: Bearer xyz\r\n").status, 200);
}

TEST_F(PublicServer, ReloadsWhatIsNewAndForgetsWhatIsGone) {
  api::Server server({.models = repository()});
  model().export_to(models_.path("clicks"));
  model().export_to(models_.path("more"));
  EXPECT_EQ(get(server, "/v2/models/more").status, 404);
  server.reload();
  EXPECT_EQ(get(server, "/v2/models/more").status, 200);
  EXPECT_EQ(server.models().size(), 2u);
  EXPECT_EQ(server.models()[0].version, "2");
  std::filesystem::remove_all(models_.path("more"));
  server.reload();
  EXPECT_NE(get(server, "/v2/models/more").status, 200);
  EXPECT_THAT([&] { server.unload("clicks"); }, ThrowsMessage<Error>(HasSubstr("explicit")));

  api::Server chosen({.models = models_.path(), .model_control_mode = "explicit"});
  chosen.reload();
  EXPECT_NE(get(chosen, "/v2/models/clicks").status, 200);  // nothing has asked for it
  chosen.load("clicks");
  EXPECT_EQ(get(chosen, "/v2/models/clicks").status, 200);
  chosen.unload("clicks");
  chosen.reload();
  EXPECT_NE(get(chosen, "/v2/models/clicks").status, 200);
  EXPECT_THAT([&] { chosen.load("nosuch"); }, testing::Throws<Error>());
}

TEST_F(PublicServer, DrainEndsItAndWait) {
  const std::string models = repository();
  bool is_port_free = false;
  // Between a drain and the next server another process may take the port, but not each time.
  for (int attempt = 0; attempt < 20 && !is_port_free; ++attempt) {
    api::Server server({.models = models});
    const int port = server.http_port();
    std::thread other([&] { server.drain(std::numeric_limits<double>::infinity()); });
    server.wait();
    other.join();
    server.drain();  // nothing is left to do
    EXPECT_FALSE(server.is_ready());
    EXPECT_THAT([&] { server.reload(); }, ThrowsMessage<Error>(HasSubstr("shutting down")));
    is_port_free = can_listen_on(port, models);
  }
  EXPECT_TRUE(is_port_free);
}

TEST_F(PublicServer, AnAddressOfIpv6IsInBracketsInTheUrl) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  const api::Server server({.models = repository(), .address = "::1"});
  EXPECT_EQ(server.url(), "http://[::1]:" + std::to_string(server.http_port()));
  EXPECT_EQ(server.address(), "::1");
}

TEST_F(PublicServer, WhatIsWrongIsSaidAtOnce) {
  const std::string models = repository();
  const auto expect = [](const api::ServerOptions& options, const char* message) {
    EXPECT_THAT([&] { api::Server server(options); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect({}, "--models is empty");
  expect({.models = models, .http_port = 70000}, "--http-port is 70000");
  expect({.models = models, .tls_certificate = "nosuch.pem", .tls_key = "nosuch.pem"},
         "nosuch.pem");
  expect({.models = models, .restricted_api = {"everything"}}, "everything");
  expect({.models = models, .model_control_mode = "sometimes"}, "none, poll or explicit");
  expect({.models = models, .load_model = {"clicks"}}, "--model-control-mode explicit");
  expect({.models = models, .device = "tpu"}, "expected cpu or cuda");
  expect({.models = models, .precision = "fp8"}, "expected fp32, bf16, fp16 or int8");
  expect({.models = models, .http_threads = 0}, "--http-threads");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect({.models = models, .grpc_threads = 100'000'000}, "--grpc-threads is 100000000");
  expect({.models = models, .health_port = -2}, "--health-port is -2");
  expect({.models = models, .repository_poll_secs = kInfinity}, "--repository-poll-secs is inf");
  expect({.models = models, .max_client_threads = -2}, "--max-client-threads is -2");
  expect({.models = models, .slo_p99_us = -1}, "--slo-p99-us is -1; expected 0 to 60000000");
  expect({.models = models, .idle_timeout = kInfinity}, "--idle-timeout is inf");
  expect({.models = models, .idle_timeout = std::nan("")}, "--idle-timeout is nan");
  expect({.models = models, .table_timeout_ms = 0}, "--table-timeout-ms is 0");
  expect({.models = models, .keep_version_secs = -1}, "--keep-version-secs is -1");
  expect({.models = models, .cache_size = -1}, "--cache-size is -1");
  expect({.models = models, .max_memory = 1000}, "--max-memory");
  expect({.models = models, .table_parts = "0-9", .table_servers = "a:1"}, "one of them");
  expect({.models = models + "/nosuch"}, "nosuch");
  const api::Server server({.models = models});
  expect({.models = models, .http_port = server.http_port()},
         std::to_string(server.http_port()).c_str());
  EXPECT_THAT([&] { api::Server two(model(), "clicks", {.models = models}); },
              ThrowsMessage<Error>(HasSubstr("one of them")));
  EXPECT_THAT([&] { api::Server odd(model(), "../x"); },
              ThrowsMessage<Error>(HasSubstr("not a valid name")));
}

}  // namespace
}  // namespace emblem
