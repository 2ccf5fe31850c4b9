#include "core/math/random.h"
#include "nn/ops/dense/dropout.h"
#include "nn/ops/launch.cuh"

namespace emblem {
namespace {

// Four elements, and so two draws, a thread.
__global__ void __launch_bounds__(cuda::kThreads)
    draw_mask_kernel(int64_t count, uint64_t seed, uint64_t stream, const StepInputs* step,
                     uint32_t threshold, uint8_t* kept) {
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x) * 4;
  stream = Dropout::stream_of(stream, step->draw);
  for (int64_t i = begin; i < begin + 4 && i < count; i += 2) {
    const uint64_t bits = random_bits(seed, stream, i / 2);
    kept[i] = static_cast<uint32_t>(bits) >= threshold;
    if (i + 1 < count) kept[i + 1] = static_cast<uint32_t>(bits >> 32) >= threshold;
  }
}

struct Masked {
  float factor;
  __device__ float operator()(int64_t, float x, uint8_t kept) const {
    return kept != 0 ? factor * x : 0.0f;
  }
};

}  // namespace

void Dropout::forward_cuda(const OpContext& pass) {
  const int64_t count = pass.rows * out().cols;
  dropped_ = pass.phase == Phase::kTrain;
  if (dropped_ && count > 0) {
    draw_mask_kernel<<<cuda::blocks_of(count, 4 * cuda::kThreads), cuda::kThreads, 0,
                       pass.context.stream>>>(count, pass.seed, stream_, pass.step, threshold(),
                                              kept_.data());
    cuda::check_launch("launching the draw of a dropout mask");
  }
  apply_cuda(pass, in(0).value_data, Write::kOverwrite, out().value_data);
}

void Dropout::backward_cuda(const OpContext& pass) {
  apply_cuda(pass, out().gradient_data, write(0), in(0).gradient_data);
}

void Dropout::apply_cuda(const OpContext& pass, const void* from, Write write, void* to) const {
  const int64_t count = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    if (dropped_) {
      cuda::map(pass.context, write, count, Masked{1.0f / (1.0f - ratio_)}, static_cast<T*>(to),
                static_cast<const T*>(from), kept_.data());
    } else {
      cuda::map(pass.context, write, count, cuda::Copy{}, static_cast<T*>(to),
                static_cast<const T*>(from));
    }
  });
}

}  // namespace emblem
