// The host threads, with requests through the queue as kernels make them, in ordinary memory.
#include "embedding/transfer/host_transfer.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstring>

namespace emblem {
namespace {

using testing::Each;

// The memory of a staging buffer, and what a kernel would do with it.
class TestStagingBuffer {
 public:
  TestStagingBuffer(HostTransfer& host_transfer, uint32_t rows, uint32_t stride)
      : transfer_(host_transfer),
        stride_(stride),
        in_(rows * stride),
        out_(rows * stride),
        in_rows_(rows),
        out_rows_(rows) {
    memory_ = {&queue_, in_.data(), out_.data(), in_rows_.data(), out_rows_.data()};
    transfer_.add(memory_);
  }
  ~TestStagingBuffer() { transfer_.remove(memory_); }
  TestStagingBuffer(const TestStagingBuffer&) = delete;
  TestStagingBuffer& operator=(const TestStagingBuffer&) = delete;

  void gather_from(uint32_t i, const std::vector<char>& row) {
    in_rows_[i] = packed_row(row.data(), row.size());
  }
  void scatter_to(uint32_t i, std::vector<char>& row) {
    out_rows_[i] = packed_row(row.data(), row.size());
  }
  char* in(uint32_t i) { return &in_[i * stride_]; }
  char* out(uint32_t i) { return &out_[i * stride_]; }

  // The number of the request.
  uint64_t request(TransferRequest::Kind kind, uint32_t begin, uint32_t end) {
    TransferRequest& entry = queue_.requests[requested_ % kMaxRequests];
    entry.kind = kind;
    entry.begin = begin;
    entry.end = end;
    entry.stride = stride_;
    entry.scattered = kind == TransferRequest::Kind::kScatter ? &scattered_ : nullptr;
    std::atomic_ref(entry.number).store(++requested_, std::memory_order_release);
    return requested_;
  }
  void wait(uint64_t number) {
    while (done() < number) std::this_thread::yield();
  }
  uint64_t done() { return std::atomic_ref(queue_.done).load(std::memory_order_acquire); }
  uint64_t scattered() { return std::atomic_ref(scattered_).load(std::memory_order_acquire); }

