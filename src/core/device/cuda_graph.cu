#include "core/device/cuda_graph.h"

#include "core/device/cuda_check.h"
#include "core/memory/allocation_fault.h"

namespace emblem::cuda {
namespace {
constexpr int kTries = 20;
}  // namespace

CudaGraph::CudaGraph(const Context& context, const std::function<void()>& body) {
  for (int tries = kTries; graph_ == nullptr; --tries) record(context, body, tries == 1);
  const cudaError_t made = allocation_must_fail() ? cudaErrorMemoryAllocation
                                                  : cudaGraphInstantiate(&replay_, graph_, 0);
  if (made != cudaSuccess) cudaGraphDestroy(graph_);
  cuda_check(made, "making a graph");
  if (cudaGraphUpload(replay_, context.stream) != cudaSuccess)
    cudaGetLastError();  // the first launch does it
}

// What other threads do meanwhile, starting a library or waiting for the whole device, may spoil a
// capture through no fault of its body; then graph_ stays null, unless this was the last try.
void CudaGraph::record(const Context& context, const std::function<void()>& body, bool last) {
  cuda_check(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeThreadLocal),
             "starting a capture");
  try {
    body();
  } catch (...) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(context.stream, &status);
    end(context);  // the stream must not stay in capture
    if (status != cudaStreamCaptureStatusInvalidated || last) throw;
    return;
  }
  const cudaError_t ended = cudaStreamEndCapture(context.stream, &graph_);
  if (ended != cudaErrorStreamCaptureInvalidated || last) cuda_check(ended, "ending a capture");
  cudaGetLastError();
}

void CudaGraph::end(const Context& context) {
  cudaGraph_t broken = nullptr;
  cudaStreamEndCapture(context.stream, &broken);
  if (broken != nullptr) cudaGraphDestroy(broken);
  cudaGetLastError();
}

CudaGraph::~CudaGraph() {
  cudaGraphExecDestroy(replay_);
  cudaGraphDestroy(graph_);
}

void CudaGraph::launch(const Context& context) const {
  cuda_check(cudaGraphLaunch(replay_, context.stream), "launching a graph");
}

void replay(const Context& context, std::shared_ptr<CudaGraph>& recorded,
            const std::function<void()>& body) {
  if (recorded == nullptr) {
    try {
      recorded = std::make_shared<CudaGraph>(context, body);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      return body();
    }
  }
  recorded->launch(context);
}

}  // namespace emblem::cuda
