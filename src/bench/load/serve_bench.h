// bench/load/serve_bench.h - latency and throughput of a running inference server with the KServe
// v2 protocol.
#pragma once

#include <string>
#include <vector>

#include "bench/load/input.h"
#include "bench/load/loop.h"
#include "bench/load/target.h"
#include "bench/result/result.h"
#include "bench/result/result_files.h"

namespace emblem {

struct ServeBenchOptions {
  LoadTargetOptions target;
  LoadInputOptions input;
  // Closed loops with these numbers of concurrent requests, one after another; if `rates` is not
  // empty, open loops with these rates instead.
  std::vector<int> concurrency = {1};
  std::vector<double> rates;
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  int max_in_flight = 64;  // connections of an open loop
  bool shared_memory = false;
  double warmup = 1.0;  // seconds before measuring starts
  // Windows of this many seconds until three consecutive ones agree within `stability`, at most
  // max_windows. The last three windows are the result.
  double window = 1.0;
  int max_windows = 10;
  double stability = 0.1;
  // If above 0: a single measurement of this length, or of this number of requests, instead.
  double seconds = 0;
  int64_t requests = 0;
  // Relative tolerance of floats against the first answer to the same request; 0: all bytes must be
  // equal.
  double tolerance = 0;
};

// One result per load, in order. Each request is sent once beforehand and its answer is checked
// against the model's metadata; later answers are compared with it. Throws if the server cannot be
// reached, has no such model, or fails to answer one of these first requests.
std::vector<BenchResult> bench_serve(const ServeBenchOptions& options);

// Throws kCorruption if answers differed from the first answer to the same request, and
// kUnavailable if no request of a load was answered.
void require_answers(const std::vector<BenchResult>& results);

// One line per load with published figures for the same batch size, then the breakdown of
// latencies.
std::string serve_report(const std::vector<BenchResult>& results,
                         const std::vector<ReferenceTable>& published);

}  // namespace emblem
