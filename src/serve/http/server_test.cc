#include "serve/http/server.h"

#include <gmock/gmock.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "core/threads/becomes_true_test.h"
#include "serve/http/client_test.h"
#include "serve/http/compress_test.h"
#include "serve/http/echo_server_test.h"
#include "serve/http/status/test_clock_test.h"

namespace emblem {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(HttpServerTest, AnswersManyRequestsOverOneConnection) {
  EchoServer server;
  TestClient client(server.port());
  for (int i = 0; i < 100; ++i) {
    const TestResponse response = client.post("/a?b=" + std::to_string(i), "body");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST /a?b=" + std::to_string(i) + " body");
    EXPECT_EQ(response.header("connection"), "keep-alive");
    EXPECT_EQ(response.header("content-type"), "text/plain");
  }
  EXPECT_EQ(server->connections(), 1u);
}

TEST(HttpServerTest, AHandlerThatThrowsIsAnsweredAndTheServerGoesOn) {
  HttpServerOptions options;
  options.address = "127.0.0.1";
  const HttpServer server(options, [](const HttpRequest& request, const HttpReply& reply) {
    if (request.target == "/error") throw Error(ErrorCode::kNotFound, "nothing here");
    if (request.target == "/runtime_error") throw std::runtime_error("the handler broke");
    if (request.target == "/bad_alloc") throw std::bad_alloc();
    if (request.target == "/int") throw 7;
    HttpResponse response;
    if (request.target == "/deferred")
      response.deferred = []() -> HttpResponse { throw std::runtime_error("too late"); };
    reply(response);
  });
  TestClient client(server.port());
  EXPECT_EQ(client.get("/error").status, 404);
  EXPECT_EQ(client.get("/runtime_error").body, R"({"error":"the handler broke"})");
  EXPECT_EQ(client.get("/bad_alloc").status, 503);
  EXPECT_EQ(client.get("/int").status, 500);
  EXPECT_EQ(client.get("/").status, 200);
  EXPECT_EQ(client.get("/deferred").status, 0);  // nothing can be said any more: it is closed
  EXPECT_EQ(TestClient(server.port()).get("/").status, 200);
  EXPECT_TRUE(becomes_true([&] { return server.connections() == 0; }));
}

TEST(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  EchoServer server;
  TestClient client(server.port());
  std::string all;
  for (int i = 0; i < 50; ++i)
    all.append(TestClient::text("POST", i % 5 == 0 ? "/hold" : "/x", std::to_string(i)));
  client.send(all);
  for (int i = 0; i < 50; ++i) {
    if (i % 5 == 0) {
      server.wait_for_held(1);
      server.release();
    }
    EXPECT_THAT(client.receive().body, HasSubstr(cat(" ", i)));
  }
}

TEST(HttpServerTest, TakesRequestsByteByByte) {
  EchoServer server;
  TestClient client(server.port());
  for (const char c : TestClient::text("POST", "/slow", "hello")) {
    ASSERT_TRUE(client.send(std::string(1, c)));
  }
  EXPECT_EQ(client.receive().body, "POST /slow hello");
}

TEST(HttpServerTest, TakesChunkedBodies) {
  EchoServer server;
  TestClient client(server.port());
  const std::string head = "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  client.send(head + "4\r\nwiki\r\n5;x=y\r\npedia\r\n0\r\nTrailer: 1\r\n\r\n");
  EXPECT_EQ(client.receive().body, "POST /c wikipedia");
  client.send(head + "0\r\n\r\n");
  EXPECT_EQ(client.receive().body, "POST /c ");
  client.send(head + "zz\r\n");
  EXPECT_EQ(client.receive().status, 400);
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST(HttpServerTest, KeepsTheLimitOfBodiesHoweverTheyCome) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  EchoServer server(options);
  const auto sent = [&](const std::string& bytes) {
    TestClient client(server.port());
    client.send(bytes);
    return client.receive();
  };
  EXPECT_EQ(sent(TestClient::text("POST", "/", std::string(1000, 'x'))).status, 200);
  EXPECT_EQ(sent(TestClient::text("POST", "/", std::string(1001, 'x'))).status, 413);
  EXPECT_EQ(
      sent("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n").status,
      413);
  EXPECT_EQ(sent("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                 std::string(1001, 'x') + "\r\n0\r\n\r\n")
                .status,
            413);
  EXPECT_EQ(
      sent("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")
          .status,
      413);
  const TestResponse refused = sent(TestClient::text("POST", "/", std::string(500000, 'x')));
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.body, R"({"error":"the body has more than 1000 bytes"})");
  EXPECT_EQ(refused.header("connection"), "close");
}

TEST(HttpServerTest, ExpandsCompressedBodiesUpToTheLimit) {
  HttpServerOptions options;
  options.max_body_bytes = 100'000;
  EchoServer server(options);
  TestClient client(server.port());
  for (const auto encoding : {ContentEncoding::kGzip, ContentEncoding::kDeflate}) {
    const std::string header = std::string("Content-Encoding: ") + name_of(encoding) + "\r\n";
    EXPECT_EQ(client.post("/z", compressed("text", encoding), header).body, "POST /z text");
    EXPECT_EQ(client.post("/z", "no such thing", header).status, 400);
    TestClient bomber(server.port());
    EXPECT_EQ(bomber.post("/z", compressed(std::string(50'000'000, 'a'), encoding), header).status,
              413);
  }
  EXPECT_EQ(client.post("/z", "x", "Content-Encoding: br\r\n").status, 415);
}

TEST(HttpServerTest, CompressesResponsesWhereTheClientExpectsThat) {
  EchoServer server;
  TestClient client(server.port());
  const std::string text(5000, 'a');
  const TestResponse response = client.post("/z", text, "Accept-Encoding: gzip, deflate\r\n");
  EXPECT_EQ(response.header("content-encoding"), "gzip");
  EXPECT_TRUE(text_of(expanded(response.body, ContentEncoding::kGzip, 10000)->bytes) ==
              "POST /z " + text);
  EXPECT_EQ(client.post("/z", text).header("content-encoding"), "");
  // What clients do not expect compressed.
  EXPECT_EQ(client.post("/y", text, "Accept-Encoding: gzip\r\n").header("content-encoding"), "");
  EXPECT_EQ(client.post("/z", "short", "Accept-Encoding: gzip\r\n").header("content-encoding"), "");
}

TEST(HttpServerTest, InvitesBodiesThatWaitForIt) {
  EchoServer server;
  TestClient client(server.port());
  client.send("POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  client.send("body");
  EXPECT_EQ(client.receive().body, "POST /e body");
  client.send(
      "POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(client.receive().status, 413);
  TestClient other(server.port());
  EXPECT_EQ(other.post("/e", "", "Expect: miracles\r\n").status, 417);
}

TEST(HttpServerTest, AnswersHeadWithoutABody) {
  EchoServer server;
  TestClient client(server.port());
  client.send("HEAD /h HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n");
  const TestResponse head = client.receive(/*without_body=*/true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "7");
  EXPECT_EQ(client.receive().body, "GET /next ");
}

TEST(HttpServerTest, ClosesWhenTheClientAsksForIt) {
  EchoServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.get("/", "Connection: close\r\n").header("connection"), "close");
  EXPECT_TRUE(client.is_closed_by_server());
  TestClient old(server.port());
  old.send("GET /old HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive().body, "GET /old ");
  EXPECT_TRUE(old.is_closed_by_server());
}

TEST(HttpServerTest, RefusesMalformedHttpAndCloses) {
  EchoServer server;
  for (const std::string& bad :
       {std::string("\0\1\2\3\r\n\r\n", 8), std::string("hello\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string("GET  / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nbad header\r\n\r\n"), std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"),
        std::string(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy"),
        std::string("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
                    "chunked\r\n\r\n0\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 1x\r\n"
                    "Content-Length: 0\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS hello\r\n\r\n")}) {
    TestClient client(server.port());
    client.send(bad);
    const TestResponse response = client.receive();
    EXPECT_EQ(response.status, 400) << bad;
    EXPECT_THAT(response.body, testing::StartsWith("{\"error\":\"")) << bad;
    EXPECT_TRUE(client.is_closed_by_server()) << bad;
  }
  TestClient client(server.port());
  EXPECT_EQ(client.get("/").status, 200);
}

TEST(HttpServerTest, RefusesHugeHeaders) {
  HttpServerOptions options;
  options.max_header_bytes = 4096;
  EchoServer server(options);
  TestClient fits(server.port());
  EXPECT_EQ(fits.get("/", "X: " + std::string(3000, 'x') + "\r\n").status, 200);
  for (const std::string& huge :
       {"GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n",
        "GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\n" + [] {
          std::string many;
          for (int i = 0; i < 10000; ++i) many += "A: b\r\n";
          return many;
        }()}) {
    TestClient client(server.port());
    client.send(huge);
    EXPECT_EQ(client.receive().status, 431);
  }
}

TEST(HttpServerTest, CutsOffClientsThatTrickle) {
  TestClock clock;
  EchoServer server(timed(clock, 24h, 100ms));
  for (const char* part :
       {"GET / HT", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\nab"}) {
    TestClient client(server.port());
    client.send(part);
    std::atomic<bool> answered = false;
    std::thread trickle([&] {
      while (!answered) {
        client.send("x");
        clock.advance(10ms);
        std::this_thread::sleep_for(5ms);  // time that the server does not see
      }
    });
    EXPECT_EQ(client.receive().status, 408) << part;
    answered = true;
    trickle.join();
  }
}

TEST(HttpServerTest, ClosesIdleConnections) {
  TestClock clock;
  EchoServer server(timed(clock, 100ms, 100ms));
  TestClient silent(server.port()), once(server.port());
  EXPECT_EQ(once.get("/").status, 200);
  EXPECT_TRUE(clock.advance_during([&] { return silent.is_closed_by_server(); }));
  EXPECT_TRUE(clock.advance_during([&] { return once.is_closed_by_server(); }));
}

TEST(HttpServerTest, HasNoTimeoutForAnswers) {
  TestClock clock;
  EchoServer server(timed(clock, 100ms, 100ms));
  TestClient client(server.port()), idle(server.port());
  client.send(TestClient::text("POST", "/hold", "x"));
  server.wait_for_held(1);
  // When this one is closed, the server has looked at all.
  EXPECT_TRUE(clock.advance_during([&] { return idle.is_closed_by_server(); }));
  server.release();
  EXPECT_EQ(client.receive().status, 200);
}

TEST(HttpServerTest, RefusesConnectionsAboveItsLimitWhileNoneIsIdle) {
  HttpServerOptions options;
  options.max_connections = 3;
  EchoServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->send(TestClient::text("POST", "/hold"));
  }
  server.wait_for_held(3);
  TestClient late(server.port());
  const TestResponse refused = late.get("/");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("3 connections"));
  EXPECT_TRUE(late.is_closed_by_server());
  clients.back()->reset();
  EXPECT_TRUE(becomes_true([&] { return TestClient(server.port()).get("/").status == 200; }));
}

TEST(HttpServerTest, ANewConnectionTakesThePlaceOfTheOneThatIsIdleTheLongest) {
  HttpServerOptions options;
  options.max_connections = 3;
  options.threads = 1;
  EchoServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    EXPECT_EQ(clients.back()->get("/").status, 200);
  }
  EXPECT_EQ(clients[0]->get("/").status, 200);  // now clients[1] is idle the longest
  TestClient late(server.port());
  EXPECT_EQ(late.get("/").status, 200);
  EXPECT_TRUE(clients[1]->is_closed_by_server());
  EXPECT_EQ(clients[0]->get("/").status, 200);
  EXPECT_EQ(clients[2]->get("/").status, 200);
}

TEST(HttpServerTest, AStalledBodyGivesWayAfterConnectionsWithoutARequest) {
  TestClock clock;  // stands still
  HttpServerOptions options = timed(clock, 1h, 1h);
  options.max_connections = 4;
  EchoServer server(options);
  std::vector<std::unique_ptr<TestClient>> stalled, late;
  for (int i = 0; i < 3; ++i) {
    stalled.push_back(std::make_unique<TestClient>(server.port()));
    stalled.back()->send("POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                         "Content-Length: 100\r\n\r\n");
    EXPECT_EQ(stalled.back()->receive().status, 100) << "the server waits for the body";
  }
  TestClient idle(server.port());
  EXPECT_EQ(idle.get("/").status, 200);
  const auto come = [&] {
    late.push_back(std::make_unique<TestClient>(server.port()));
    late.back()->send(TestClient::text("POST", "/hold", "new"));
    server.wait_for_held(late.size());
  };
  come();
  EXPECT_TRUE(idle.is_closed_by_server());
  for (int i = 0; i < 3; ++i) come();
  for (const auto& client : stalled) EXPECT_TRUE(client->is_closed_by_server());
  EXPECT_EQ(TestClient(server.port()).get("/").status, 503) << "requests that run are not cut off";
  server.release();
  for (const auto& client : late) EXPECT_EQ(client->receive().status, 200);
}

TEST(HttpServerTest, DrainingFinishesWhatRunsAndClosesTheRest) {
  EchoServer server;
  TestClient idle(server.port()), busy(server.port());
  EXPECT_EQ(idle.get("/").status, 200);
  busy.send(TestClient::text("POST", "/hold", "last"));
  server.wait_for_held(1);
  std::thread draining([&] { server->drain(1h); });
  EXPECT_TRUE(idle.is_closed_by_server());
  EXPECT_TRUE(becomes_true([&] { return !TestClient(server.port()).is_connected(); }));
  server.release();
  const TestResponse response = busy.receive();
  EXPECT_EQ(response.body, "POST /hold last");
  EXPECT_EQ(response.header("connection"), "close");
  draining.join();
  EXPECT_EQ(server->connections(), 0u);
}

TEST(HttpServerTest, AnIdleClientGetsOneMoreAnswerWhileTheServerDrains) {
  TestClock clock;
  EchoServer server(timed(clock, 1h, 1h));
  TestClient idle(server.port()), busy(server.port()), silent(server.port());
  EXPECT_EQ(idle.get("/").status, 200);
  EXPECT_EQ(silent.get("/").status, 200);
  busy.send(TestClient::text("POST", "/hold", "last"));
  server.wait_for_held(1);
  std::thread draining([&] { server->drain(1h); });
  // The server no longer accepts: it has begun to drain.
  EXPECT_TRUE(becomes_true([&] { return !TestClient(server.port()).is_connected(); }));
  const TestResponse last = idle.get("/again");
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(clock.advance_during([&] { return idle.is_closed_by_server(); }));
  EXPECT_TRUE(clock.advance_during([&] { return silent.is_closed_by_server(); }));
  server.release();
  EXPECT_EQ(busy.receive().body, "POST /hold last");
  clock.advance_during([&] {
    draining.join();
    return true;
  });
}

TEST(HttpServerTest, DrainingCutsOffWhatTakesTooLong) {
  EchoServer server;
  TestClient client(server.port());
  client.send(TestClient::text("POST", "/hold"));
  server.wait_for_held(1);
  server->drain(50ms);
  EXPECT_TRUE(client.is_closed_by_server());
  EXPECT_TRUE(server.first_is_cancelled());
  server.destroy();
  server.release();  // into nothing
}

TEST(HttpServerTest, RefusesBeforeItReadsTheBody) {
  HttpServerOptions options;
  options.authorize = [](std::string_view target,
                         const Caller& caller) -> std::optional<HttpResponse> {
    if (target == "/v2" && caller.authorization == "Bearer s3cret" && caller.is_local &&
        caller.header("x-key") == "1")
      return std::nullopt;
    return error_response(Error(ErrorCode::kUnauthenticated, "who are you?"));
  };
  EchoServer server(options);
  TestClient stranger(server.port());
  stranger.send("POST /v2 HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n");
  const TestResponse refused = stranger.receive();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  EXPECT_THAT(refused.body, HasSubstr("who are you?"));
  TestClient client(server.port());
  EXPECT_EQ(client.get("/v2", "Authorization: Bearer s3cret\r\nX-Key: 1\r\n").status, 200);
  EXPECT_EQ(client.get("/v2", "Authorization: Bearer s3cret\r\n").status, 401);
}

TEST(HttpServerTest, PathsWithoutAPayloadTakeSmallBodiesAlone) {
  HttpServerOptions options;
  options.takes_payload = [](std::string_view target) { return target == "/infer"; };
  EchoServer server(options);
  const std::string fits(kSmallBodyBytes, 'x'), large(kSmallBodyBytes + 1, 'x');
  EXPECT_EQ(TestClient(server.port()).post("/small", fits).status, 200);
  EXPECT_EQ(TestClient(server.port()).post("/infer", large).status, 200);
  const TestResponse refused = TestClient(server.port()).post("/small", large);
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, HasSubstr("8192"));
  TestClient chunked(server.port());
  chunked.send("POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n");
  EXPECT_EQ(chunked.receive().status, 413);
}

TEST(HttpServerTest, RefusesOptionsThatCannotBe) {
  const auto refused = [](HttpServerOptions options, const char* why) {
    EXPECT_THAT([&] { HttpServer(options, [](HttpRequest, const HttpReply&) {}); },
                testing::ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({{.threads = 0}}, "at least one thread");
  refused({{.tls_certificate = "x"}}, "both a certificate and its key");
  refused({{.tls_certificate = "/no/such", .tls_key = "/no/such"}}, "cannot read /no/such");
  refused({{.address = "300.1.1.1"}}, "cannot listen on 300.1.1.1");
  EchoServer server;
  refused({{.address = "127.0.0.1", .port = server.port()}}, "cannot listen on 127.0.0.1 port");
}

TEST(HttpServerTest, LargeBodiesTravelWhole) {
  EchoServer server;
  TestClient client(server.port());
  std::string body(30'000'000, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761u >> 24);
  std::thread sending([&] { client.send(TestClient::text("POST", "/big", body)); });
  const TestResponse response = client.receive();
  sending.join();
  EXPECT_TRUE(response.body == "POST /big " + body);
}

TEST(HttpServerTest, ServesThousandsOfRequestsOverManyConnections) {
  EchoServer server;
  constexpr int kThreads = 4, kConnections = 32, kRounds = 20;
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  std::atomic<bool> done = false;
  std::thread releasing([&] {
    while (!done) {
      server.release();
      std::this_thread::sleep_for(1ms);
    }
  });
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::unique_ptr<TestClient>> clients;
      for (int i = 0; i < kConnections; ++i)
        clients.push_back(std::make_unique<TestClient>(server.port()));
      for (int round = 0; round < kRounds; ++round) {
        const auto target = [&](int i) { return (i + round) % 3 == 0 ? "/hold" : "/now"; };
        const auto body = [&](int i) { return std::to_string((t * 1000 + i) * 1000 + round); };
        for (int i = 0; i < kConnections; ++i)
          clients[static_cast<size_t>(i)]->send(TestClient::text("POST", target(i), body(i)));
        for (int i = 0; i < kConnections; ++i) {
          const TestResponse response = clients[static_cast<size_t>(i)]->receive();
          right += response.body == std::string("POST ") + target(i) + " " + body(i);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  done = true;
  releasing.join();
  EXPECT_EQ(right, kThreads * kConnections * kRounds);
}

}  // namespace
}  // namespace emblem
