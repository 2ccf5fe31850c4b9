// comm/ranks_test.h - ranks of every transport in one process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "comm/open.h"
#include "comm/tcp.h"
#include "comm/threads.h"
#include "core/caught_error.h"

namespace emblem {

// Long enough for any machine: what waits in vain has found a fault.
inline constexpr double kTestSeconds = 120;

// Settings of one rank; `port` is 0 on rank 0.
inline TcpSettings tcp_test_settings(int rank, int size, uint16_t port = 0) {
  TcpSettings settings;
  settings.join.rank = rank;
  settings.join.size = size;
  settings.join.port = port;
  settings.join.host = "h" + std::to_string(rank);
  settings.join.join_seconds = kTestSeconds;
  settings.watch.silence_seconds = kTestSeconds;
  settings.collective_seconds = kTestSeconds;
  return settings;
}

using ChangeSettings = std::function<void(TcpSettings&)>;
using RankBody = std::function<void(Communicator&)>;

// Runs `body` on `size` ranks that are threads here but know each other by TCP alone. Returns what
// each threw, "" where it returned; fail() is called with that as a program would.
inline std::vector<std::string> errors_of_tcp_ranks(
    int size, const RankBody& body, const ChangeSettings& change = [](TcpSettings&) {}) {
  std::promise<uint16_t> listening;
  std::shared_future<uint16_t> port = listening.get_future().share();
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> ranks;
      try {
        TcpSettings settings = tcp_test_settings(rank, size, rank == 0 ? 0 : port.get());
        if (rank == 0)
          settings.join.on_listening = [&](uint16_t value) { listening.set_value(value); };
        change(settings);
        ranks = connect_by_tcp(settings);
        body(*ranks);
      } catch (...) {
        const Error error = caught_error();
        errors[static_cast<size_t>(rank)] = error.what();
        if (ranks) ranks->fail(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

// The ranks of mpirun, of which this process is one.
inline Communicator& mpi_test_ranks() {
  static const std::unique_ptr<Communicator> ranks = open_communicator(find_rank_place({}), "mpi");
  return *ranks;
}

struct TestRanks {
  std::string transport;
  int size;  // 0: as mpirun says

  // Runs `body` on every rank; a rank that throws fails the test.
  void run(const RankBody& body) const {
    if (transport == "mpi") {
      if (find_rank_place({}).launcher == Launcher::kNone) GTEST_SKIP() << "needs mpirun";
      ASSERT_NO_THROW(body(mpi_test_ranks()));
    } else if (transport == "threads") {
      ASSERT_NO_THROW(run_thread_ranks(size, body, kTestSeconds));
    } else {
      for (const std::string& error : errors_of_tcp_ranks(size, body)) EXPECT_EQ(error, "");
    }
  }
};

inline std::string test_name(const testing::TestParamInfo<TestRanks>& info) {
  return info.param.transport + (info.param.size == 0 ? "" : cat("_", info.param.size));
}

inline std::vector<TestRanks> all_test_ranks() {
  std::vector<TestRanks> all = {{"mpi", 0}};
  for (const char* transport : {"threads", "tcp"})
    for (const int size : {1, 2, 3, 4, 8}) all.push_back({transport, size});
  return all;
}

}  // namespace emblem
