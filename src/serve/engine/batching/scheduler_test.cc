#include "serve/engine/batching/scheduler.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <new>
#include <thread>

#include "core/threads/becomes_true_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What an engine may meet.
void throw_what_is_asked(std::span<EngineTask> tasks) {
  for (const EngineTask& task : tasks) {
    if (task.request->id == "bad_alloc") throw std::bad_alloc();
    if (task.request->id == "runtime_error") throw std::runtime_error("the engine broke");
    if (task.request->id == "int") throw 7;
  }
}

// Holds engines while it is closed.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true;
  std::atomic<int> inside = 0;

  void set(bool value) {
    const std::lock_guard lock(mutex);
    open = value;
    changed.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside >= count; });
  }
};

// Answers with the request's id; fails requests named "bad"; waits at the gate; takes 1 ms for
// requests named "long".
class EchoEngine : public Engine {
 public:
  EchoEngine(Gate& gate, std::vector<size_t>& batches) : gate_(gate), batches_(batches) {}

  static inline thread_local int runs_here = 0;  // batches on the calling thread

 protected:
  void compute(std::span<EngineTask> tasks, EngineTimes& times) override {
    throw_what_is_asked(tasks);
    gate_.pass();
    ++runs_here;
    if (tasks[0].request->id == "long") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    times.input_end = times.infer_end = times.output_end = std::chrono::steady_clock::now();
    {
      const std::lock_guard lock(gate_.mutex);
      batches_.push_back(tasks.size());
    }
    for (EngineTask& task : tasks) {
      if (task.request->id == "bad") {
        task.error = Error(ErrorCode::kInvalidArgument, "bad request");
      } else {
        task.outputs.push_back({"out", DataType::kFp32, {task.rows, 1}, {}});
      }
    }
  }

 private:
  Gate& gate_;
  std::vector<size_t>& batches_;
};

class SchedulerTest : public testing::Test {
 protected:
  void use(BatchOptions options, int engines = 1, Blocking blocking = Blocking::kNever) {
    std::vector<std::unique_ptr<Engine>> made;
    for (int i = 0; i < engines; ++i) made.push_back(std::make_unique<EchoEngine>(gate_, batches_));
    scheduler_ =
        std::make_unique<Scheduler>("m", "1", std::move(options), std::move(made), blocking);
  }

  std::future<InferResult> send(const std::string& id,
                                std::shared_ptr<std::atomic<bool>> cancelled = nullptr,
                                int64_t rows = 1, uint64_t priority = 0) {
    auto request = std::make_unique<InferRequest>();
    request->id = id;
    request->cancelled = std::move(cancelled);
    request->priority = priority;
    auto promise = std::make_shared<std::promise<InferResult>>();
    InferDone done = [promise](InferResult result) { promise->set_value(std::move(result)); };
    if (!scheduler_->submit(request, rows, done)) done(Error(ErrorCode::kUnavailable, "closed"));
    return promise->get_future();
  }
  // As send, but the thread that brings it may be the one that runs it.
  std::thread send_aside(const std::string& id, std::future<InferResult>& result) {
    return std::thread([this, id, &result] { result = send(id); });
  }
  // Whether the request ran on this thread.
  bool runs_here(const std::string& id, int64_t rows = 1) {
    const int before = EchoEngine::runs_here;
    auto answer = send(id, nullptr, rows);
    EXPECT_EQ(text(answer), id);
    return EchoEngine::runs_here > before;
  }
  // After a pause: a request that follows closely on others may be queued to be batched.
  bool runs_here_when_idle(const std::string& id, int64_t rows = 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return runs_here(id, rows);
  }
  static std::string text(std::future<InferResult>& future) {
    const InferResult result = future.get();
    if (const auto* error = std::get_if<Error>(&result)) return error->what();
    return std::get<InferResponse>(result).id;
  }

