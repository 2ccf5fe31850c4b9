#include "core/buffer.h"
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
template <class F, class T>
struct UndoAndSum {
  T* dz;
  const T* y;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sum)[1]) const {
    const int64_t i = r * cols + j;
    sum[0] = cuda::widen(dz[i]) * F::slope(cuda::widen(y[i]));
    dz[i] = cuda::narrow<T>(sum[0]);
  }
};

// ---- one unit: a vector in the place of the weight matrix ----

template <class F, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    one_unit_kernel(int64_t rows, int64_t cols, const T* x, const float* weight, const float* bias,
                    T* y) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    sum += cuda::widen(x[r * cols + j]) * weight[j];
  sum = cuda::warp_sum(sum);
  if (threadIdx.x == 0) y[r] = cuda::narrow<T>(F::value(bias == nullptr ? sum : sum + *bias));
}

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    one_unit_to_input_kernel(int64_t rows, int64_t cols, const T* dz, const float* weight, T* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  const float d = cuda::widen(dz[r]);
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp)
    cuda::put<kAdd>(dx[r * cols + j], d * weight[j]);
}

template <class T>
struct OneUnitWeight {
  const T *dz, *x;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sum)[1]) const {
    sum[0] = cuda::widen(dz[r]) * cuda::widen(x[r * cols + j]);
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

  const DType type = out().dtype;
  const auto parameter = [&](int64_t begin) -> const void* {
    if (type == DType::kF32) return pass.parameters + begin;
    return static_cast<const uint16_t*>(pass.narrow_parameters) + begin;
  };
  const bool relu = activation_ == Activation::kRelu;
  const cuda::MatmulPlan forward{.m = pass.rows,
                                 .n = units_,
                                 .k = inputs_,
                                 .transpose_b = Transpose::kYes,
                                 .a = in(0).value_data,
                                 .b = parameter(weight_),
                                 .c = out().value_data,
                                 .input_type = type,
                                 .output_type = type};
  if (bias_ >= 0 || relu) {
    cuda::MatmulPlan fused = forward;
    fused.epilogue = bias_ < 0 ? cuda::Epilogue::kRelu
                     : relu    ? cuda::Epilogue::kBiasRelu
                               : cuda::Epilogue::kBias;
    fused.vector = bias_ < 0 ? nullptr : const_cast<void*>(parameter(bias_));  // only read
    p.forward = cuda::Matmul::plan(*pass.matmul, fused);
  }
  p.adds_bias = bias_ < 0 || p.forward != nullptr;
  p.activates = activation_ == Activation::kNone || (relu && p.forward != nullptr);
  if (p.forward == nullptr) p.forward = cuda::Matmul::plan(*pass.matmul, forward);

  if (out().gradient_data == nullptr) return p;  // nothing is learned here
  if (write(0) != Write::kNone) {
    p.to_input = cuda::Matmul::plan(*pass.matmul, {.m = pass.rows,
                                                   .n = inputs_,
                                                   .k = units_,
                                                   .a = out().gradient_data,
                                                   .b = parameter(weight_),
                                                   .c = in(0).gradient_data,
                                                   .input_type = type,
                                                   .output_type = type,
                                                   .beta = write(0) == Write::kAdd ? 1.0f : 0.0f});
  }
  const cuda::MatmulPlan to_weight{.m = units_,
                                   .n = inputs_,
                                   .k = pass.rows,
                                   .transpose_a = Transpose::kYes,
                                   .a = out().gradient_data,
                                   .b = in(0).value_data,
                                   .c = pass.gradients + weight_,
                                   .input_type = type};
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
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(activation_, [&](auto f) {
      using F = decltype(f);
      if (units_ == 1) {
        one_unit_kernel<F, T>
            <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
                pass.rows, inputs_, in(0).value<T>(), pass.parameters + weight_, bias,
                out().value<T>());
        cuda::check_launch("launching a linear layer of one unit");
        return;
      }
      const Products& p = products_for(pass);
      p.forward->run(pass.context);
      if (p.adds_bias && p.activates) return;
      const int64_t count = pass.rows * units_;
      T* y = out().value<T>();
      if (p.adds_bias)
        cuda::map(pass.context, Write::kOverwrite, count, Finish<F, false>{bias, units_}, y, y);
      else
        cuda::map(pass.context, Write::kOverwrite, count, Finish<F, true>{bias, units_}, y, y);
    });
  });
}

void Linear::backward_cuda(const Pass& pass) {
  if (pass.rows == 0) {
    detail::zero(pass.context, pass.gradients + weight_, units_ * inputs_ * sizeof(float));
    if (bias_ >= 0) detail::zero(pass.context, pass.gradients + bias_, units_ * sizeof(float));
    return;
  }
  if (units_ == 1) return backward_one_unit(pass);
  const Products& p = products_for(pass);
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(activation_, [&](auto f) {
      using F = decltype(f);
      T* dz = out().gradient<T>();
      const T* y = out().value<T>();
      if (bias_ >= 0 && !p.sums_bias_gradient) {
        cuda::column_sums<1>(pass.context, pass.rows, units_, UndoAndSum<F, T>{dz, y, units_},
                             pass.workspace, {{pass.gradients + bias_}});
      } else if (activation_ != Activation::kNone) {
        cuda::map(pass.context, Write::kOverwrite, pass.rows * units_, UndoActivation<F>{}, dz, dz,
                  y);
      }
    });
  });
  p.to_weight->run(pass.context);
  if (p.to_input != nullptr) p.to_input->run(pass.context);
}

// The weights and the bias are read in fp32 here.
void Linear::backward_one_unit(const Pass& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    T* dz = out().gradient<T>();
    with_activation(activation_, [&](auto f) {
      cuda::column_sums<1>(pass.context, pass.rows, 1,
                           UndoAndSum<decltype(f), T>{dz, out().value<T>(), 1}, pass.workspace,
                           {{bias_ < 0 ? pass.workspace : pass.gradients + bias_}});
    });
    cuda::column_sums<1>(pass.context, pass.rows, inputs_,
                         OneUnitWeight<T>{dz, in(0).value<T>(), inputs_}, pass.workspace,
                         {{pass.gradients + weight_}});
    with_write(write(0), [&](auto add) {
      one_unit_to_input_kernel<decltype(add)::value, T>
          <<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0, pass.context.stream>>>(
              pass.rows, inputs_, dz, pass.parameters + weight_, in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a linear layer of one unit");
    });
  });
}

}  // namespace emblem
