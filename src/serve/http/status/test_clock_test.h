// serve/http/status/test_clock_test.h - a clock for the timeouts of a server, which tests move.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "core/threads/becomes_true_test.h"
#include "serve/http/server.h"

namespace emblem {

class TestClock {
 public:
  void advance(std::chrono::milliseconds time) { milliseconds_ += time.count(); }
  std::chrono::milliseconds elapsed() const { return std::chrono::milliseconds(milliseconds_); }
  // Lets time pass while `act` runs, but no faster than a server looks at the clock: each of its
  // looks sees at most `step` more.
  template <class Act>
  auto advance_by_looks(std::chrono::milliseconds step, Act&& act) {
    std::atomic<bool> over = false;
    std::thread advancing([&] {
      while (!over) {
        const int64_t before = looks_;
        advance(step);
        becomes_true([&] { return looks_ != before || over; });
      }
    });
    const auto result = act();
    over = true;
    advancing.join();
    return result;
  }
  // Lets hours pass while `act` runs: a connection may come to be at any of them.
  template <class Act>
  auto advance_during(Act&& act) {
    std::atomic<bool> over = false;
    std::thread advancing([&] {
      while (!over) {
        advance(std::chrono::hours(1));
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    const auto result = act();
    over = true;
    advancing.join();
    return result;
  }

  // What HttpServerOptions::clock takes; borrows this.
  std::function<std::chrono::steady_clock::time_point()> function() {
    return [this] {
      ++looks_;
      return std::chrono::steady_clock::time_point(std::chrono::hours(1) +
                                                   std::chrono::milliseconds(milliseconds_));
    };
  }

 private:
  std::atomic<int64_t> milliseconds_ = 0, looks_ = 0;
};

}  // namespace emblem
