// core/system/trace.h - a timeline of a run: what the CPU and the GPU did when, on one clock, for
// ui.perfetto.dev and chrome://tracing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device/context.h"

namespace emblem {

class OutputFile;

namespace cuda {
class GpuActivity;
}

// Nanoseconds of the clock that traces use.
int64_t trace_now();

// Threads may add to a trace at the same time.
class Trace {
 public:
  // Opens the file (core/files/output_file.h), so that one that cannot be written fails before the
  // run. Begins to record what the GPU does too if `device` is one and CUPTI can be loaded; a
  // warning says so if not. At most one trace of a process records a GPU.
  Trace(std::string path, Device device);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Something that the calling thread did.
  void add(const char* name, int64_t begin_ns, int64_t end_ns);

  // Stops and writes the file. Call after the GPU's work is done.
  void finish();

 private:
  struct Span {
    std::string name;
    int64_t begin_ns, end_ns;
    int thread;
  };
  int thread_number();

  const std::string path_;
  std::unique_ptr<OutputFile> file_;
  const int64_t start_ns_;
  std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<uint64_t> threads_;
  int64_t left_out_ = 0;
  std::shared_ptr<cuda::GpuActivity> gpu_;
};

}  // namespace emblem
