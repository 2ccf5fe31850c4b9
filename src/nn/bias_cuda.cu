#include "nn/bias.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

struct AddBias {
  const float* bias;
  int64_t cols;
  __device__ float operator()(int64_t i, float x) const {
    return x + bias[cuda::column_of(i, cols)];
  }
};

struct Copy {
  __device__ float operator()(int64_t, float x) const { return x; }
};

struct Element {
  const float* values;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sum)[1]) const {
    sum[0] = values[r * cols + j];
  }
};

}  // namespace

void BiasOp::forward_cuda(const Pass& pass) {
  const int64_t cols = out().cols;
  cuda::map(pass.context, Write::kOverwrite, pass.rows * cols,
            AddBias{pass.parameters + bias_, cols}, out().value, in(0).value);
}

void BiasOp::backward_cuda(const Pass& pass) {
  const int64_t cols = out().cols;
  cuda::column_sums<1>(pass.context, pass.rows, cols, Element{out().gradient, cols}, pass.workspace,
                       {{pass.gradients + bias_}});
  cuda::map(pass.context, write(0), pass.rows * cols, Copy{}, in(0).gradient, out().gradient);
}

}  // namespace emblem
