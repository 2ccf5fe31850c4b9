#include "core/threads/thread_pool.h"

#include <gmock/gmock.h>

#include <numeric>

namespace emblem {
namespace {

TEST(ThreadPool, CoversEveryItemOnceWhateverTheNumberOfThreads) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    const Context context{.threads = &pool};
    for (const int64_t count : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> touched(count);
      parallel_for(context, count, 3, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++touched[i];
      });
      for (const auto& times : touched) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadPool, RethrowsWhatAChunkThrows) {
  ThreadPool pool(2);
  const Context context{.threads = &pool};
  const auto fail = [&] {
    parallel_for(context, 100, 1, [](int64_t begin, int64_t) {
      if (begin == 42) throw std::runtime_error("chunk 42");
    });
  };
  EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_THROW(fail(), std::runtime_error);  // and the pool still works
}

TEST(ThreadPool, ANestedCallRunsOnTheCallingThread) {
  ThreadPool pool(3);
  const Context context{.threads = &pool};
  std::atomic<int> sum = 0;
  parallel_for(context, 10, 1, [&](int64_t, int64_t) {
    parallel_for(context, 10, 1, [&](int64_t, int64_t) { ++sum; });
  });
  EXPECT_EQ(sum, 100);
}

TEST(ThreadPool, SurvivesManyShortRegions) {
  ThreadPool pool(2);
  const Context context{.threads = &pool};
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 20000; ++i) {
    parallel_for(context, 2, 1,
                 [&](int64_t, int64_t) { sum.fetch_add(1, std::memory_order_relaxed); });
  }
  EXPECT_EQ(sum, 40000);
}

// Jobs of changing size, one right after the other: a worker that is late for
// one job must not touch the next.
TEST(ThreadPool, RunsEveryChunkOfEveryJobOnceWhenWorkersAreLate) {
  ThreadPool pool(3);
  const Context context{.threads = &pool};
  std::vector<std::atomic<int>> touched(40);
  for (int job = 0; job < 400000; ++job) {
    const int64_t count = 2 + job * 7 % 39;
    for (auto& times : touched) times.store(0, std::memory_order_relaxed);
    parallel_for(context, count, 1, [&](int64_t begin, int64_t) { ++touched[begin]; });
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(touched[i], 1) << "chunk " << i << " of job " << job;
  }
}

}  // namespace
}  // namespace emblem
