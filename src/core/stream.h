// core/stream.h - streams on the GPU, and points in their work. CUDA builds only.
#pragma once

#include <cstddef>

#include "core/context.h"

struct CUevent_st;

namespace emblem::cuda {

class Stream {
 public:
  // kFirst: its kernels get room on the GPU before those of others.
  enum class Priority { kUsual, kFirst };
  explicit Stream(Priority priority = Priority::kUsual);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream_st* get() const { return stream_; }

 private:
  CUstream_st* stream_ = nullptr;
};

// A point in the work of a stream; before the first record() it has been reached already.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(CUstream_st* stream);
  void synchronize() const;                   // blocks until it has been reached
  void hold_back(CUstream_st* stream) const;  // work enqueued on `stream` from now on waits for it

 private:
  CUevent_st* event_ = nullptr;
};

// Between device memory and pinned host memory; does not wait.
void copy_async(const Context& context, void* dst, const void* src, size_t bytes);

// Whether what is enqueued is being captured in a graph instead of run.
bool is_capturing(const Context& context);

}  // namespace emblem::cuda
