// core/device/cuda_graph.h - work on a GPU that is captured once and replayed.
#pragma once

#include <functional>
#include <memory>

#include "core/device/context.h"

struct CUgraph_st;
struct CUgraphExec_st;

namespace emblem::cuda {

class CudaGraph {
 public:
  // Captures what `body` enqueues on the context's stream, and on streams that it makes wait for
  // it, without running it. The stream must be one of its own (core/device/stream.h). `body` may be
  // called again, should other threads have spoiled the capture.
  CudaGraph(const Context& context, const std::function<void()>& body);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Asynchronous.
  void launch(const Context& context) const;

 private:
  void record(const Context& context, const std::function<void()>& body, bool last);
  static void end(const Context& context);

  CUgraph_st* graph_ = nullptr;
  CUgraphExec_st* replay_ = nullptr;
};

// Launches `recorded`, which is made of `body` if it is null. Where there is no memory for it, runs
// `body` instead and leaves it null.
void replay(const Context& context, std::shared_ptr<CudaGraph>& recorded,
            const std::function<void()>& body);

}  // namespace emblem::cuda
