#include "nn/launch.cuh"
#include "nn/precision.h"

namespace emblem::cuda {
namespace {

struct CopyFinite {
  int* overflow;
  __device__ float operator()(int64_t, float x) const {
    if (!isfinite(x)) *overflow = 1;  // whoever writes, writes the same
    return x;
  }
};

__global__ void __launch_bounds__(kThreads)
    find_overflow_kernel(const float* values, int64_t count, int* overflow) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count && !isfinite(values[i])) *overflow = 1;
}

__global__ void set_step_kernel(StepValues values, StepValues* to) { *to = values; }

}  // namespace

void set_step(const Context& context, const StepValues& values, StepValues* to) {
  set_step_kernel<<<1, 1, 0, context.stream>>>(values, to);
  check_launch("launching the values of a step");
}

void narrow_values(const Context& context, const float* from, DType type, void* to, int64_t count) {
  with_type(type, [&](auto t) {
    map(context, Write::kOverwrite, count, Copy{}, static_cast<decltype(t)*>(to), from);
  });
}

void widen_values(const Context& context, DType type, const void* from, float* to, int64_t count,
                  int* overflow) {
  with_type(type, [&](auto t) {
    const auto* values = static_cast<const decltype(t)*>(from);
    if (overflow == nullptr)
      map(context, Write::kOverwrite, count, Copy{}, to, values);
    else
      map(context, Write::kOverwrite, count, CopyFinite{overflow}, to, values);
  });
}

void find_overflow(const Context& context, const float* values, int64_t count, int* overflow) {
  if (count == 0) return;
  find_overflow_kernel<<<blocks_of(count, kThreads), kThreads, 0, context.stream>>>(values, count,
                                                                                    overflow);
  check_launch("launching the search for an overflow");
}

}  // namespace emblem::cuda
