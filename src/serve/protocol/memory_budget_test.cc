#include "serve/protocol/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "emblem/error.h"

namespace emblem {
namespace {

TEST(MemoryBudgetTest, TakesUpToItsLimitAndGivesBack) {
  MemoryBudget budget(100);
  {
    MemoryBudget::Lease a(budget), b(budget);
    EXPECT_TRUE(a.try_grow(60));
    EXPECT_FALSE(b.try_grow(41));
    EXPECT_TRUE(b.try_grow(40));
    EXPECT_EQ(budget.used(), 100u);
    a.shrink(10);
    EXPECT_TRUE(b.try_grow(10));
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudgetTest, ALeaseThatMovesTakesItsBytesAlong) {
  MemoryBudget budget(100);
  MemoryBudget::Lease a(budget);
  a.grow(70);
  {
    const MemoryBudget::Lease b = std::move(a);
    EXPECT_EQ(b.bytes(), 70u);
    EXPECT_EQ(budget.used(), 70u);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudgetTest, SizesThatWouldOverflowAreRefused) {
  MemoryBudget budget(100);
  MemoryBudget::Lease lease(budget);
  lease.grow(50);
  EXPECT_FALSE(lease.try_grow(SIZE_MAX));
  try {
    lease.grow(SIZE_MAX - 49);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
  }
  EXPECT_EQ(budget.used(), 50u);
}

TEST(MemoryBudgetTest, WhatNeverFitsIsToldApartFromWhatFitsLater) {
  MemoryBudget budget(size_t{10} << 20);
  MemoryBudget::Lease other(budget), body(budget);
  other.grow(size_t{9} << 20);
  const auto refusal = [](MemoryBudget::Lease& lease, size_t bytes) {
    try {
      lease.grow(bytes);
    } catch (const Error& error) {
      return std::pair(error.code(), std::string(error.what()));
    }
    return std::pair(ErrorCode::kInternal, std::string());
  };
  body.grow(size_t{1} << 20);
  EXPECT_EQ(refusal(body, size_t{9} << 20),
            std::pair(ErrorCode::kUnavailable,
                      std::string("requests hold 10.00 MiB of the 10.00 MiB that they may hold together; "
                                  "try again later, or start the server with a larger --max-memory")));
  const std::pair never(
      ErrorCode::kTooLarge,
      std::string("the request needs 11.00 MiB of memory or more, but all requests together may hold "
                  "10.00 MiB: send it in smaller parts, or start the server with a larger --max-memory"));
  EXPECT_EQ(refusal(body, size_t{10} << 20), never);
  MemoryBudget::Lease parsed(budget, body.bytes());
  EXPECT_EQ(refusal(parsed, size_t{9} << 20).first, ErrorCode::kUnavailable);
  EXPECT_EQ(refusal(parsed, size_t{10} << 20), never);
  other.shrink(other.bytes());
  body.grow(size_t{9} << 20);
  EXPECT_EQ(budget.used(), budget.limit());
}

TEST(MemoryBudgetTest, NeverExceedsItsLimitWithManyThreads) {
  MemoryBudget budget(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        MemoryBudget::Lease lease(budget);
        if (lease.try_grow(static_cast<size_t>(100 + i % 400))) {
          EXPECT_LE(budget.used(), budget.limit());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace emblem
