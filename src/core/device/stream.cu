#include "core/device/stream.h"

#include "core/device/cuda_check.h"
#include "core/memory/allocation_fault.h"
#include "core/memory/pinned.h"

namespace emblem::cuda {

Stream::Stream(Priority priority) {
  int lowest = 0, highest = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "querying stream priorities");
  cuda_check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                          priority == Priority::kHigh ? highest : 0),
             "creating a stream");
}

Stream::~Stream() { cudaStreamDestroy(stream_); }

Event::Event() {
  cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
}

Event::~Event() { cudaEventDestroy(event_); }

void Event::record(CUstream_st* stream) {
  cuda_check(cudaEventRecord(event_, stream), "recording an event");
}

void Event::synchronize() const {
  cuda_check(cudaEventSynchronize(event_), "waiting for an event");
}

bool Event::is_reached() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status != cudaErrorNotReady) cuda_check(status, "asking for an event");
  return status == cudaSuccess;
}

void Event::make_wait(CUstream_st* stream) const {
  cuda_check(cudaStreamWaitEvent(stream, event_), "making a stream wait");
}

static void* allocate_pinned(size_t bytes) {
  void* data = nullptr;
  const cudaError_t status =
      allocation_must_fail() ? cudaErrorMemoryAllocation : cudaMallocHost(&data, bytes);
  cuda_check(status, "allocating pinned host memory");
  return data;
}

PinnedMemory::PinnedMemory(size_t bytes)
    : data_(static_cast<char*>(allocate_pinned(bytes))), bytes_(bytes) {}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

// Pages: more than anyone asks to be aligned to.
void* PinnedResource::do_allocate(size_t bytes, size_t) { return allocate_pinned(bytes); }

void PinnedResource::do_deallocate(void* data, size_t, size_t) { cudaFreeHost(data); }

void copy_async(const Context& context, void* dst, const void* src, size_t bytes) {
  cuda_check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, context.stream), "copying memory");
}

bool is_capturing(const Context& context) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(context.stream, &status), "asking for capture");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace emblem::cuda
