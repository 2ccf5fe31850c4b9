#include "core/device/cuda_check.h"
#include "core/device/stage_events.h"
#include "core/device/stream.h"

namespace emblem::cuda {
namespace {

// Stages that may be under way: some steps' worth, so that reading one waits for nothing.
constexpr size_t kMostPending = 64;

}  // namespace

StageEvents::~StageEvents() {
  for (cudaEvent_t event : all_) cudaEventDestroy(event);
}

CUevent_st* StageEvents::record(const Context& context) {
  if (free_.empty()) {
    cudaEvent_t made = nullptr;
    cuda_check(cudaEventCreate(&made), "making an event");
    all_.push_back(made);
    free_.push_back(made);
  }
  CUevent_st* event = free_.back();
  free_.pop_back();
  cuda_check(cudaEventRecord(event, context.stream), "recording an event");
  return event;
}

void StageEvents::begin(const Context& context) {
  if (begin_ != nullptr) free_.push_back(begin_);
  begin_ = is_capturing(context) ? nullptr : record(context);
}

void StageEvents::end(const Context& context, double& seconds) {
  if (begin_ == nullptr || is_capturing(context)) return;
  pending_.push_back({begin_, record(context), &seconds});
  begin_ = nullptr;
  while (pending_.size() > kMostPending) read_oldest();
}

void StageEvents::read_oldest() {
  const Stage stage = pending_.front();
  pending_.pop_front();
  float milliseconds = 0;
  cuda_check(cudaEventSynchronize(stage.end), "waiting for an event");
  cuda_check(cudaEventElapsedTime(&milliseconds, stage.begin, stage.end), "reading events");
  *stage.seconds += milliseconds * 1e-3;
  free_.push_back(stage.begin);
  free_.push_back(stage.end);
}

void StageEvents::collect() {
  while (!pending_.empty()) read_oldest();
}

}  // namespace emblem::cuda
