#include "bench/train/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;

// Memory for `most` rows.
auto room_for(int64_t most, int* tries = nullptr) {
  return [=](int64_t batch) {
    if (tries != nullptr) ++*tries;
    if (batch > most) throw Error(ErrorCode::kOutOfMemory, cat("no room for ", batch));
  };
}

TEST(LargestBatch, IsFoundWithinATwentiethFromBelow) {
  for (const int64_t most : {1, 7, 100, 1023, 1024, 1025, 70000, 1 << 20}) {
    const LargestBatch found = find_largest_batch(64, 1 << 24, room_for(most));
    EXPECT_LE(found.batch, most);
    EXPECT_GE(found.batch, most * 95 / 100);
    EXPECT_FALSE(found.limited);
  }
}

TEST(LargestBatch, TakesFewAttempts) {
  int tries = 0;
  find_largest_batch(1024, 1 << 24, room_for(1'000'000, &tries));
  EXPECT_LE(tries, 17);
}

TEST(LargestBatch, AFailedAttemptIsOneLine) {
  const LargestBatch found = find_largest_batch(64, 1 << 20, room_for(100));
  ASSERT_FALSE(found.failed.empty());
  EXPECT_THAT(found.failed.front(), "batch 128: no room for 128");
}

TEST(LargestBatch, StopsAtTheLimitOfTheSearch) {
  const LargestBatch found = find_largest_batch(64, 1000, room_for(5000));
  EXPECT_EQ(found.batch, 1000);
  EXPECT_TRUE(found.limited);
  EXPECT_TRUE(found.failed.empty());
}

TEST(LargestBatch, NothingFits) { EXPECT_EQ(find_largest_batch(64, 1000, room_for(0)).batch, 0); }

TEST(LargestBatch, BadAllocIsAFailedAttemptAndOtherErrorsEndTheSearch) {
  const LargestBatch found = find_largest_batch(1, 8, [](int64_t batch) {
    if (batch > 2) throw std::bad_alloc();
  });
  EXPECT_EQ(found.batch, 2);
  EXPECT_THAT(found.failed.front(), HasSubstr("out of host memory"));
  EXPECT_THROW(
      find_largest_batch(1, 8, [](int64_t) { throw Error(ErrorCode::kCorruption, "broken file"); }),
      Error);
}

}  // namespace
}  // namespace emblem
