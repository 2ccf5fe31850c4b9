#include "core/stream.h"

#include "core/cuda_check.h"

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

void Event::record(const Context& context) {
  cuda_check(cudaEventRecord(event_, context.stream), "recording an event");
}

void Event::precede(const Context& context) const {
  cuda_check(cudaStreamWaitEvent(context.stream, event_, 0), "waiting for an event");
}

bool is_capturing(const Context& context) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(context.stream, &status), "asking for capture");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace emblem::cuda
