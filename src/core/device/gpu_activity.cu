#include "core/device/gpu_activity.h"

#include <cxxabi.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "core/system/dynamic_library.h"
#include "core/system/trace.h"
#include "emblem/error.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#define EMBLEM_HAS_CUPTI 1
#else
#define EMBLEM_HAS_CUPTI 0
#endif

namespace emblem::cuda {

void push_range(const char* name) { nvtxRangePushA(name); }
void pop_range() { nvtxRangePop(); }

#if EMBLEM_HAS_CUPTI
namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;
constexpr size_t kMostSpans = 4'000'000;

struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityRegisterTimestampCallback) register_clock;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next;
};

// CUPTI calls plain functions without an argument of ours, so what they share is here.
struct Recording {
  std::mutex mutex;
  std::optional<Cupti> cupti;
  std::vector<GpuSpan> spans;
  int64_t left_out = 0;
};
Recording recording;

// Nothing where there is no such library.
std::optional<Cupti> load() {
  for (const char* name : {"libcupti.so.13", "libcupti.so", "/usr/local/cuda/lib64/libcupti.so",
                           "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"}) {
    try {
      const DynamicLibrary library(name, "");
      Cupti cupti;
      library.find("cuptiActivityRegisterCallbacks", cupti.register_callbacks);
      library.find("cuptiActivityRegisterTimestampCallback", cupti.register_clock);
      library.find("cuptiActivityEnable", cupti.enable);
      library.find("cuptiActivityDisable", cupti.disable);
      library.find("cuptiActivityFlushAll", cupti.flush);
      library.find("cuptiActivityGetNextRecord", cupti.next);
      return cupti;
    } catch (const Error&) {  // another name
    }
  }
  return {};
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

void add(GpuSpan span) {
  if (recording.spans.size() < kMostSpans)
    recording.spans.push_back(std::move(span));
  else
    ++recording.left_out;
}

template <class Record>
GpuSpan span_of(std::string name, const Record& record, int64_t bytes) {
  return {std::move(name), static_cast<int64_t>(record.start), static_cast<int64_t>(record.end),
          record.streamId, bytes};
}

void take(const CUpti_Activity* activity) {
  switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(activity);
      return add(span_of(kernel.name ? demangled(kernel.name) : "kernel", kernel, 0));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(activity);
      const char* name = copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to device"
                         : copy.copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to host"
                                                                            : "copy";
      return add(span_of(name, copy, static_cast<int64_t>(copy.bytes)));
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = *reinterpret_cast<const CUpti_ActivityMemset4*>(activity);
      return add(span_of("set memory", set, static_cast<int64_t>(set.bytes)));
    }
    default:
      return;
  }
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  const std::lock_guard lock(recording.mutex);
  CUpti_Activity* activity = nullptr;
  while (recording.cupti->next(buffer, valid_bytes, &activity) == CUPTI_SUCCESS) take(activity);
  std::free(buffer);
}

uint64_t CUPTIAPI clock_of_traces() { return static_cast<uint64_t>(trace_now()); }

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

}  // namespace

GpuActivity::GpuActivity() {
  const std::lock_guard lock(recording.mutex);
  if (!recording.cupti) recording.cupti = load();
  if (!recording.cupti) {
    problem_ = "libcupti was not found (it is part of the CUDA toolkit; see LD_LIBRARY_PATH)";
    return;
  }
  const Cupti& cupti = *recording.cupti;
  recording.spans.clear();
  recording.left_out = 0;
  CUptiResult status = cupti.register_clock(clock_of_traces);
  if (status == CUPTI_SUCCESS) status = cupti.register_callbacks(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind : kKinds)
    if (status == CUPTI_SUCCESS) status = cupti.enable(kind);
  if (status != CUPTI_SUCCESS)
    problem_ = cat("CUPTI refused to record (status ", static_cast<int>(status),
                   "; is another profiler attached?)");
}

std::vector<GpuSpan> GpuActivity::stop() {
  if (!problem_.empty()) return {};
  for (const CUpti_ActivityKind kind : kKinds) recording.cupti->disable(kind);
  recording.cupti->flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const std::lock_guard lock(recording.mutex);
  return std::move(recording.spans);
}

int64_t GpuActivity::left_out() const { return recording.left_out; }

#else

GpuActivity::GpuActivity() : problem_("this program was built without cupti.h") {}
std::vector<GpuSpan> GpuActivity::stop() { return {}; }
int64_t GpuActivity::left_out() const { return 0; }

#endif

GpuActivity::~GpuActivity() { stop(); }

}  // namespace emblem::cuda
