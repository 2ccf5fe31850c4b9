#include "core/graph.h"

#include "core/cuda_check.h"

namespace emblem::cuda {

Graph::Graph(const Context& context, const std::function<void()>& body) {
  cuda_check(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal),
             "starting a capture");
  try {
    body();
  } catch (...) {  // the stream must not stay in capture
    cudaGraph_t broken = nullptr;
    cudaStreamEndCapture(context.stream, &broken);
    if (broken != nullptr) cudaGraphDestroy(broken);
    cudaGetLastError();
    throw;
  }
  cuda_check(cudaStreamEndCapture(context.stream, &graph_), "ending a capture");
  const cudaError_t made = cudaGraphInstantiate(&replay_, graph_, 0);
  if (made != cudaSuccess) cudaGraphDestroy(graph_);
  cuda_check(made, "making a graph");
  if (cudaGraphUpload(replay_, context.stream) != cudaSuccess)
    cudaGetLastError();  // the first launch does it
}

Graph::~Graph() {
  cudaGraphExecDestroy(replay_);
  cudaGraphDestroy(graph_);
}

void Graph::launch(const Context& context) const {
  cuda_check(cudaGraphLaunch(replay_, context.stream), "launching a graph");
}

}  // namespace emblem::cuda
