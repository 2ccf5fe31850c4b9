#include "core/threads/start_threads.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "emblem/error.h"

namespace emblem {
namespace {

TEST(StartThreads, RunsTheBodyInEveryThread) {
  std::vector<std::thread> threads;
  std::atomic<int> runs = 0;
  start_threads(
      threads, 3, "3 test threads", "use fewer", [&] { ++runs; }, [] {});
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, 3);
}

// std::function copies its target for every thread: one that throws after some copies is a system
// that has no more threads.
struct FailsToCopy {
  explicit FailsToCopy(std::function<void()> run) : run_(std::move(run)) {}
  FailsToCopy(const FailsToCopy& other) : run_(other.run_), copies_(other.copies_) {
    if (++*copies_ > 3) throw std::system_error(EAGAIN, std::system_category());
  }
  void operator()() const { run_(); }

 private:
  std::function<void()> run_;
  std::shared_ptr<int> copies_ = std::make_shared<int>(0);
};

TEST(StartThreads, StopsAndJoinsThoseStartedWhenOneCannotBe) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopped = false;
  std::atomic<int> ended = 0;
  const std::function<void()> body = FailsToCopy([&] {
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return stopped; });
    ++ended;
  });
  const auto stop = [&] {
    {
      const std::lock_guard lock(mutex);
      stopped = true;
    }
    wake.notify_all();
  };
  EXPECT_THAT([&] { start_threads(threads, 8, "8 test threads", "use fewer", body, stop); },
              testing::ThrowsMessage<Error>(
                  "cannot start 8 test threads: Resource temporarily unavailable; use fewer or "
                  "raise ulimit -u or -v"));
  EXPECT_TRUE(threads.empty());
  EXPECT_GT(ended, 0);
}

}  // namespace
}  // namespace emblem
