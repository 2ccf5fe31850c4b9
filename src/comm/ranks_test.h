// comm/ranks_test.h - ranks of every transport in one process, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "comm/nccl/open_device.h"
#include "comm/open.h"
#include "comm/tcp/tcp.h"
#include "comm/threads/threads.h"
#include "core/device/device_test.h"
#include "core/device/gpu.h"
#include "core/system/caught_error.h"

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
using TestRankBody = std::function<void(Communicator&)>;

// Runs `body` on `size` ranks that are threads here but know each other by TCP alone. Returns what
// each threw, "" where it returned; fail() is called with that as a program would.
inline std::vector<std::string> errors_of_tcp_ranks(
    int size, const TestRankBody& body, const ChangeSettings& change = [](TcpSettings&) {}) {
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

// The ranks of any launcher, of which this process is one, connected as "auto" says.
inline Communicator& launched_test_ranks() {
  static const std::unique_ptr<Communicator> ranks = open_communicator(find_rank_place({}), "auto");
  return *ranks;
}

// The context of a rank: a stream of its own on a GPU, which ranks share where there are fewer.
class RankContext {
 public:
  RankContext(const Communicator& ranks, Device device) {
    context_.device = device;
    dispatch(
        device, [] {}, [&] { cuda::use_gpu(ranks.rank() % cuda::gpu_count()); });
    stream_ = use_own_stream(context_);
  }
  operator const Context&() const { return context_; }
  const Context& get() const { return context_; }

 private:
  Context context_;
  std::shared_ptr<cuda::Stream> stream_;
};

struct TestRanks {
  std::string transport;
  int size;  // 0: as the launcher says
  Device device = Device::kCpu;

  // Runs `body` on every rank; a rank that throws fails the test.
  void run(const TestRankBody& body) const {
    if (!device_is_usable(device)) GTEST_SKIP() << "no CUDA device here";
    if (size == 0 && find_rank_place({}).launcher == Launcher::kNone)
      GTEST_SKIP() << "needs a launcher: mpirun, or RANK and WORLD_SIZE";
    if (transport == "mpi") {
      ASSERT_NO_THROW(body(mpi_test_ranks()));
    } else if (transport == "nccl" && size == 0) {
      ASSERT_NO_THROW(run_on_device(launched_test_ranks(), body));
    } else if (transport == "nccl") {
      ASSERT_NO_THROW(run_thread_ranks(
          size, [&](Communicator& control) { run_on_device(control, body); }, kTestSeconds));
    } else if (transport == "staged") {
      const TestRankBody staged = [&](Communicator& control) { run_on_device(control, body); };
      for (const std::string& error : errors_of_tcp_ranks(size, staged)) EXPECT_EQ(error, "");
    } else if (transport == "threads") {
      ASSERT_NO_THROW(run_thread_ranks(size, body, kTestSeconds));
    } else {
      for (const std::string& error : errors_of_tcp_ranks(size, body)) EXPECT_EQ(error, "");
    }
  }

 private:
  void run_on_device(Communicator& control, const TestRankBody& body) const {
    const RankContext context(control, device);
    const SetVariable set = [](const char* name, const std::string& value) {
      ::setenv(name, value.c_str(), /*overwrite=*/1);
    };
    const auto ranks = open_device_communicator(context, control, transport, kTestSeconds, set);
    body(*ranks);
  }
};

inline std::string test_name(const testing::TestParamInfo<TestRanks>& info) {
  return cat(info.param.transport, info.param.size == 0 ? "" : cat("_", info.param.size),
             info.param.device == Device::kCuda ? "_cuda" : "");
}

inline std::vector<TestRanks> all_test_ranks() {
  std::vector<TestRanks> all = {{"mpi", 0}};
  for (const char* transport : {"threads", "tcp"})
    for (const int size : {1, 2, 3, 4, 8}) all.push_back({transport, size});
  for (const char* transport : {"threads", "staged"})
    for (const int size : {1, 2, 3, 4, 8}) all.push_back({transport, size, Device::kCuda});
  // NCCL connects ranks that share a GPU only if they are processes: tests/comm_gpu_test.py.
  all.push_back({"nccl", 0, Device::kCuda});
  all.push_back({"nccl", 1, Device::kCuda});
  return all;
}

}  // namespace emblem
