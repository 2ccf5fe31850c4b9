// bench/load/freshness.h - how long it takes until an event changes a prediction: from a message in
// a topic through online training, a delta and a server's tables to an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/result/result.h"

namespace emblem {

struct FreshnessOptions {
  std::string brokers;                     // empty: brokers in this process
  std::string topic = "emblem-freshness";  // does not exist yet, or is empty and has one partition
  int64_t probes = 200;                    // events whose way is followed
  int in_flight = 4;                       // probes in flight at a time
  double events_per_second = 2000;         // that are trained on meanwhile
  double requests_per_second = 100;        // rate of requests of 64 rows to the server meanwhile
  int64_t batch_size = 1024;
  int64_t max_wait_ms = 100;
  int64_t delta_steps = 1;
  int threads = 1;              // threads that train
  double timeout_seconds = 60;  // limit of a probe
};

// Trains a small model on a first part of events, exports and serves it in this process, trains on
// with the program at program_path() and measures. An event has a user that no other event has; it
// is in the answer when the prediction for that user changes. Stages, of which the result has p50,
// p95 and p99 next to those of the whole:
//   queue   from the event to the start of the training step that learns it
//   train   the step
//   delta   until the rows that it has changed are in a folder (delta_steps)
//   load    until an answer has them
// `progress` gets a line now and then. Throws Error when a probe takes longer than the timeout.
BenchResult bench_freshness(const FreshnessOptions& options,
                            const std::function<void(const std::string&)>& progress);

// A table of the stages.
std::string freshness_report(const BenchResult& result);

}  // namespace emblem
