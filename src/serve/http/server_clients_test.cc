// How an HttpServer treats clients that stall, leave, or send what takes long.
#include <gmock/gmock.h>

#include <latch>
#include <map>
#include <thread>

#include "serve/http/client_test.h"
#include "serve/http/compress_test.h"
#include "serve/http/echo_server_test.h"

namespace emblem {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string announced(size_t bytes, const std::string& headers = "") {
  return "POST /x HTTP/1.1\r\nHost: x\r\n" + headers + "Content-Length: " + std::to_string(bytes) +
         "\r\n\r\n";
}

// ---- clients that leave ----

TEST(HttpClientsTest, AClientThatClosesItsSendingSideGetsItsAnswers) {
  HttpServerOptions options;
  options.threads = 1;
  EchoServer server(options);
  for (const std::string version : {"1.1", "1.0"}) {
    TestClient client(server.port()), other(server.port());
    client.send("POST /hold HTTP/" + version + "\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    client.half_close();
    server.wait_for_held(1);
    EXPECT_EQ(other.get("/").status, 200);  // by now the server has seen the end of the other
    EXPECT_FALSE(server.first_is_cancelled());
    server.release();
    const TestResponse response = client.receive();
    EXPECT_EQ(response.body, "POST /hold hi");
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(client.is_closed_by_server());
  }
}

TEST(HttpClientsTest, PipelinedRequestsBeforeTheEndAreAllAnswered) {
  EchoServer server;
  TestClient client(server.port());
  client.send(TestClient::text("POST", "/a", "1") + TestClient::text("POST", "/hold", "2") +
              TestClient::text("POST", "/c", "3") + "GET /cut off");
  client.half_close();
  EXPECT_EQ(client.receive().body, "POST /a 1");
  server.wait_for_held(1);
  server.release();
  EXPECT_EQ(client.receive().body, "POST /hold 2");
  EXPECT_EQ(client.receive().body, "POST /c 3");
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST(HttpClientsTest, TheRequestOfAClientThatResetsItsConnectionIsCancelled) {
  for (const std::string more : {"", "half close", "pipelined"}) {
    EchoServer server;
    TestClient client(server.port());
    client.send(TestClient::text("POST", "/hold"));
    if (more == "pipelined") client.send(TestClient::text("POST", "/next"));
    if (more == "half close") client.half_close();
    server.wait_for_held(1);
    EXPECT_FALSE(server.first_is_cancelled());
    client.reset();
    EXPECT_TRUE(becomes_true([&] { return server.first_is_cancelled(); })) << more;
    EXPECT_TRUE(becomes_true([&] { return server->connections() == 0; })) << more;
    server.release();
    EXPECT_EQ(TestClient(server.port()).get("/").status, 200);
  }
}

// ---- clients that stall ----

TEST(HttpClientsTest, StalledClientsHoldWhatTheySentAndNotWhatTheyAnnounced) {
  constexpr size_t kClients = 40, kFirst = size_t{64} << 10;
  MemoryBudget budget(size_t{1} << 40);
  HttpServerOptions options;
  options.memory_budget = &budget;
  EchoServer server(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->send(announced(size_t{64} << 20) + "some");
  }
  EXPECT_TRUE(becomes_true([&] { return budget.used() >= kClients * kFirst; }));
  EXPECT_LE(budget.used(), kClients * (kFirst + 128));
  EXPECT_EQ(TestClient(server.port()).post("/", "other").status, 200);
  clients.clear();
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
}

TEST(HttpClientsTest, AboveTheBudgetRequestsAreRefused) {
  constexpr size_t kBudget = 1'000'000;
  MemoryBudget budget(kBudget);
  HttpServerOptions options;
  options.memory_budget = &budget;
  EchoServer server(options);
  const std::string much(900'000, 'x');
  for (const std::string& bytes :
       {announced(2'000'000) + much,
        "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1e8480\r\n" + much}) {
    TestClient client(server.port());
    client.send(bytes);
    const TestResponse refused = client.receive();
    EXPECT_EQ(refused.status, 413) << "it never fits";
    EXPECT_EQ(refused.header("retry-after"), "");
    EXPECT_THAT(refused.body, HasSubstr("--max-memory"));
    EXPECT_TRUE(client.is_closed_by_server());
  }
  TestClient client(server.port());
  const std::string bomb = compressed(std::string(50'000'000, 'a'), ContentEncoding::kGzip);
  EXPECT_EQ(client.post("/z", bomb, "Content-Encoding: gzip\r\n").status, 413);
  EXPECT_EQ(client.post("/x", "small").body, "POST /x small");  // its body was read to the end
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
}

TEST(HttpClientsTest, WhatFitsLaterIsToBeTriedAgain) {
  MemoryBudget budget(1'000'000);
  HttpServerOptions options;
  options.memory_budget = &budget;
  EchoServer server(options);
  MemoryBudget::Lease others(budget);
  others.grow(900'000);
  {
    TestClient client(server.port());
    client.send(TestClient::text("POST", "/x", std::string(300'000, 'x')));
    const TestResponse refused = client.receive();
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.header("retry-after"), "1");
    EXPECT_THAT(refused.body, HasSubstr("try again later"));
  }
  others.shrink(others.bytes());
  EXPECT_EQ(TestClient(server.port()).post("/x", std::string(300'000, 'x')).status, 200);
}

TEST(HttpClientsTest, BodiesCountUntilTheyAreAnswered) {
  MemoryBudget budget(size_t{1} << 30);
  HttpServerOptions options;
  options.memory_budget = &budget;
  EchoServer server(options);
  TestClient client(server.port());
  client.send(TestClient::text("POST", "/hold", std::string(100'000, 'x')));
  server.wait_for_held(1);
  EXPECT_GE(budget.used(), 100'000u);
  server.release();
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
}

TEST(HttpClientsTest, AnswersCountUntilTheClientHasReadThem) {
  constexpr size_t kAnswer = 30'000'000;
  MemoryBudget budget(kAnswer + 1'000'000);
  HttpServerOptions options;
  options.address = "127.0.0.1";
  options.memory_budget = &budget;
  const std::string answer(kAnswer, 'x');
  HttpServer server(options, [&answer](const HttpRequest&, const HttpReply& reply) {
    HttpResponse response;
    response.body = answer;
    reply(std::move(response));
  });
  TestClient slow(server.port()), other(server.port());
  slow.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(becomes_true([&] { return budget.used() >= kAnswer; }));
  EXPECT_EQ(other.get("/").status, 503);
  EXPECT_EQ(slow.receive().body.size(), kAnswer);
  EXPECT_TRUE(becomes_true([&] { return budget.used() == 0; }));
  EXPECT_EQ(other.get("/").status, 200);
}

TEST(HttpClientsTest, AClientThatStallsAfterAFastBeginningIsCutOff) {
  TestClock clock;
  EchoServer server(timed(clock, 24h, 100ms));
  TestClient client(server.port());
  // At 64 KiB in a second these are worth 61 seconds.
  client.send(announced(9'000'000) + std::string(4'000'000, 'x'));
  EXPECT_EQ(clock.advance_by_looks(10ms, [&] { return client.receive().status; }), 408);
  EXPECT_LT(clock.elapsed(), 50s);
}

TEST(HttpClientsTest, AClientThatDoesNotReadItsAnswerIsCutOff) {
  TestClock clock;
  HttpServerOptions options = timed(clock, 24h, 100ms);
  options.address = "127.0.0.1";
  const std::string answer(100'000'000, 'x');  // at 64 KiB in a second: 1526 seconds
  HttpServer server(options, [&answer](const HttpRequest&, const HttpReply& reply) {
    HttpResponse response;
    response.body = answer;
    reply(std::move(response));
  });
  TestClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(becomes_true([&] { return server.connections() == 1; }));
  EXPECT_TRUE(becomes_true([&] {
    clock.advance(10ms);
    return server.connections() == 0;
  }));
  EXPECT_LT(clock.elapsed(), 1000s);
}

// ---- work that takes long ----

// Notes on which thread each target was handled.
class ThreadNotes {
 public:
  void add(const std::string& what) {
    std::lock_guard lock(mutex_);
    threads_[what] = std::this_thread::get_id();
  }
  std::thread::id of(const std::string& what) const {
    std::lock_guard lock(mutex_);
    return threads_.at(what);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::thread::id> threads_;
};

TEST(HttpClientsTest, LongWorkIsDoneByWorkersAndShortWorkAtOnce) {
  ThreadNotes notes;
  HttpServerOptions options;
  options.address = "127.0.0.1";
  options.threads = 1;
  HttpServer server(options, [&](const HttpRequest& request, const HttpReply& reply) {
    notes.add(request.target);
    HttpResponse response;
    if (request.target == "/small_deferred") response.deferred_json_bytes = 1000;
    if (request.target == "/large_deferred") response.deferred_json_bytes = 1'000'000;
    response.deferred = [&notes, target = request.target] {
      notes.add("written " + target);
      return json_response("{}");
    };
    reply(std::move(response));
  });
  TestClient client(server.port());
  const std::string gzip = "Content-Encoding: gzip\r\n", large(100'000, ' '), noise = [] {
    std::string text(20'000, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i * 2654435761u >> 13);
    return text;
  }();
  EXPECT_EQ(client.post("/small").status, 200);
  EXPECT_EQ(client.post("/binary", large, "Inference-Header-Content-Length: 9\r\n").status, 200);
  EXPECT_EQ(client.post("/json", large).status, 200);
  EXPECT_EQ(client.post("/packed", compressed("{}", ContentEncoding::kGzip), gzip).status, 200);
  EXPECT_EQ(client.post("/large_packed", compressed(noise, ContentEncoding::kGzip), gzip).status,
            200);
  EXPECT_EQ(client.post("/bomb", compressed(large, ContentEncoding::kGzip), gzip).status, 200);
  EXPECT_EQ(client.get("/small_deferred").status, 200);
  EXPECT_EQ(client.get("/large_deferred").status, 200);
  const std::thread::id home = notes.of("/small");
  for (const char* quick : {"/binary", "/packed", "/large_deferred", "written /small_deferred"})
    EXPECT_EQ(notes.of(quick), home) << quick;
  for (const char* slow : {"/json", "/large_packed", "/bomb", "written /large_deferred"})
    EXPECT_NE(notes.of(slow), home) << slow;
}

TEST(HttpClientsTest, BombsAndLargeTextsHoldUpNoOneElse) {
  std::latch go(1);
  HttpServerOptions options;
  options.address = "127.0.0.1";
  options.threads = 1;
  options.workers = 1;
  HttpServer server(options, [&](const HttpRequest& request, const HttpReply& reply) {
    if (request.target == "/wait") go.wait();
    reply(json_response("{}"));
  });
  TestClient large(server.port());
  large.send(TestClient::text("POST", "/wait", std::string(100'000, ' ')));
  const std::string bomb = compressed(std::string(100'000'000, 'a'), ContentEncoding::kGzip);
  std::vector<std::unique_ptr<TestClient>> bombers;
  for (int i = 0; i < 4; ++i) {
    bombers.push_back(std::make_unique<TestClient>(server.port()));
    bombers.back()->send(TestClient::text("POST", "/", bomb, "Content-Encoding: gzip\r\n"));
  }
  // While the only worker waits.
  TestClient health(server.port());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(health.get("/v2/health/live").status, 200);
  go.count_down();
  EXPECT_EQ(large.receive().status, 200);
  for (const auto& bomber : bombers) EXPECT_EQ(bomber->receive().status, 413);
}

// Counted in turns, not in time: while the only worker waits, one host sends many bodies that are
// expanded in a step each, and some that take many; then another host sends one, and so does
// another connection of the first.
TEST(HttpClientsTest, AFloodOfCompressedBodiesDelaysOthersByAStep) {
  std::latch go(1);
  std::mutex mutex;
  std::vector<std::string> handled;
  HttpServerOptions options;
  options.address = "127.0.0.1";
  options.threads = options.workers = 1;
  HttpServer server(options, [&](const HttpRequest& request, const HttpReply& reply) {
    if (request.target != "/live") {
      std::lock_guard lock(mutex);
      handled.push_back(request.target);
    }
    if (request.target == "/wait") go.wait();
    reply(json_response("{}"));
  });
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto send = [&](const char* host, const std::string& target, const std::string& body) {
    clients.push_back(std::make_unique<TestClient>(server.port(), host));
    clients.back()->send(TestClient::text("POST", target, body, "Content-Encoding: gzip\r\n"));
  };
  // The thread of all connections reads in the order of arrival: what was sent before is read then.
  const auto all_arrived = [&] {
    TestClient last(server.port());
    return last.get("/live").status == 200 && last.get("/live").status == 200;
  };
  const auto zeros = [](size_t bytes) {
    return compressed(std::string(bytes, '0'), ContentEncoding::kGzip);
  };
  const std::string one_step = zeros(500'000), many_steps = zeros(8'000'000);
  send("127.0.0.1", "/wait", one_step);
  ASSERT_TRUE(becomes_true([&] {
    std::lock_guard lock(mutex);
    return handled.size() == 1;
  }));
  for (int i = 0; i < 5; ++i) send("127.0.0.1", "/long", many_steps);
  for (int i = 0; i < 50; ++i) send("127.0.0.1", "/short", one_step);
  ASSERT_TRUE(all_arrived());
  send("127.0.0.1", "/neighbour", one_step);
  send("127.0.0.2", "/other", one_step);
  ASSERT_TRUE(all_arrived());
  go.count_down();
  for (const auto& client : clients) EXPECT_EQ(client->receive().status, 200);
  const auto place = [&](const char* target) {
    return std::find(handled.begin(), handled.end(), target) - handled.begin();
  };
  EXPECT_LE(place("/other"), 2);  // after at most one of the flood
  EXPECT_LT(place("/neighbour"), place("/long"));
}

TEST(HttpClientsTest, LargeAnswersAreCompressedByWorkersAndArriveWhole) {
  EchoServer server;
  TestClient client(server.port());
  const std::string text(300'000, 'a');
  for (int i = 0; i < 3; ++i) {
    const TestResponse response = client.post("/z", text, "Accept-Encoding: deflate\r\n");
    EXPECT_EQ(response.header("content-encoding"), "deflate");
    EXPECT_TRUE(text_of(expanded(response.body, ContentEncoding::kDeflate, 400'000)->bytes) ==
                "POST /z " + text);
  }
}

}  // namespace
}  // namespace emblem
