#include "comm/watch.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "comm/ranks_test.h"
#include "comm/tcp/socket.h"
#include "core/system/log.h"
#include "core/threads/becomes_true_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

std::pair<FileDescriptor, FileDescriptor> connected_pair() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

const std::vector<RankHost> kHosts = {{"a", 0}, {"b", 0}};

std::vector<FileDescriptor> control_of_zero(FileDescriptor one) {
  std::vector<FileDescriptor> control;
  control.emplace_back(-1);
  control.push_back(std::move(one));
  return control;
}

std::string error_of(const Watch& watch) {
  try {
    watch.check();
  } catch (const RankError& error) {
    return error.what();
  }
  return "";
}

TEST(Watch, NoticesAClosedConnection) {
  auto [zero, one] = connected_pair();
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), {});
  EXPECT_NO_THROW(watch.check());
  one.close();
  ASSERT_TRUE(becomes_true([&] { return !error_of(watch).empty(); }));
  EXPECT_EQ(error_of(watch),
            "rank 1 (host b): connection closed without a message; it was killed or it crashed");
}

TEST(Watch, NoticesSilence) {
  auto [zero, one] = connected_pair();
  WatchSettings settings;
  settings.heartbeat_seconds = 0.05;
  settings.silence_seconds = 0.3;
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), settings);
  ASSERT_TRUE(becomes_true([&] { return !error_of(watch).empty(); }));
  EXPECT_THAT(error_of(watch), HasSubstr("rank 1 (host b): no heartbeat for 0.3 s"));
}

TEST(Watch, HeartbeatsAreASignOfLife) {
  auto [zero, one] = connected_pair();
  WatchSettings settings;
  settings.heartbeat_seconds = 0.05;
  settings.silence_seconds = 60;
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), settings);
  MessageReader reader(MessageReader::Start::kMessage);
  int beats = 0;
  ASSERT_TRUE(becomes_true([&] {
    const ReceivedMessage received = receive_message(one.get(), reader);
    if (received.message && received.message->kind == MessageKind::kHeartbeat) ++beats;
    return beats == 3;
  }));
  EXPECT_NO_THROW(watch.check());
}

TEST(Watch, PassesOnWhatARankSaid) {
  auto [zero, one] = connected_pair();
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), {});
  send_all(one.get(), encode(Failure{1, "rank 1 (host b): disk full"}),
           std::chrono::steady_clock::now() + std::chrono::seconds(60));
  one.close();
  ASSERT_TRUE(becomes_true([&] { return !error_of(watch).empty(); }));
  EXPECT_EQ(error_of(watch), "rank 1 (host b): disk full");
}

TEST(Watch, GarbageOnAConnectionIsAFailure) {
  auto [zero, one] = connected_pair();
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), {});
  send_all(one.get(), "hello, world", std::chrono::steady_clock::now() + std::chrono::seconds(60));
  ASSERT_TRUE(becomes_true([&] { return !error_of(watch).empty(); }));
  EXPECT_THAT(error_of(watch), HasSubstr("rank 1 (host b): connection lost: not a message"));
}

void wait_after_a_failure() {
  auto [zero, one] = connected_pair();
  WatchSettings settings;
  settings.stuck_seconds = 0.2;
  settings.on_stuck = [](const std::string& failure) {
    log_error(failure);
    std::_Exit(1);
  };
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), settings);
  one.close();
  for (;;) ::pause();
}

TEST(WatchDeathTest, AProgramCanEndAProcessThatDoesNotLook) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(wait_after_a_failure(), testing::ExitedWithCode(1),
              "rank 1 .host b.: connection closed");
}

TEST(Watch, CallsTheFunctionOnceThatEndsAHangingCall) {
  auto [zero, one] = connected_pair();
  auto [hanging, freeing] = connected_pair();
  std::atomic<int> calls = 0;
  std::string line;
  WatchSettings settings;
  settings.heartbeat_seconds = 0.02;
  settings.stuck_seconds = 0.1;
  settings.on_stuck = [&, end = &freeing](const std::string& failure) {
    line = failure;
    ++calls;
    end->close();
  };
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), settings);
  one.close();
  pollfd waiting = {hanging.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, /*timeout=*/60000), 1);  // a call that looks at no failure
  ASSERT_EQ(calls, 1);
  EXPECT_THAT(line, HasSubstr("rank 1 (host b): connection closed"));
  EXPECT_EQ(error_of(watch), line);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(calls, 1);
}

