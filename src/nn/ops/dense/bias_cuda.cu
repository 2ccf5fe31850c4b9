#include "nn/ops/dense/bias.h"
#include "nn/ops/launch.cuh"

namespace emblem {
namespace {

struct AddBias {
  const float* bias;
  int64_t cols;
  __device__ float operator()(int64_t i, float x) const {
    return x + bias[cuda::column_of(i, cols)];
  }
};

template <class T>
struct Element {
  const T* values;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sum)[1]) const {
    sum[0] = cuda::widen(values[r * cols + j]);
  }
};

}  // namespace

void BiasOp::forward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * cols,
              AddBias{pass.parameters + bias_, cols}, out().value<T>(), in(0).value<T>());
  });
}

void BiasOp::backward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::column_sums<1>(pass.context, pass.rows, cols, Element<T>{out().gradient<T>(), cols},
                         pass.workspace, {{pass.gradients + bias_}});
    cuda::map(pass.context, write(0), pass.rows * cols, cuda::Copy{}, in(0).gradient<T>(),
              out().gradient<T>());
  });
}

}  // namespace emblem
