#include "kernels/matmul_cuda.h"
#include "nn/activation.h"
#include "nn/launch.cuh"
#include "nn/linear.h"

namespace emblem {

// Planned for one number of rows; where a product and what follows it are not available as one,
// it is planned without.
struct Linear::Products {
  int64_t rows = 0;
  std::unique_ptr<cuda::Matmul> forward, to_input, to_weight;
  bool adds_bias = false, activates = false;  // in forward
  bool sums_bias_gradient = false;            // in to_weight
};

namespace {

constexpr size_t kMostPlans =
    8;  // numbers of rows: few, the full batch and what is left at the end

template <class F, bool kBias>
struct Finish {
  const float* bias;
  int64_t cols;
  __device__ float operator()(int64_t i, float x) const {
    return F::value(kBias ? x + bias[cuda::column_of(i, cols)] : x);
  }
};

template <class F>
struct UndoActivation {
  __device__ float operator()(int64_t, float dy, float y) const { return dy * F::slope(y); }
};

// dz = dy f'(y), in place, and its sum over rows.
template <class F>
struct UndoAndSum {
  float* dz;
  const float* y;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sum)[1]) const {
    const int64_t i = r * cols + j;
    sum[0] = dz[i] *= F::slope(y[i]);
  }
};

// ---- one unit: a vector in the place of the weight matrix ----

template <class F>
__global__ void __launch_bounds__(cuda::kThreads)
    one_unit_kernel(int64_t rows, int64_t cols, const float* x, const float* weight,
                    const float* bias, float* y) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) sum += x[r * cols + j] * weight[j];
  sum = cuda::warp_sum(sum);
  if (threadIdx.x == 0) y[r] = F::value(bias == nullptr ? sum : sum + *bias);
}

template <bool kAdd>
__global__ void __launch_bounds__(cuda::kThreads)
    one_unit_to_input_kernel(int64_t rows, int64_t cols, const float* dz, const float* weight,
                             float* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float* row = dx + r * cols;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    row[j] = (kAdd ? row[j] : 0.0f) + dz[r] * weight[j];
}

struct OneUnitWeight {
  const float *dz, *x;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sum)[1]) const {
    sum[0] = dz[r] * x[r * cols + j];
  }
};

}  // namespace

Linear::Products& Linear::products_for(const Pass& pass) {
  for (const auto& planned : products_) {
    if (planned->rows == pass.rows) return *planned;
  }
  if (products_.size() == kMostPlans) products_.erase(products_.begin());
  Products& p = *products_.emplace_back(std::make_shared<Products>());
  p.rows = pass.rows;

  cuda::MatmulPlan forward{pass.rows,
                           units_,
                           inputs_,
                           Transpose::kNo,
                           Transpose::kYes,
                           in(0).value,
                           pass.parameters + weight_,
                           out().value};
  const bool relu = activation_ == Activation::kRelu;
  if (bias_ >= 0 || relu) {
    cuda::MatmulPlan fused = forward;
    fused.epilogue = bias_ < 0 ? cuda::Epilogue::kRelu
                     : relu    ? cuda::Epilogue::kBiasRelu
                               : cuda::Epilogue::kBias;
    fused.vector = bias_ < 0 ? nullptr : pass.parameters + bias_;
    p.forward = cuda::Matmul::plan(*pass.matmul, fused);
  }
  p.adds_bias = bias_ < 0 || p.forward != nullptr;
  p.activates = activation_ == Activation::kNone || (relu && p.forward != nullptr);
  if (p.forward == nullptr) p.forward = cuda::Matmul::plan(*pass.matmul, forward);

  if (write(0) != Write::kNone) {
    p.to_input = cuda::Matmul::plan(*pass.matmul, {.m = pass.rows,
                                                   .n = inputs_,
                                                   .k = units_,
                                                   .a = out().gradient,
                                                   .b = pass.parameters + weight_,
                                                   .c = in(0).gradient,
                                                   .beta = write(0) == Write::kAdd ? 1.0f : 0.0f});
  }
  if (out().gradient == nullptr) return p;  // nothing is learned here
  cuda::MatmulPlan to_weight{units_,         inputs_,        pass.rows,   Transpose::kYes,
                             Transpose::kNo, out().gradient, in(0).value, pass.gradients + weight_};
  if (bias_ >= 0) {
    cuda::MatmulPlan fused = to_weight;
    fused.epilogue = cuda::Epilogue::kSumOfA;
    fused.vector = pass.gradients + bias_;
    p.to_weight = cuda::Matmul::plan(*pass.matmul, fused);
    p.sums_bias_gradient = p.to_weight != nullptr;
  }
  if (p.to_weight == nullptr) p.to_weight = cuda::Matmul::plan(*pass.matmul, to_weight);
  return p;
}