  Gate gate_;
  std::vector<size_t> batches_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, RunsTogetherWhatArrivesWhileTheEngineIsBusy) {
  use({.dynamic = true, .max_batch_rows = 8});
  gate_.set(false);
  std::future<InferResult> first;
  std::thread sender = send_aside("a", first);
  gate_.wait_for(1);
  auto b = send("b"), bad = send("bad"), c = send("c");
  EXPECT_EQ(scheduler_->statistics().pending, 3u);
  gate_.set(true);
  sender.join();
  EXPECT_EQ(text(first), "a");
  EXPECT_EQ(text(b), "b");
  EXPECT_EQ(text(bad), "bad request");
  EXPECT_EQ(text(c), "c");
  EXPECT_THAT(batches_, ElementsAre(1, 3));
  const ModelStatistics statistics = scheduler_->statistics();
  EXPECT_EQ(statistics.success.count, 3u);
  EXPECT_EQ(statistics.fail.count, 1u);
  EXPECT_EQ(statistics.inference_count, 3u);
  EXPECT_EQ(statistics.execution_count, 2u);
  EXPECT_EQ(statistics.queue.count, 3u);
  EXPECT_EQ(statistics.by_batch.at(1).compute_infer.count, 1u);
  EXPECT_EQ(statistics.pending, 0u);
}

TEST_F(SchedulerTest, RefusesWhatDoesNotFitIntoTheQueue) {
  use({.max_batch_rows = 8, .policy = {.max_size = 1}});
  gate_.set(false);
  std::future<InferResult> first;
  std::thread sender = send_aside("a", first);
  gate_.wait_for(1);
  auto b = send("b"), c = send("c");
  EXPECT_THAT(text(c), HasSubstr("Exceeds maximum queue size"));
  gate_.set(true);
  sender.join();
  EXPECT_EQ(text(b), "b");
  EXPECT_EQ(scheduler_->statistics().rejected, 1u);
}

TEST_F(SchedulerTest, TellsCancelledRequestsSo) {
  use({.dynamic = true, .max_batch_rows = 8});
  gate_.set(false);
  std::future<InferResult> first;
  std::thread sender = send_aside("a", first);
  gate_.wait_for(1);
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto b = send("b", cancelled);
  *cancelled = true;
  gate_.set(true);
  sender.join();
  EXPECT_EQ(text(b), "the request was cancelled");
  EXPECT_EQ(scheduler_->statistics().cancelled, 1u);
}

// Once on the thread that brings the request and once on the engine's own.
TEST_F(SchedulerTest, AnEngineThatThrowsFailsTheRequestAndComesBack) {
  constexpr int kEngines = 2;
  for (const auto delay : {std::chrono::microseconds(0), std::chrono::microseconds(1)}) {
    use({.dynamic = true, .max_batch_rows = 1, .max_delay = delay}, kEngines);
    for (int i = 0; i < 3 * kEngines; ++i) {  // more often than there are engines
      auto memory = send("bad_alloc"), broken = send("runtime_error"), number = send("int");
      EXPECT_EQ(text(memory), "out of memory");
      EXPECT_EQ(text(broken), "the engine broke");
      EXPECT_EQ(text(number), "an exception of an unknown type was thrown");
    }
    EXPECT_EQ(scheduler_->statistics().fail.count, 9u * kEngines);
    // All engines are back: as many requests as there are engines run at the same time.
    gate_.set(false);
    gate_.inside = 0;
    std::future<InferResult> results[kEngines];
    std::vector<std::thread> senders;
    for (int i = 0; i < kEngines; ++i) senders.push_back(send_aside(cat(i), results[i]));
    gate_.wait_for(kEngines);
    gate_.set(true);
    for (std::thread& sender : senders) sender.join();
    for (int i = 0; i < kEngines; ++i) EXPECT_EQ(text(results[i]), cat(i));
  }
}