 private:
  HostTransfer& transfer_;
  TransferQueue queue_;
  uint32_t stride_;
  std::vector<char> in_, out_;
  std::vector<uint64_t> in_rows_, out_rows_;
  StagingMemory memory_;
  uint64_t requested_ = 0, scattered_ = 0;
};

constexpr auto kWake = TransferRequest::Kind::kWake, kGather = TransferRequest::Kind::kGather,
               kScatter = TransferRequest::Kind::kScatter;

// Rows of `bytes` bytes, each full of one value.
std::vector<std::vector<char>> rows_of(uint32_t count, size_t bytes) {
  std::vector<std::vector<char>> rows;
  for (uint32_t i = 0; i < count; ++i) rows.emplace_back(bytes, static_cast<char>(i % 100 + 1));
  return rows;
}

TEST(HostTransfer, GathersRowsOfDifferentLengthsAndLeavesOthersAlone) {
  HostTransfer host_transfer(3);
  TestStagingBuffer staging(host_transfer, 1000, 64);
  const auto shorter = rows_of(1000, 16), longer = rows_of(1000, 64);
  for (uint32_t i = 0; i < 1000; ++i) {
    if (i % 3 != 0) staging.gather_from(i, i % 3 == 1 ? shorter[i] : longer[i]);
  }
  staging.wait(staging.request(kGather, 100, 1000));
  for (uint32_t i = 0; i < 1000; ++i) {
    const size_t bytes = i < 100 || i % 3 == 0 ? 0 : i % 3 == 1 ? 16 : 64;
    EXPECT_THAT(std::vector<char>(staging.in(i), staging.in(i) + bytes), Each(longer[i][0])) << i;
    EXPECT_THAT(std::vector<char>(staging.in(i) + bytes, staging.in(i) + 64), Each('\0')) << i;
  }
}

TEST(HostTransfer, ScattersRowsAndCountsForTheTable) {
  HostTransfer host_transfer(3);
  TestStagingBuffer staging(host_transfer, 1000, 32);
  auto rows = rows_of(1000, 32);
  for (uint32_t i = 0; i < 1000; ++i) {
    if (i % 2 == 0) staging.scatter_to(i, rows[i]);
    std::memset(staging.out(i), 120, 32);
  }
  staging.request(kScatter, 0, 500);
  staging.wait(staging.request(kScatter, 500, 1000));
  EXPECT_EQ(staging.scattered(), 2u);
  for (uint32_t i = 0; i < 1000; ++i)
    EXPECT_THAT(rows[i], Each(i % 2 == 0 ? 120 : static_cast<char>(i % 100 + 1))) << i;
}

// A row is written back and fetched again, more often than the queue has entries.
TEST(HostTransfer, ServesABufferInOrder) {
  HostTransfer host_transfer(2);
  TestStagingBuffer staging(host_transfer, 300, 16);
  auto rows = rows_of(300, 16);
  for (uint32_t i = 0; i < 300; ++i) {
    staging.gather_from(i, rows[i]);
    staging.scatter_to(i, rows[i]);
  }
  for (int round = 0; round < 3 * kMaxRequests; ++round) {
    const auto value = static_cast<char>(round % 100);
    for (uint32_t i = 0; i < 300; ++i) std::memset(staging.out(i), value, 16);
    staging.request(kScatter, 0, 200);
    staging.request(kScatter, 200, 300);
    staging.wait(staging.request(kGather, 0, 300));
    ASSERT_EQ(staging.in(0)[0], value);
    ASSERT_EQ(staging.in(299)[15], value);
  }
}

TEST(HostTransfer, ServesManyBuffersThatComeAndGo) {
  HostTransfer host_transfer(3);
  std::vector<std::thread> users;
  for (uint32_t user = 0; user < 4; ++user) {
    users.emplace_back([&host_transfer, user] {
      for (uint32_t turn = 0; turn < 5; ++turn) {
        TestStagingBuffer staging(host_transfer, 200, 48);
        const auto rows = rows_of(400, 48);
        for (uint32_t round = 0; round < 50; ++round) {
          for (uint32_t i = 0; i < 200; ++i) staging.gather_from(i, rows[(i + round + user) % 400]);
          const uint64_t half = staging.request(kGather, 0, 100),
                         all = staging.request(kGather, 100, 200);
          staging.wait(half);
          ASSERT_EQ(staging.in(99)[47], rows[(99 + round + user) % 400][0]);
          staging.wait(all);
          ASSERT_EQ(staging.in(100)[0], rows[(100 + round + user) % 400][0]);
        }
      }
    });
  }
  for (std::thread& user : users) user.join();
}

TEST(HostTransfer, WakesUpAfterAPause) {
  HostTransfer host_transfer(2);
  TestStagingBuffer staging(host_transfer, 10, 16);
  const auto rows = rows_of(10, 16);
  for (uint32_t i = 0; i < 10; ++i) staging.gather_from(i, rows[i]);
  for (const int pause_ms : {0, 3, 50}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    staging.request(kWake, 0, 0);
    staging.wait(staging.request(kGather, 0, 10));
  }
  EXPECT_EQ(staging.in(9)[0], 10);
}

TEST(HostTransfer, FinishWaitsForWhatWasRequested) {
  HostTransfer host_transfer(2);
  TestStagingBuffer one(host_transfer, 100, 16), other(host_transfer, 100, 16);
  auto rows = rows_of(200, 16);
  for (uint32_t i = 0; i < 100; ++i) {
    one.scatter_to(i, rows[i]);
    other.scatter_to(i, rows[100 + i]);
  }
  for (uint64_t round = 1; round <= 20; ++round) {
    for (int piece = 0; piece < 10; ++piece) {
      one.request(kScatter, piece * 10, piece * 10 + 10);
      other.request(kScatter, piece * 10, piece * 10 + 10);
    }
    host_transfer.finish();
    EXPECT_EQ(one.scattered(), round * 10);
    EXPECT_EQ(other.scattered(), round * 10);
  }
}

TEST(HostTransfer, ABufferIsServedBeforeItIsRemoved) {
  HostTransfer host_transfer(2);
  auto rows = rows_of(50, 16);
  {
    TestStagingBuffer staging(host_transfer, 50, 16);
    for (uint32_t i = 0; i < 50; ++i) staging.scatter_to(i, rows[i]);
    for (uint32_t i = 0; i < 50; ++i) staging.request(kScatter, i, i + 1);
  }
  for (const auto& row : rows) EXPECT_THAT(row, Each('\0'));
}

TEST(HostTransfer, StopsWithBuffersOrWithout) {
  for (int i = 0; i < 20; ++i) {
    HostTransfer host_transfer(3);
    if (i % 2 == 0) TestStagingBuffer staging(host_transfer, 10, 16);
  }
}

TEST(HostTransfer, IsOneForAProcess) {
  if (available_cpus() < 4) GTEST_SKIP() << "not used with few CPUs";
  const auto host_transfer = HostTransfer::of_process();
  EXPECT_EQ(HostTransfer::of_process(), host_transfer);
  finish_host_transfers();
}

}  // namespace
}  // namespace emblem
