#include "serve/http/message/rfc9112_cases_test.h"

#include <gmock/gmock.h>

#include <mutex>

#include "core/text/text.h"
#include "serve/http/client_test.h"
#include "serve/http/message/request_head.h"
#include "serve/http/server.h"

namespace emblem {
namespace {

class Rfc9112Test : public testing::TestWithParam<bool> {
 protected:
  Rfc9112Test()
      : server_(options(), [this](const HttpRequest& request, const HttpReply& reply) {
          {
            std::lock_guard lock(mutex_);
            targets_.push_back(request.target);
          }
          reply(json_response("{}"));
        }) {}

  static HttpServerOptions options() {
    HttpServerOptions options;
    options.address = "127.0.0.1";
    options.threads = 1;
    options.workers = 0;
    return options;
  }

  // The server may close before it has all.
  static void send(TestClient& client, const std::string& bytes) {
    if (!is_byte_by_byte()) {
      client.send(bytes);
      return;
    }
    for (const char c : bytes) {
      if (!client.send(std::string(1, c))) return;
    }
  }
  static bool is_byte_by_byte() { return GetParam(); }

  bool has_seen(const std::string& target) const {
    std::lock_guard lock(mutex_);
    return std::find(targets_.begin(), targets_.end(), target) != targets_.end();
  }

  mutable std::mutex mutex_;
  std::vector<std::string> targets_;
  HttpServer server_;
};

TEST_P(Rfc9112Test, EachRequestIsReadTheOneWayOrRefused) {
  for (const Rfc9112Case& one : rfc9112_cases()) {
    SCOPED_TRACE(one.name + ": " + printable(one.bytes));
    TestClient client(server_.port());
    send(client, one.bytes);
    for (const int status : one.statuses) EXPECT_EQ(client.receive().status, status);
    if (one.closes) {
      EXPECT_TRUE(client.is_closed_by_server());
    } else {
      // The next request is found where the last one ended.
      EXPECT_EQ(client.get("/after/" + one.name).status, 200);
      EXPECT_TRUE(has_seen("/after/" + one.name));
    }
    EXPECT_FALSE(has_seen("/smuggled"));
  }
}

INSTANTIATE_TEST_SUITE_P(, Rfc9112Test, testing::Bool(),
                         [](const auto& info) { return info.param ? "ByteByByte" : "AtOnce"; });

TEST(HttpRequestHeadTest, ReducesTheTargetToItsPath) {
  const auto target = [](const std::string& sent) {
    HttpRequestHead head;
    head.text = "GET " + sent + " HTTP/1.1\r\nHost: x\r\n\r\n";
    parse_request_head(head);
    return std::string(head.target);
  };
  EXPECT_EQ(target("/v2?x=/y"), "/v2?x=/y");
  EXPECT_EQ(target("http://host:8000/v2/health?x"), "/v2/health?x");
  EXPECT_EQ(target("https://[::1]/"), "/");
  EXPECT_EQ(target("http://host"), "/");
}

TEST(HttpRequestHeadTest, FindsHeadersInAnyCase) {
  HttpRequestHead head;
  head.text = "GET / HTTP/1.1\r\nHost: x\r\nX-Key:\t a b \r\nx-key: c\r\nEmpty:\r\n\r\n";
  parse_request_head(head);
  EXPECT_EQ(head.value("x-kEY"), "a b");
  EXPECT_EQ(head.value("Other"), "");
  EXPECT_NE(head.find("empty"), nullptr);
  EXPECT_EQ(head.find("other"), nullptr);
}

TEST(HttpRequestHeadTest, RefusesHeadersThatMayComeOnce) {
  for (const std::string name :
       {"Authorization", "Content-Encoding", "Inference-Header-Content-Length", "Expect"}) {
    HttpRequestHead head;
    head.text = "GET / HTTP/1.1\r\nHost: x\r\n" + name + ": 1\r\n" + name + ": 1\r\n\r\n";
    EXPECT_THAT([&] { parse_request_head(head); },
                testing::ThrowsMessage<Error>("the request has more than one " + name + " header"));
  }
}

}  // namespace
}  // namespace emblem
