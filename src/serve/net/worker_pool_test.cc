#include "serve/net/worker_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>

#include "core/threads/becomes_true_test.h"

namespace emblem {
namespace {

const ClientKey kClient{1, 1};

TEST(WorkerPoolTest, JobsTakeTurnsStepByStep) {
  std::vector<std::string> steps;
  std::latch start(1), done(2);
  WorkerPool pool(1, 10, "test");
  pool.add(kClient, [&] {
    start.wait();
    return false;
  });
  for (const std::string name : {"a", "b"}) {
    pool.add(kClient, [&, name, left = 3]() mutable {
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
  WorkerPool pool(1, 4, "test");
  pool.add(kClient, [&] {
    go.wait();
    return false;
  });
  EXPECT_TRUE(becomes_true([&] { return pool.waiting() == 0; }));
  EXPECT_TRUE(pool.try_add(kClient, [] { return false; }));
  EXPECT_TRUE(pool.try_add(kClient, [] { return false; }));
  EXPECT_FALSE(pool.try_add(kClient, [] { return false; }));
  go.count_down();
  EXPECT_TRUE(becomes_true([&] { return pool.try_add(kClient, [] { return false; }); }));
}

TEST(WorkerPoolTest, AHostWithManyJobsAndConnectionsDelaysAnotherByOneStep) {
  std::vector<int> hosts;
  std::latch start(1), done(1);
  WorkerPool pool(1, 1000, "test");
  pool.add(kClient, [&] {
    start.wait();
    return false;
  });
  for (uint64_t i = 0; i < 100; ++i)
    pool.add({1, i}, [&] {
      hosts.push_back(1);
      return false;
    });
  pool.add({2, 1000}, [&] {
    hosts.push_back(2);
    done.count_down();
    return false;
  });
  start.count_down();
  done.wait();
  pool.stop();
  EXPECT_LE(std::find(hosts.begin(), hosts.end(), 2) - hosts.begin(), 1);
}

TEST(WorkerPoolTest, AHostThatFillsItsPlacesLeavesSomeToOthers) {
  std::latch go(1);
  WorkerPool pool(1, 100, "test");
  pool.add(kClient, [&] {
    go.wait();
    return false;
  });
  EXPECT_TRUE(becomes_true([&] { return pool.waiting() == 0; }));
  const auto fill = [&](uint64_t host) {
    size_t added = 0;
    while (pool.try_add({host, added}, [] { return false; })) ++added;
    return added;
  };
  EXPECT_EQ(fill(1), 50u);
  EXPECT_EQ(fill(2), 25u);
  EXPECT_EQ(fill(3), 13u);
  go.count_down();
}

TEST(FairQueueTest, ConnectionsOfAHostTakeTurns) {
  FairQueue<int> queue(100);
  for (const int item : {1, 2, 3}) queue.push({7, 1}, item);
  for (const int item : {11, 12}) queue.push({7, 2}, item);
  std::vector<int> items;
  while (!queue.empty()) items.push_back(queue.pop().second);
  EXPECT_THAT(items, testing::ElementsAre(1, 11, 2, 12, 3));
}

TEST(WorkerPoolTest, AJobThatThrowsEndsAlone) {
  WorkerPool pool(1, 10, "test");
  pool.add(kClient, []() -> bool { throw std::runtime_error("broken"); });
  std::latch done(1);
  pool.add(kClient, [&] {
    done.count_down();
    return false;
  });
  done.wait();
}

TEST(WorkerPoolTest, WithoutThreadsJobsRunAtOnce) {
  WorkerPool pool(0, 0, "test");
  int steps = 0;
  EXPECT_TRUE(pool.try_add(kClient, [&] { return ++steps < 3; }));
  EXPECT_EQ(steps, 3);
}

TEST(WorkerPoolTest, StoppingDropsWhatWaits) {
  WorkerPool pool(1, 10, "test");
  std::atomic<int> steps = 0;
  pool.add(kClient, [&] {
    ++steps;
    return true;  // for ever
  });
  EXPECT_TRUE(becomes_true([&] { return steps > 3; }));
  pool.stop();
  pool.add(kClient, []() -> bool { throw std::runtime_error("never runs"); });
  EXPECT_EQ(pool.waiting(), 0u);
}

}  // namespace
}  // namespace emblem
