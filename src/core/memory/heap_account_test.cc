#include "core/memory/heap_account.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "core/memory/buffer.h"
#include "core/system/caught_error.h"
#include "core/threads/thread_pool.h"

namespace emblem {
namespace {

class Limited final : public HeapAccount {
 public:
  explicit Limited(size_t limit) : limit_(limit) {}
  size_t taken() const { return taken_; }

 private:
  bool take(size_t bytes) noexcept override {
    size_t taken = taken_;
    do {
      if (bytes > limit_ - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes));
    return true;
  }
  void give_back(size_t bytes) noexcept override { taken_ -= bytes; }

  const size_t limit_;
  std::atomic<size_t> taken_ = 0;
};

constexpr int64_t kFloats = 1 << 18;
constexpr size_t kBytes = kFloats * sizeof(float);

TEST(HeapAccount, LargeBlocksAreTakenUntilTheyAreFreedOnAnyThread) {
  const auto account = std::make_shared<Limited>(4 * kBytes);
  Buffer<float> outside(Device::kCpu, kFloats);
  EXPECT_EQ(account->taken(), 0u);
  Buffer<float> kept;
  {
    const HeapAccount::Scope scope(account);
    kept = Buffer<float>(Device::kCpu, kFloats);
    const Buffer<float> dropped(Device::kCpu, kFloats);
    EXPECT_EQ(account->held(), 2 * kBytes);
    outside = {};  // is not the account's
    EXPECT_EQ(account->held(), 2 * kBytes);
  }
  EXPECT_EQ(account->taken(), kBytes);
  EXPECT_EQ(account->held(), kBytes);
  std::thread([&] { kept = {}; }).join();
  EXPECT_EQ(account->taken(), 0u);
}

TEST(HeapAccount, ThreadsOfAPoolCountInTheScopeOfTheirCaller) {
  const auto account = std::make_shared<Limited>(64 * kBytes);
  ThreadPool threads(3);
  const Context context{.threads = &threads};
  constexpr int64_t kChunks = 12;
  std::vector<Buffer<float>> large(kChunks);
  std::vector<void*> small(kChunks);
  {
    const HeapAccount::Scope scope(account);
    parallel_for(context, kChunks, 1, [&](int64_t chunk, int64_t) {
      large[chunk] = Buffer<float>(Device::kCpu, kFloats);
      small[chunk] = heap::allocate(HeapAccount::kLargeBlock - 64, 0);
    });
    EXPECT_EQ(account->held(), kChunks * kBytes);
    EXPECT_GE(account->taken(), kChunks * (kBytes + HeapAccount::kLargeBlock - 64));
    for (void* block : small) heap::release(block);
  }
  EXPECT_EQ(account->taken(), kChunks * kBytes);
  large.clear();
  EXPECT_EQ(account->taken(), 0u);
  parallel_for(context, kChunks, 1, [&](int64_t, int64_t) {
    const Buffer<float> outside(Device::kCpu, kFloats);
    EXPECT_EQ(account->taken(), 0u);
  });
}

TEST(HeapAccount, AnExhaustedBudgetInAThreadOfAPoolIsTheCallersError) {
  const auto account = std::make_shared<Limited>(4 * kBytes);
  ThreadPool threads(3);
  const HeapAccount::Scope scope(account);
  std::vector<Buffer<float>> large(12);
  EXPECT_THROW(parallel_for(Context{.threads = &threads}, 12, 1,
                            [&](int64_t chunk, int64_t) {
                              large[chunk] = Buffer<float>(Device::kCpu, kFloats);
                            }),
               HeapAccountExhausted);
}

TEST(HeapAccount, NothingIsAllocatedBeyondTheBudget) {
  const auto account = std::make_shared<Limited>(kBytes);
  const HeapAccount::Scope scope(account);
  const Buffer<float> fits(Device::kCpu, kFloats);
  try {
    const Buffer<float> more(Device::kCpu, kFloats);
    FAIL() << "allocated";
  } catch (...) {
    const Error error = caught_error();
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("--max-memory"), std::string::npos) << error.what();
  }
  EXPECT_EQ(account->taken(), kBytes);
}

TEST(HeapAccount, AnInnerScopeWithoutAnAccountTakesNothing) {
  const auto account = std::make_shared<Limited>(kBytes);
  const HeapAccount::Scope scope(account);
  const HeapAccount::Scope pause(nullptr);
  const Buffer<float> one(Device::kCpu, kFloats);
  EXPECT_EQ(account->taken(), 0u);
}

TEST(HeapAccount, BytesOfOtherMemoryAreTakenWhileTheyAreThere) {
  const auto account = std::make_shared<Limited>(kBytes);
  const HeapAccount::Taken outside(2 * kBytes);
  std::optional<HeapAccount::Taken> kept;
  {
    const HeapAccount::Scope scope(account);
    kept.emplace(kBytes - 1);
    EXPECT_EQ(account->held(), kBytes - 1);
    EXPECT_THROW(HeapAccount::Taken(2), HeapAccountExhausted);
    const HeapAccount::Taken last(1);
    EXPECT_EQ(account->taken(), kBytes);
  }
  EXPECT_EQ(account->taken(), kBytes - 1);
  kept.reset();
  EXPECT_EQ(account->taken(), 0u);
  EXPECT_EQ(account->held(), 0u);
}

TEST(HeapAccount, SmallBlocksAreTakenForTheLifeOfTheScope) {
  const auto account = std::make_shared<Limited>(size_t{1} << 20);
  std::vector<Buffer<char>> blocks;
  blocks.reserve(2000);
  {
    const HeapAccount::Scope scope(account);
    EXPECT_THROW(for (int i = 0; i < 2000; ++i) blocks.push_back(Buffer<char>(Device::kCpu, 1000)),
                 HeapAccountExhausted);
    EXPECT_GT(blocks.size(), 700u);
    EXPECT_LT(blocks.size(), 1050u);
    EXPECT_EQ(account->taken(), size_t{1} << 20);
  }
  EXPECT_EQ(account->taken(), 0u);
}

}  // namespace
}  // namespace emblem
