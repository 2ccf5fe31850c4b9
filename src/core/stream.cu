#include "core/stream.h"

#include "core/cuda_check.h"
#include "core/pinned.h"

namespace emblem::cuda {

Stream::Stream(Priority priority) {
  int last = 0, first = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&last, &first), "asking for stream priorities");
  cuda_check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                          priority == Priority::kFirst ? first : 0),
             "making a stream");
}

Stream::~Stream() { cudaStreamDestroy(stream_); }

Event::Event() {
  cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
}

Event::~Event() { cudaEventDestroy(event_); }

void Event::record(CUstream_st* stream) {
  cuda_check(cudaEventRecord(event_, stream), "recording an event");
}

void Event::synchronize() const {
  cuda_check(cudaEventSynchronize(event_), "waiting for an event");
}

void Event::hold_back(CUstream_st* stream) const {
  cuda_check(cudaStreamWaitEvent(stream, event_), "making a stream wait");
}

PinnedMemory::PinnedMemory(size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  cuda_check(cudaMallocHost(&data, bytes), "allocating pinned host memory");
  data_ = static_cast<char*>(data);
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

void copy_async(const Context& context, void* dst, const void* src, size_t bytes) {
  cuda_check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, context.stream), "copying memory");
}

bool is_capturing(const Context& context) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(context.stream, &status), "asking for capture");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace emblem::cuda
