#include "core/cuda_check.h"
#include "nn/capture.h"

namespace emblem::cuda {

Capture::~Capture() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

void Capture::record(const Context& context, const std::function<void()>& body) {
  cuda_check(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal),
             "starting to record a pass");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(context.stream, &graph);  // what was recorded is of no use
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  cuda_check(cudaStreamEndCapture(context.stream, &graph), "recording a pass");
  const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
  cudaGraphDestroy(graph);
  cuda_check(status, "making a recorded pass ready");
}

void Capture::replay(const Context& context) const {
  cuda_check(cudaGraphLaunch(graph_, context.stream), "replaying a pass");
}

}  // namespace emblem::cuda
