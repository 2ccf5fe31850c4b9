// Answers of servers that are not ours: lengths, chunks, and what is damaged.
#include "ps/remote/http_exchange.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace emblem {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// The body that an exchange makes of `answer`, sent `step` bytes at a time; or "problem: ...".
std::string body_of(const std::string& answer, size_t step, size_t most_bytes = 100) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  FileDescriptor server(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  HttpExchange exchange(ServerConnection(FileDescriptor(ends[0]), nullptr, "host"),
                        std::make_shared<const std::string>("request"), most_bytes);
  std::thread sender([&] {
    for (size_t at = 0; at < answer.size(); at += step) {
      const std::string part = answer.substr(at, step);
      if (send(server.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0) return;
    }
    shutdown(server.get(), SHUT_WR);
  });
  HttpExchange* const exchanges[] = {&exchange};
  run_exchanges(exchanges, std::chrono::steady_clock::now() + seconds(60));
  sender.join();
  return exchange.has_answer() ? std::string(exchange.body()) : "problem: " + exchange.problem();
}

constexpr const char* kChunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST(HttpExchange, ReadsBodiesOfAKnownLengthAndInChunks) {
  for (const size_t step : {1, 3, 1000}) {
    EXPECT_EQ(body_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", step), "abcde");
    EXPECT_EQ(
        body_of(std::string(kChunked) + "3\r\nabc\r\nA;name=x\r\n0123456789\r\n0\r\n\r\n", step),
        "abc0123456789");
    EXPECT_EQ(body_of(std::string(kChunked) + "1\r\nz\r\n0\r\nTrailer: x\r\n\r\n", step), "z");
    EXPECT_EQ(body_of(std::string(kChunked) + "0\r\n\r\n", step), "");
  }
}

TEST(HttpExchange, ADamagedAnswerIsAProblem) {
  for (const size_t step : {1, 1000}) {
    const auto of_chunks = [&](const std::string& chunks) {
      return body_of(kChunked + chunks, step);
    };
    EXPECT_THAT(of_chunks("x\r\nabc\r\n"), HasSubstr("a chunk without a size"));
    EXPECT_THAT(of_chunks("-1\r\nabc\r\n"), HasSubstr("a chunk without a size"));
    EXPECT_THAT(of_chunks("3\r\nabcd\r\n0\r\n\r\n"), HasSubstr("a chunk without an end"));
    EXPECT_THAT(of_chunks("65\r\n"), HasSubstr("more than the 100 bytes"));
    EXPECT_THAT(of_chunks("ffffffffffffffff\r\n"), HasSubstr("more than the 100 bytes"));
    EXPECT_THAT(of_chunks("fffffffffffffffff\r\n"), HasSubstr("a chunk without a size"));
    EXPECT_THAT(of_chunks("3\r\nab"), HasSubstr("in the middle of an answer"));
    EXPECT_THAT(of_chunks(std::string(40000, '1')), HasSubstr("a chunk without a size"));
    EXPECT_THAT(
        body_of("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", step),
        HasSubstr("chunked, but has a Content-Length"));
    EXPECT_THAT(body_of("HTTP/1.1 200 OK\r\n\r\n", step), HasSubstr("no Content-Length"));
    EXPECT_THAT(body_of("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", step),
                HasSubstr("at most 100"));
  }
}

}  // namespace
}  // namespace emblem