TEST_F(SchedulerTest, OnlyRequestsThatAreKnownToBeShortRunOnTheThreadThatBringsThem) {
  use({.dynamic = true, .max_batch_rows = 65536});
  EXPECT_FALSE(runs_here("first"));  // nothing is known of it yet
  EXPECT_TRUE(becomes_true([&] { return runs_here_when_idle("a"); }));
  // The rows of a small one tell what many would take at most.
  EXPECT_FALSE(runs_here_when_idle("large", 60'000));
}

TEST_F(SchedulerTest, LongRequestsNeverRunOnTheThreadThatBringsThem) {
  use({.dynamic = true, .max_batch_rows = 8});
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(runs_here_when_idle("long"));
}

TEST_F(SchedulerTest, NothingThatMayBlockRunsOnTheThreadThatBringsIt) {
  use({.dynamic = true, .max_batch_rows = 8}, 1, Blocking::kPossible);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(runs_here("a"));
}

TEST_F(SchedulerTest, ADelayOrATargetLetsRequestsWaitForOthers) {
  use({.dynamic = true, .max_batch_rows = 3, .max_delay = std::chrono::hours(1)});
  auto a = send("a"), b = send("b"), c = send("c");
  EXPECT_EQ(text(a) + text(b) + text(c), "abc");
  EXPECT_THAT(batches_, ElementsAre(3));
  batches_.clear();
  use({.dynamic = true, .max_batch_rows = 3, .slo_p99 = std::chrono::hours(1)});
  EXPECT_FALSE(runs_here("first"));  // without it there is no estimate, and nothing waits
  for (int i = 0; i < 63; ++i) runs_here("alone");
  auto d = send("d"), e = send("e"), f = send("f");
  EXPECT_EQ(text(d) + text(e) + text(f), "def");
  EXPECT_EQ(batches_.back(), 3u);
}

// Once idle and once while the engine is busy.
TEST_F(SchedulerTest, APriorityIsNoErrorForAModelWithoutLevels) {
  use({.dynamic = true, .max_batch_rows = 8});
  auto idle = send("idle", nullptr, 1, 7);
  EXPECT_EQ(text(idle), "idle");
  gate_.set(false);
  gate_.inside = 0;
  std::future<InferResult> first;
  std::thread sender = send_aside("a", first);
  gate_.wait_for(1);
  auto queued = send("queued", nullptr, 1, 7);
  gate_.set(true);
  sender.join();
  EXPECT_EQ(text(first), "a");
  EXPECT_EQ(text(queued), "queued");
}

TEST_F(SchedulerTest, WaitingForAnEngineIsQueueTime) {
  use({.dynamic = true, .max_batch_rows = 8});
  gate_.set(false);
  std::future<InferResult> first;
  std::thread sender = send_aside("a", first);
  gate_.wait_for(1);
  const uint64_t before = scheduler_->statistics().queue.ns;
  auto b = send("b");
  const auto sent = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto waited = std::chrono::steady_clock::now() - sent;
  gate_.set(true);
  sender.join();
  EXPECT_EQ(text(b), "b");
  EXPECT_GE(scheduler_->statistics().queue.ns, before + static_cast<uint64_t>(waited.count()));
}

TEST_F(SchedulerTest, ADoneThatThrowsDoesNotLoseTheEngine) {
  use({.dynamic = true, .max_batch_rows = 1});
  auto request = std::make_unique<InferRequest>();
  InferDone done = [](const InferResult&) { throw std::runtime_error("no one listens"); };
  EXPECT_TRUE(scheduler_->submit(request, 1, done));
  auto next = send("a");
  EXPECT_EQ(text(next), "a");
}

TEST_F(SchedulerTest, FinishesWhatItHasBeforeItCloses) {
  use({.dynamic = true, .max_batch_rows = 2, .max_delay = std::chrono::seconds(3600)});
  auto a = send("a");  // would wait for an hour
  scheduler_->close();
  EXPECT_EQ(text(a), "a");
  auto late = send("b");
  EXPECT_EQ(text(late), "closed");
}

TEST_F(SchedulerTest, AnswersEveryRequestOfManyThreadsOnce) {
  use({.dynamic = true, .max_batch_rows = 16}, 3);
  constexpr int kThreads = 8, kEach = 500;
  std::atomic<int> right = 0, cancelled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string id = cat(t, "/", i);
        auto answer = send(id, std::make_shared<std::atomic<bool>>(i % 3 == 0));
        const std::string found = text(answer);
        if (found == id) ++right;
        if (found == "the request was cancelled" && i % 3 == 0) ++cancelled;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right + cancelled, kThreads * kEach);
  EXPECT_EQ(scheduler_->statistics().success.count, static_cast<uint64_t>(right));
  EXPECT_EQ(scheduler_->statistics().cancelled, static_cast<uint64_t>(cancelled));
}

}  // namespace
}  // namespace emblem
