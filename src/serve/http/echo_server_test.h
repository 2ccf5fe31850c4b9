// serve/http/echo_server_test.h - a server for tests, that answers with what it was asked.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/threads/becomes_true_test.h"
#include "serve/http/server.h"
#include "serve/http/status/test_clock_test.h"

namespace emblem {

// Answers with the request itself: method, target, body. Requests to /hold wait for release();
// answers to /z may be compressed.
class EchoServer {
 public:
  explicit EchoServer(HttpServerOptions options = {}) {
    options.address = "127.0.0.1";
    server_ = std::make_unique<HttpServer>(options, [this](HttpRequest request, HttpReply reply) {
      if (request.target == "/hold") {
        std::lock_guard lock(mutex_);
        held_.emplace_back(std::move(request), std::move(reply));
        return;
      }
      reply(echo(request));
    });
  }

  static HttpResponse echo(const HttpRequest& request) {
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = request.method + " " + request.target + " ";
    response.body += text_of(request.body);
    response.is_compressible = request.target.starts_with("/z");
    return response;
  }

  void wait_for_held(size_t count) const {
    EXPECT_TRUE(becomes_true([&] { return held() == count; }));
  }
  size_t held() const {
    std::lock_guard lock(mutex_);
    return held_.size();
  }
  bool first_is_cancelled() const {
    std::lock_guard lock(mutex_);
    return *held_.at(0).first.cancelled;
  }
  void release() {
    std::vector<std::pair<HttpRequest, HttpReply>> held;
    {
      std::lock_guard lock(mutex_);
      held.swap(held_);
    }
    for (auto& [request, reply] : held) reply(echo(request));
  }

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  uint16_t port() const { return server_->port(); }
  void destroy() { server_.reset(); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<HttpRequest, HttpReply>> held_;
  std::unique_ptr<HttpServer> server_;
};

// Options with timeouts that the server looks at often, by that clock.
inline HttpServerOptions timed(TestClock& clock, std::chrono::milliseconds idle,
                               std::chrono::milliseconds read) {
  HttpServerOptions options;
  options.threads = 1;
  options.idle_timeout = idle;
  options.read_timeout = read;
  options.clock = clock.function();
  return options;
}

}  // namespace emblem
