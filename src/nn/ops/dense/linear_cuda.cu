#include "core/memory/buffer.h"
#include "kernels/matmul_cuda.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/dense/columns.h"
#include "nn/ops/dense/linear.h"
#include "nn/ops/vectors/packed_sums.cuh"
#include "nn/precision.h"

namespace emblem {

// Planned for one number of rows; where a product and what follows it are not available as one,
// it is planned without.
struct Linear::Products {
  int64_t rows = 0;
  std::unique_ptr<cuda::Matmul> forward, to_input, to_weight;
  bool adds_bias = false, activates = false;  // in forward
};

namespace {

// Numbers of rows: few of batches (the full one, the last one), some of elements.
constexpr size_t kMostPlans = 32;

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
template <class F, int kSize, class T>
struct UndoAndSum {
  static constexpr bool kChanges = !std::is_same_v<F, activations::None>;
  struct Loaded {
    cuda::Elements<T, kSize> d, value;
  };
  T* dz;
  const T* y;
  int64_t stride;

  __device__ Loaded load(int64_t r, int64_t j) const {
    const int64_t i = r * stride + j;
    Loaded loaded{cuda::load_elements<kSize>(dz + i), {}};
    if (kChanges) loaded.value = cuda::load_elements<kSize>(y + i);
    return loaded;
  }
  __device__ void add(int64_t r, int64_t j, const Loaded& loaded, float (&sums)[1][kSize]) const {
    cuda::Elements<T, kSize> to;
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float d = cuda::widen(loaded.d.at[k]) * F::slope(cuda::widen(loaded.value.at[k]));
      sums[0][k] += d;
      to.at[k] = cuda::narrow<T>(d);
    }
    if (kChanges) cuda::store_packet(dz + r * stride + j, to);
  }
};

}  // namespace

Linear::Products& Linear::products_for(const OpContext& pass) {
  const auto found = std::find_if(products_.begin(), products_.end(),
                                  [&](const auto& p) { return p->rows == pass.rows; });
  if (found != products_.end()) {
    std::rotate(found, found + 1, products_.end());  // in the order of use
    return *products_.back();
  }
  if (products_.size() == kMostPlans) products_.erase(products_.begin());
  return *products_.emplace_back(plan_products(pass));
}

std::shared_ptr<Linear::Products> Linear::plan_products(const OpContext& pass) {
  auto made = std::make_shared<Products>();
  Products& p = *made;
  p.rows = pass.rows;

  const DType type = out().dtype;
  const auto parameter = [&](int64_t begin) -> const void* {
    if (type == DType::kF32) return pass.parameters + begin;
    return static_cast<const uint16_t*>(pass.narrow_parameters) + begin;
  };
  const void* weights = padded() ? padded_weights_.data() : parameter(weight_);
  const bool relu = activation_ == Activation::kRelu;
  const int64_t inputs = input_stride(), units = out().stride;
  const void* x = copies_input() ? copied_input_.data() : in(0).value_data;
  const cuda::MatmulPlan forward{.m = pass.rows,
                                 .n = units,
                                 .k = inputs,
                                 .transpose_b = Transpose::kYes,
                                 .a = x,
                                 .b = weights,
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

  if (!out().keeps_gradient) return made;  // nothing is learned here
  if (write(0) != Write::kNone) {
    void* dx = copies_input() ? copied_input_gradient_.data() : in(0).gradient_data;
    const bool adds = !copies_input() && write(0) == Write::kAdd;
    // Only columns that are read, but all of the padding.
    const int64_t read = in(0).gradient_cols, cols = read < inputs_ ? aligned(read) : inputs;
    p.to_input = cuda::Matmul::plan(*pass.matmul, {.m = pass.rows,
                                                   .n = std::min(cols, inputs),
                                                   .k = units,
                                                   .a = out().gradient_data,
                                                   .b = weights,
                                                   .c = dx,
                                                   .input_type = type,
                                                   .output_type = type,
                                                   .beta = adds ? 1.0f : 0.0f,
                                                   .b_stride = inputs,
                                                   .c_stride = inputs});
  }
  p.to_weight = cuda::Matmul::plan(
      *pass.matmul, {.m = units,
                     .n = inputs,
                     .k = pass.rows,
                     .transpose_a = Transpose::kYes,
                     .a = out().gradient_data,
                     .b = x,
                     .c = padded() ? padded_gradients_.data() : pass.gradients + weight_,
                     .input_type = type});
  return made;
}

void Linear::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  if (units_ == 1) return forward_one_unit(pass);
  const Products& p = products_for(pass);
  if (padded())
    cuda::narrow_matrix(pass.context, {pass.parameters + weight_, units_, inputs_}, out().dtype,
                        padded_weights_.data(), out().stride, input_stride());
  if (copies_input()) {
    const cuda::Columns x{in(0).dtype, in(0).value_data, pass.rows, inputs_, in(0).stride};
    cuda::copy_columns(pass.context, Write::kOverwrite, x, 0,
                       {x.dtype, copied_input_.data(), x.rows, x.cols, input_stride()});
  }
  p.forward->run(pass.context);
  if (p.adds_bias && p.activates) return;
  const float* bias = bias_ < 0 ? nullptr : pass.parameters + bias_;
  const int64_t units = out().stride, count = pass.rows * units;
  cuda::with_type(out().dtype, [&](auto type) {
    auto* y = out().value<decltype(type)>();
    with_fused_activation(activation_, [&](auto f) {
      using F = decltype(f);
      if (p.adds_bias)
        cuda::map(pass.context, Write::kOverwrite, count, Finish<F, false>{bias, units}, y, y);
      else
        cuda::map(pass.context, Write::kOverwrite, count, Finish<F, true>{bias, units}, y, y);
    });
  });
}

void Linear::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) {
    detail::zero(pass.context, pass.gradients + weight_, units_ * inputs_ * sizeof(float));
    if (bias_ >= 0) detail::zero(pass.context, pass.gradients + bias_, units_ * sizeof(float));
    return;
  }
  if (units_ == 1) return backward_one_unit(pass);
  const Products& p = products_for(pass);
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_fused_activation(activation_, [&](auto f) {
      using F = decltype(f);
      T* dz = out().gradient<T>();
      const T* y = out().value<T>();
      if (bias_ >= 0) {
        cuda::with_size<T>(out().stride, [&](auto size) {
          constexpr int kSize = decltype(size)::value;
          cuda::packed_column_sums<1, kSize>(pass, pass.rows, out().stride,
                                             UndoAndSum<F, kSize, T>{dz, y, out().stride},
                                             {{{pass.gradients + bias_, units_}}});
        });
      } else if (activation_ != Activation::kNone) {
        cuda::map(pass.context, Write::kOverwrite, pass.rows * out().stride, UndoActivation<F>{},
                  dz, dz, y);
      }
    });
  });
  p.to_weight->run(pass.context);
  if (padded())
    cuda::copy_rows(pass.context, padded_gradients_.data(), pass.gradients + weight_, units_,
                    inputs_, input_stride());
  if (p.to_input == nullptr) return;
  p.to_input->run(pass.context);
  if (!copies_input()) return;
  const cuda::Columns dx{in(0).dtype, in(0).gradient_data, pass.rows, inputs_, in(0).stride};
  cuda::copy_columns(pass.context, write(0),
                     {dx.dtype, copied_input_gradient_.data(), dx.rows, dx.cols, input_stride()}, 0,
                     dx);
}

}  // namespace emblem
