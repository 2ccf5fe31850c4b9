#include "serve/engine/batching/batch_queue.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class BatchQueueTest : public testing::Test {
 protected:
  void use(BatchOptions options) { queue_ = std::make_unique<BatchQueue>(std::move(options)); }

  InferRequest& push(int64_t rows, std::chrono::microseconds at = 0us, uint64_t priority = 0,
                     uint64_t timeout_us = 0) {
    auto request = std::make_unique<InferRequest>();
    request->priority = priority;
    request->timeout_us = timeout_us;
    request->cancelled = std::make_shared<std::atomic<bool>>(false);
    InferRequest& result = *request;
    BatchQueue::Entry entry{.request = std::move(request), .rows = rows};
    queue_->push(entry, start_ + at);
    return result;
  }

  BatchQueue::Next next(std::chrono::microseconds at, bool flush = false) {
    BatchQueue::Next next;
    queue_->next(start_ + at, flush, next);
    return next;
  }
  static std::vector<int64_t> rows(const std::vector<BatchQueue::Entry>& entries) {
    std::vector<int64_t> rows;
    for (const auto& entry : entries) rows.push_back(entry.rows);
    return rows;
  }

  const BatchQueue::Time start_{};
  std::unique_ptr<BatchQueue> queue_;
};

TEST_F(BatchQueueTest, WithoutDynamicBatchingEveryRequestIsABatch) {
  use({.max_batch_rows = 8});
  push(1);
  push(2);
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(1));
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(2));
  EXPECT_THAT(next(0us).batch, IsEmpty());
}

TEST_F(BatchQueueTest, TakesWhatFitsInOrderAndNeverSplits) {
  use({.dynamic = true, .max_batch_rows = 8});
  for (const int64_t size : {3, 4, 2, 1}) push(size);
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(3, 4));
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(2, 1));
}

TEST_F(BatchQueueTest, WaitsForTheDelayUnlessTheBatchIsFull) {
  use({.dynamic = true, .max_batch_rows = 8, .max_delay = 100us});
  push(3);
  push(1, 50us);
  const auto waiting = next(60us);
  EXPECT_THAT(waiting.batch, IsEmpty());
  EXPECT_EQ(waiting.wake, start_ + 100us);
  EXPECT_THAT(rows(next(100us).batch), ElementsAre(3, 1));
  push(8, 200us);
  EXPECT_THAT(rows(next(200us).batch), ElementsAre(8));
  push(7, 300us);
  push(7, 300us);
  EXPECT_THAT(rows(next(300us).batch), ElementsAre(7));
  EXPECT_THAT(next(300us).batch, IsEmpty());
  EXPECT_THAT(rows(next(300us, true).batch), ElementsAre(7));
}

TEST_F(BatchQueueTest, TakesTheLargestPreferredSizeAtOnce) {
  use({.dynamic = true, .max_batch_rows = 64, .preferred = {8, 4}, .max_delay = 100us});
  for (int i = 0; i < 7; ++i) push(1);
  EXPECT_EQ(next(0us).batch.size(), 4u);
  EXPECT_THAT(next(0us).batch, IsEmpty());  // three are no preferred size
  for (int i = 0; i < 6; ++i) push(1);
  EXPECT_EQ(next(0us).batch.size(), 8u);
  EXPECT_EQ(next(100us).batch.size(), 1u);
  push(30);  // larger than what is preferred, and yet it must run
  EXPECT_THAT(rows(next(300us).batch), ElementsAre(30));
}

TEST_F(BatchQueueTest, HigherPrioritiesGoFirst) {
  use({.dynamic = true, .max_batch_rows = 2, .priority_levels = 3, .default_priority = 2});
  push(1, 0us, 3);
  push(2, 0us);
  push(1, 0us, 1);
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(1));
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(2));
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(1));
}

TEST_F(BatchQueueTest, PrioritiesThatTheModelDoesNotHaveAreItsDefault) {
  use({.max_batch_rows = 8, .priority_levels = 3, .default_priority = 2});
  push(1, 0us, 3);
  push(2, 0us, 4);
  push(3, 0us, 1);
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(3));
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(2));
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(1));
  use({.max_batch_rows = 8});  // without levels all are the same
  push(1, 0us, 7);
  push(2, 0us, 1);
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(1));
  EXPECT_THAT(rows(next(0us).batch), ElementsAre(2));
}

TEST_F(BatchQueueTest, WakesTheCallerOnlyForWhatChangesItsPlan) {
  use({.dynamic = true, .max_batch_rows = 4, .max_delay = 100us});
  const auto pushed = [&] {
    BatchQueue::Entry entry{.request = std::make_unique<InferRequest>(), .rows = 1};
    return queue_->push(entry, start_);
  };
  EXPECT_TRUE(pushed());  // the time that it waits for begins
  EXPECT_FALSE(pushed());
  EXPECT_FALSE(pushed());
  EXPECT_TRUE(pushed());  // full
  EXPECT_EQ(next(0us).batch.size(), 4u);
  EXPECT_TRUE(pushed());
  use({.dynamic = true, .max_batch_rows = 4});
  EXPECT_TRUE(pushed());
  EXPECT_TRUE(pushed());
}

TEST_F(BatchQueueTest, IsFullAtItsLimit) {
  use({.max_batch_rows = 8, .policy = {.max_size = 2}});
  push(1);
  push(1);
  EXPECT_THAT([&] { push(1); }, ThrowsMessage<Error>(HasSubstr("Exceeds maximum queue size")));
  EXPECT_EQ(queue_->size(), 2u);
  next(0us);
  push(1);
}

TEST_F(BatchQueueTest, RejectsWhatTimedOut) {
  use({.dynamic = true,
       .max_batch_rows = 8,
       .max_delay = 1000us,
       .policy = {.default_timeout = 500us, .allow_override = true}});
  push(1);
  push(2, 0us, 0, 100);
  push(3, 0us, 0, 900);  // may only shorten
  const auto first = next(100us);
  EXPECT_THAT(rows(first.expired), ElementsAre(2));
  EXPECT_EQ(first.wake, start_ + 500us);
  EXPECT_THAT(rows(next(500us).expired), ElementsAre(1, 3));
  EXPECT_TRUE(queue_->empty());
}

TEST_F(BatchQueueTest, MayDelayWhatTimedOut) {
  use({.max_batch_rows = 8,
       .policy = {.at_timeout = QueuePolicy::AtTimeout::kDelay, .default_timeout = 10us}});
  push(1);
  push(2, 15us);
  EXPECT_THAT(rows(next(20us).batch), ElementsAre(2));
  EXPECT_THAT(rows(next(20us).batch), ElementsAre(1));
}

TEST_F(BatchQueueTest, DropsCancelledRequests) {
  use({.dynamic = true, .max_batch_rows = 8});
  push(1);
  *push(2).cancelled = true;
  push(3);
  const auto all = next(0us);
  EXPECT_THAT(rows(all.batch), ElementsAre(1, 3));
  EXPECT_THAT(rows(all.expired), ElementsAre(2));
}

}  // namespace
}  // namespace emblem