void Linear::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  const float* bias = bias_ < 0 ? nullptr : pass.parameters + bias_;
  if (units_ == 1) {
    with_activation(activation_, [&](auto f) {
      one_unit_kernel<decltype(f)>
          <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
              pass.rows, inputs_, in(0).value, pass.parameters + weight_, bias, out().value);
      cuda::check_launch("launching a linear layer of one unit");
    });
    return;
  }
  const Products& p = products_for(pass);
  p.forward->run(pass.context);
  if (p.adds_bias && p.activates) return;
  const int64_t count = pass.rows * units_;
  float* y = out().value;
  with_activation(activation_, [&](auto f) {
    using F = decltype(f);
    if (p.adds_bias)
      cuda::map(pass.context, Write::kOverwrite, count, Finish<F, false>{bias, units_}, y, y);
    else
      cuda::map(pass.context, Write::kOverwrite, count, Finish<F, true>{bias, units_}, y, y);
  });
}

void Linear::backward_cuda(const Pass& pass) {
  if (pass.rows == 0) {
    const auto clear = [&](int64_t begin, int64_t count) {
      cuda_check(
          cudaMemsetAsync(pass.gradients + begin, 0, count * sizeof(float), pass.context.stream),
          "zeroing gradients");
    };
    clear(weight_, units_ * inputs_);
    if (bias_ >= 0) clear(bias_, units_);
    return;
  }
  if (units_ == 1) return backward_one_unit(pass);
  const Products& p = products_for(pass);
  with_activation(activation_, [&](auto f) {
    using F = decltype(f);
    if (bias_ >= 0 && !p.sums_bias_gradient) {
      cuda::column_sums<1>(pass.context, pass.rows, units_,
                           UndoAndSum<F>{out().gradient, out().value, units_}, pass.workspace,
                           {{pass.gradients + bias_}});
    } else if (activation_ != Activation::kNone) {
      cuda::map(pass.context, Write::kOverwrite, pass.rows * units_, UndoActivation<F>{},
                out().gradient, out().gradient, out().value);
    }
  });
  p.to_weight->run(pass.context);
  if (p.to_input != nullptr) p.to_input->run(pass.context);
}

void Linear::backward_one_unit(const Pass& pass) {
  float* dz = out().gradient;
  with_activation(activation_, [&](auto f) {
    cuda::column_sums<1>(pass.context, pass.rows, 1, UndoAndSum<decltype(f)>{dz, out().value, 1},
                         pass.workspace, {{bias_ < 0 ? pass.workspace : pass.gradients + bias_}});
  });
  cuda::column_sums<1>(pass.context, pass.rows, inputs_, OneUnitWeight{dz, in(0).value, inputs_},
                       pass.workspace, {{pass.gradients + weight_}});
  with_write(write(0), [&](auto add) {
    one_unit_to_input_kernel<decltype(add)::value>
        <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
            pass.rows, inputs_, dz, pass.parameters + weight_, in(0).gradient);
    cuda::check_launch("launching the gradient of a linear layer of one unit");
  });
}

}  // namespace emblem