TEST(Watch, WithoutAFunctionAHangingCallIsLeftAlone) {
  auto [zero, one] = connected_pair();
  WatchSettings settings;
  settings.stuck_seconds = 0;
  Watch watch(0, kHosts, control_of_zero(std::move(zero)), settings);
  one.close();
  ASSERT_TRUE(becomes_true([&] { return !error_of(watch).empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(error_of(watch), HasSubstr("connection closed"));
}

// Every rank but `rank` waits for it in a collective; it calls `end`.
std::vector<std::string> errors_when(int size, int rank, const TestRankBody& end) {
  return errors_of_tcp_ranks(size, [&](Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() == rank) end(ranks);
    for (;;) ranks.barrier();
  });
}

TEST(TcpFailure, IsToldToAllRanksInOneLine) {
  for (const int rank : {0, 1, 3}) {
    const auto errors = errors_when(
        4, rank, [](Communicator&) { throw Error(ErrorCode::kUnavailable, "disk full"); });
    const std::string line =
        "rank " + std::to_string(rank) + " (host h" + std::to_string(rank) + "): disk full";
    for (int r = 0; r < 4; ++r)
      EXPECT_EQ(errors[static_cast<size_t>(r)], r == rank ? "disk full" : line);
  }
}

TEST(TcpFailure, WakesARankThatDoesNotExchange) {
  const auto errors = errors_of_tcp_ranks(3, [](Communicator& ranks) {
    if (ranks.rank() == 2) throw Error(ErrorCode::kUnavailable, "disk full");
    EXPECT_TRUE(becomes_true([&] {
      try {
        ranks.check();
      } catch (const RankError& error) {
        return error.rank() == 2;
      }
      return false;
    }));
    ranks.check();
  });
  EXPECT_EQ(errors[0], "rank 2 (host h2): disk full");
  EXPECT_EQ(errors[1], errors[0]);
}

TEST(TcpFailure, NamesARankThatDoesNotTakePart) {
  std::atomic<int> waiting{2};
  const auto errors = errors_of_tcp_ranks(
      3,
      [&](Communicator& ranks) {
        if (ranks.rank() != 1) {
          try {
            ranks.barrier();
          } catch (...) {
            --waiting;
            throw;
          }
        }
        EXPECT_TRUE(becomes_true([&] { return waiting == 0; }));
      },
      [](TcpSettings& settings) { settings.collective_seconds = 0.3; });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 (host h1): timed out after 0.3 s in exchange 0: "),
                               HasSubstr("its process is alive but does not take part")));
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(TcpFailure, SaysWhichSizesDiffer) {
  const auto errors = errors_of_tcp_ranks(2, [](Communicator& ranks) {
    std::vector<char> bytes(ranks.rank() == 0 ? 8 : 16);
    ranks.broadcast(Context{}, {bytes.data(), bytes.size()}, 0);
    ranks.barrier();
  });
  EXPECT_THAT(errors[1], HasSubstr("rank 0 sends 8 bytes in exchange 0, rank 1 expects 16"));
  EXPECT_THAT(errors[0], HasSubstr("rank 1 (host h1): rank 0 sends 8 bytes"));
}

TEST(TcpFailure, SaysThatARankLeft) {
  const auto errors = errors_of_tcp_ranks(
      2,
      [](Communicator& ranks) {
        if (ranks.rank() == 0) ranks.barrier();
      },
      [](TcpSettings& settings) { settings.watch.leave_seconds = 0.1; });
  EXPECT_THAT(
      errors[0],
      HasSubstr("rank 1 (host h1): connection closed; it was killed, it crashed or it left"));
  EXPECT_EQ(errors[1], "");
}

TEST(TcpFailure, OfOneRankInManyRandomJobsNeverHangs) {
  for (int job = 0; job < 30; ++job) {
    const int size = 2 + job % 3, victim = job % size, rounds = job % 7;
    const auto errors = errors_of_tcp_ranks(size, [&](Communicator& ranks) {
      std::vector<char> mine(1000u * static_cast<size_t>(job)),
          all(mine.size() * static_cast<size_t>(size));
      for (int round = 0;; ++round) {
        if (ranks.rank() == victim && round == rounds) throw Error(ErrorCode::kInternal, "planned");
        ranks.gather_all(Context{}, {mine.data(), mine.size()}, {all.data(), all.size()});
      }
    });
    for (int r = 0; r < size; ++r)
      EXPECT_THAT(errors[static_cast<size_t>(r)],
                  r == victim ? "planned" : cat("rank ", victim, " (host h", victim, "): planned"));
  }
}

}  // namespace
}  // namespace emblem
