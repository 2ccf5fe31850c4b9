// core/stream.h - streams on the GPU and points in their work.
#pragma once

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

// A point in the work of a stream that other streams can wait for.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Context& context);
  // What is enqueued on the context from now on waits for the point; the host does not.
  void precede(const Context& context) const;

 private:
  CUevent_st* event_ = nullptr;
};

// Whether what is enqueued is being captured in a graph instead of run.
bool is_capturing(const Context& context);

}  // namespace emblem::cuda
