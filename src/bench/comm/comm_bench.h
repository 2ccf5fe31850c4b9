// bench/comm/comm_bench.h - latency and rate of the collectives of a communicator by size, compared
// with what the machine can do without it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/result/result.h"
#include "comm/communicator.h"

namespace emblem {

// "exchange", "gather_all", "broadcast", "sum_all", "barrier"
const std::vector<std::string>& collective_names();

struct CommBenchOptions {
  std::vector<std::string> collectives;  // empty: all of the device
  // Bytes of a rank's whole buffer: what it sends in an exchange, what it has after a gather_all.
  std::vector<int64_t> sizes = {8, 1024, 65536, 1 << 20, 16 << 20};
  double seconds = 0.3;  // time for each measurement
};

// Equal on all ranks that run the same benchmark.
uint64_t hash_of(const CommBenchOptions& options);

// Collectives that exist for memory of the device; sums are of host memory.
std::vector<std::string> collectives_of(Device device);

// Called on every rank, with a context of the device whose memory is exchanged. Checks the answer
// of every collective, then measures it. Rank 0 gets one result for each collective and size,
// `show` is called with each of them there; the others get none. Throws kCancelled after Ctrl-C.
std::vector<BenchResult> bench_comm(const Context& context, Communicator& ranks,
                                    const CommBenchOptions& options,
                                    const std::function<void(const BenchResult&)>& show);

}  // namespace emblem
