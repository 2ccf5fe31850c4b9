// bench/loader/run.h - one measurement of a loader.
#pragma once

#include <string>
#include <vector>

#include "bench/loader/setting.h"
#include "config/feature/features.h"

namespace emblem {

struct LoaderRun {
  int64_t rows = 0;
  int64_t bytes = 0;   // bytes of input
  double seconds = 0;  // from the first batch to the last; for cold files, from opening them
  double first_batch_seconds = 0;     // opening the files and parsing the first batch
  std::vector<double> batch_seconds;  // between consecutive batches
  double parse_seconds = 0;           // summed over workers
  double producer_wait_seconds = 0;   // summed over workers
  double consumer_wait_seconds = 0;
  double cpu_seconds = 0;         // CPU time of the whole process
  int64_t peak_memory_bytes = 0;  // peak of the whole process
  double cached_share = 0;        // share of the files that was cached before the run
  RemoteStatistics remote;        // statistics of remote inputs

  double rate() const { return static_cast<double>(rows) / seconds; }
};

struct LoaderRunLimits {
  double seconds = 1;       // at most; cold files also end with the first epoch
  double step_seconds = 0;  // sleep of the consumer per batch, to simulate training
};

// Throws Error when there are no rows.
LoaderRun run_loader(const LoaderSetting& setting, const FeatureLayout& layout,
                     const LoaderRunLimits& limits);

// Sums over the first rows of an input in file order, to check that two programs read the same
// data.
struct LoaderCheck {
  int64_t rows = 0;
  double labels = 0, dense = 0;
  uint64_t keys = 0;  // modulo 2^64
};
LoaderCheck check_loader(const LoaderSetting& setting, const FeatureLayout& layout, int64_t rows);

// The files of an input; folders are expanded.
std::vector<std::string> files_of(const LoaderSetting& setting);
// The bytes of all of them.
int64_t bytes_of_files(const LoaderSetting& setting);

// The rate, in bytes per second, at which objects of a remote input arrive by parallel ranges
// and are thrown away, by 64 connections for up to `seconds`.
double measure_plain_download(const LoaderSetting& setting, double seconds);

}  // namespace emblem
