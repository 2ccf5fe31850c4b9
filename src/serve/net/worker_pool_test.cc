#include "serve/net/worker_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>

#include "core/becomes_true_test.h"

namespace emblem {
namespace {

TEST(WorkerPoolTest, JobsTakeTurnsStepByStep) {
  std::vector<std::string> steps;
  std::latch start(1), done(2);
  WorkerPool pool(1, 10, "test");
  pool.add([&] {
    start.wait();
    return false;
  });
  for (const std::string name : {"a", "b"}) {
    pool.add([&, name, left = 3]() mutable {
      steps.push_back(name);
      if (--left > 0) return true;
      done.count_down();
      return false;
    });
  }
  start.count_down();
  done.wait();
  EXPECT_THAT(steps, testing::ElementsAre("a", "b", "a", "b", "a", "b"));
}

TEST(WorkerPoolTest, RefusesWhatWouldWaitTooLong) {
  std::latch go(1);
  WorkerPool pool(1, 2, "test");
  pool.add([&] {
    go.wait();
    return false;
  });
  EXPECT_TRUE(becomes_true([&] { return pool.waiting() == 0; }));
  EXPECT_TRUE(pool.try_add([] { return false; }));
  EXPECT_TRUE(pool.try_add([] { return false; }));
  EXPECT_FALSE(pool.try_add([] { return false; }));
  go.count_down();
  EXPECT_TRUE(becomes_true([&] { return pool.try_add([] { return false; }); }));
}

TEST(WorkerPoolTest, AJobThatThrowsEndsAlone) {
  WorkerPool pool(1, 10, "test");
  pool.add([]() -> bool { throw std::runtime_error("broken"); });
  std::latch done(1);
  pool.add([&] {
    done.count_down();
    return false;
  });
  done.wait();
}

TEST(WorkerPoolTest, WithoutThreadsJobsRunAtOnce) {
  WorkerPool pool(0, 0, "test");
  int steps = 0;
  EXPECT_TRUE(pool.try_add([&] { return ++steps < 3; }));
  EXPECT_EQ(steps, 3);
}

TEST(WorkerPoolTest, StoppingDropsWhatWaits) {
  WorkerPool pool(1, 10, "test");
  std::atomic<int> steps = 0;
  pool.add([&] {
    ++steps;
    return true;  // for ever
  });
  EXPECT_TRUE(becomes_true([&] { return steps > 3; }));
  pool.stop();
  pool.add([]() -> bool { throw std::runtime_error("never runs"); });
  EXPECT_EQ(pool.waiting(), 0u);
}

}  // namespace
}  // namespace emblem
