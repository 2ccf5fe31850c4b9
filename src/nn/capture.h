// nn/capture.h - the kernels of a pass, recorded once and replayed at once. CUDA builds only.
#pragma once

#include <functional>

#include "core/context.h"

struct CUgraphExec_st;

namespace emblem::cuda {

class Capture {
 public:
  Capture() = default;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Whether the stream of the context can be recorded at all: the default stream cannot.
  static bool possible(const Context& context) { return context.stream != nullptr; }

  bool recorded() const { return graph_ != nullptr; }
  // Records what `body` enqueues on the context's stream; nothing of it runs yet. `body` must not
  // allocate, wait or use another stream.
  void record(const Context& context, const std::function<void()>& body);
  // Enqueues it all.
  void replay(const Context& context) const;

 private:
  CUgraphExec_st* graph_ = nullptr;
};

}  // namespace emblem::cuda
