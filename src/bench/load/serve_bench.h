// bench/load/serve_bench.h - how a running inference server answers under load: any that speaks the
// KServe v2 protocol.
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
  // Closed loops with so many requests under way, one after another; where there are rates, open
  // loops with these instead.
  std::vector<int> concurrency = {1};
  std::vector<double> rates;
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  int max_in_flight = 64;  // connections of an open loop
  bool shared_memory = false;
  double warmup = 1.0;  // seconds before anything counts
  // Windows of so many seconds until three in a row agree within `stability`, or there are
  // max_windows; of which the last three count.
  double window = 1.0;
  int max_windows = 10;
  double stability = 0.1;
  // Where above 0: one measurement of this length, or of so many requests, instead.
  double seconds = 0;
  int64_t requests = 0;
  // How far a float of an answer may be from the same request's first answer, as a share of
  // it; 0: all bytes must be equal.
  double tolerance = 0;
};

// One result for each load, in order. Each request is sent once beforehand and its answer checked
// against the model's metadata; later answers to it are compared with that one. Throws when the
// server cannot be reached, has no such model, or does not answer these first requests rightly.
std::vector<BenchResult> bench_serve(const ServeBenchOptions& options);

// Throws kCorruption when answers differed from those to the same request before, and kUnavailable
// when a load was not answered at all.
void require_answers(const std::vector<BenchResult>& results);

// A line a load, each followed by published figures for the same batch; then where the time goes.
std::string serve_report(const std::vector<BenchResult>& results,
                         const std::vector<ReferenceTable>& published);

}  // namespace emblem
