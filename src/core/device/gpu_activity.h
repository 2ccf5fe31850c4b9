// core/device/gpu_activity.h - the kernels and copies that run on GPUs, recorded by CUPTI, which is
// loaded when asked for. CUDA builds only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emblem::cuda {

struct GpuSpan {
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;  // times by core/system/trace.h's clock
  uint32_t stream = 0;
  int64_t bytes = 0;  // size of a copy
};

class GpuActivity {
 public:
  // Begins to record. At most one at a time, as CUPTI knows only one.
  GpuActivity();
  ~GpuActivity();
  GpuActivity(const GpuActivity&) = delete;
  GpuActivity& operator=(const GpuActivity&) = delete;

  // Why nothing is recorded; empty: it is.
  const std::string& problem() const { return problem_; }

  // Ends recording.
  std::vector<GpuSpan> stop();
  int64_t left_out() const;  // spans that were too many

 private:
  std::string problem_;
};

// Names what this thread does for profilers that are attached from outside (NVTX); without one it
// costs nanoseconds. Ranges of a thread are nested.
void push_range(const char* name);
void pop_range();

}  // namespace emblem::cuda
