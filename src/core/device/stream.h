// core/device/stream.h - CUDA streams and events. CUDA builds only.
#pragma once

#include <cstddef>

#include "core/device/context.h"

struct CUevent_st;

namespace emblem::cuda {

class Stream {
 public:
  // kHigh: its kernels are scheduled before those of other streams.
  enum class Priority { kDefault, kHigh };
  explicit Stream(Priority priority = Priority::kDefault);
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
  bool is_reached() const;                    // callable from any thread
  void make_wait(CUstream_st* stream) const;  // later work on `stream` waits for it

 private:
  CUevent_st* event_ = nullptr;
};

// Copies between device memory and pinned host memory. Asynchronous.
void copy_async(const Context& context, void* dst, const void* src, size_t bytes);

// Whether the stream is being captured in a CUDA graph.
bool is_capturing(const Context& context);

}  // namespace emblem::cuda
