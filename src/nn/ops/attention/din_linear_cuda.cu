#include <algorithm>

#include "kernels/matmul_cuda.h"
#include "nn/ops/attention/din_linear.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/lanes.cuh"
#include "nn/ops/vectors/segment.h"

namespace emblem {

struct DinLinear::Products {
  int64_t rows = 0, elements = 0;
  std::unique_ptr<cuda::Matmul> rows_forward, forward;
  std::unique_ptr<cuda::Matmul> to_row_weight, to_element_weight, to_query, to_products;
};

namespace {

using namespace cuda;

constexpr size_t kMostUnitPlans = 32;  // numbers of rows and elements

template <class T>
__global__ void __launch_bounds__(kThreads)
    fold_kernel(DinLinear::Fold fold, int64_t units, int64_t stride, const float* weight,
                T* element, T* row) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t u = i / (stride + fold.n), j = i % (stride + fold.n);
  if (u >= units) return;
  weight += u * 4 * fold.m;
  if (j >= stride) {
    row[u * fold.n + j - stride] = narrow<T>(fold.of_row(weight, j - stride));
  } else {
    element[u * stride + j] = narrow<T>(j < fold.m + fold.n ? fold.of_element(weight, j) : 0.0f);
  }
}

struct Unfold {
  DinLinear::Fold fold;
  int64_t stride;
  const float *element, *row;
  __device__ float operator()(int64_t i) const {
    const int64_t u = i / (4 * fold.m), column = i - u * 4 * fold.m;
    return fold.gradient(element + u * stride, row + u * fold.n, column);
  }
};

template <class T>
struct Sides {
  int64_t rows, elements, n, m, stride;
  const int32_t *offsets, *row_of;
  const T *q, *s;
};

// [s, q * s, 0...] of each element, kSize columns per thread; all 0 for padding.
template <int kSize, class T>
__global__ void __launch_bounds__(kThreads) products_kernel(Sides<T> of, T* to) {
  const auto in_row = static_cast<unsigned>(of.m / kSize);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= of.elements * in_row) return;
  const int64_t e = i / in_row, j = i % in_row * kSize;
  const int32_t r = of.row_of[e];
  Elements<T, kSize> s{}, product{};
  if (r >= 0) s = load_elements<kSize>(of.s + e * of.m + j);
  to += e * of.stride;
  store_packet(to + j, s);
  if (j < of.n) {
    if (r >= 0) {
      const auto q = load_elements<kSize>(of.q + r * of.n + j);
#pragma unroll
      for (int k = 0; k < kSize; ++k) product.at[k] = narrow<T>(widen(q.at[k]) * widen(s.at[k]));
    }
    store_packet(to + of.m + j, product);
  }
  for (int64_t c = of.m + of.n; j == 0 && c < of.stride; ++c) to[c] = narrow<T>(0.0f);
}

// y = f(y + the part of the element's row + bias). Of padding (row_of below 0), too, which no row
// reads: products_kernel has set its products to 0, so that this is f(bias).
template <int kSize, class F, class T>
__global__ void __launch_bounds__(kThreads)
    finish_kernel(int64_t elements, unsigned in_row, const int32_t* row_of, const float* part,
                  const float* bias, T* y, F f) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements * in_row) return;
  const int64_t e = i / in_row, j = i % in_row * kSize, units = int64_t{in_row} * kSize;
  const int32_t r = row_of[e];
  auto values = load_elements<kSize>(y + e * units + j);
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    float sum = widen(values.at[k]) + (r < 0 ? 0.0f : part[r * units + j + k]);
    if (bias != nullptr) sum += bias[j + k];
    values.at[k] = narrow<T>(f.value(sum));
  }
  store_packet(y + e * units + j, values);
}

// dz = dy f'(y), in place, and its sum over the elements of each row.
template <int kSize, class F, class T>
__global__ void __launch_bounds__(kThreads)
    undo_kernel(int64_t rows, unsigned in_row, const int32_t* offsets, const T* y, T* dz,
                float* sums, T* typed_sums, F f) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= rows * in_row) return;
  const int64_t r = i / in_row, j = i % in_row * kSize, units = int64_t{in_row} * kSize;
  float sum[kSize] = {};
#pragma unroll 4
  for (int64_t e = offsets[r]; e < offsets[r + 1]; ++e) {
    auto d = load_elements<kSize>(dz + e * units + j);
    const auto value = load_elements<kSize>(y + e * units + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float product = widen(d.at[k]) * f.slope(widen(value.at[k]));
      sum[k] += product;
      d.at[k] = narrow<T>(product);
    }
    store_packet(dz + e * units + j, d);
  }
#pragma unroll
  for (int k = 0; k < kSize; ++k) sums[r * units + j + k] = sum[k];
  write_packet(Write::kOverwrite, sum, typed_sums + r * units + j);
}

// Goes from the gradients of [s, q * s] to those of s and, added, of q.
template <int kSize, class T>
__global__ void __launch_bounds__(kThreads)
    spread_kernel(Sides<T> of, const T* gradients, Write write_q, T* dq, Write write_s, T* ds) {
  const auto in_row = static_cast<unsigned>(of.m / kSize);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= of.rows * in_row) return;
  const int64_t r = i / in_row, j = i % in_row * kSize;
  const bool in_q = j < of.n;
  Elements<T, kSize> q{};
  if (in_q) q = load_elements<kSize>(of.q + r * of.n + j);
  float sums[kSize] = {};
#pragma unroll 4
  for (int64_t e = of.offsets[r]; e < of.offsets[r + 1]; ++e) {
    const auto to_s = load_elements<kSize>(gradients + e * of.stride + j),
               s = load_elements<kSize>(of.s + e * of.m + j);
    Elements<T, kSize> to_product{};
    if (in_q) to_product = load_elements<kSize>(gradients + e * of.stride + of.m + j);
    float d[kSize];
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      sums[k] += widen(to_product.at[k]) * widen(s.at[k]);
      d[k] = widen(to_s.at[k]) + widen(to_product.at[k]) * widen(q.at[k]);
    }
    write_packet(write_s, d, ds + e * of.m + j);
  }
  if (in_q && write_q != Write::kNone) write_packet(Write::kAdd, sums, dq + r * of.n + j);
}

struct RowElement {
  const float* values;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t j, float (&sum)[1]) const {
    sum[0] = values[r * cols + j];
  }
};

template <class T>
T* as(Buffer<char>& buffer) {
  return reinterpret_cast<T*>(buffer.data());
}

}  // namespace

DinLinear::Products& DinLinear::products_for(const OpContext& pass) {
  const auto found = std::find_if(planned_.begin(), planned_.end(), [&](const auto& p) {
    return p->rows == pass.batch_rows && p->elements == pass.rows;
  });
  if (found != planned_.end()) {
    std::rotate(found, found + 1, planned_.end());  // in the order of use
    return *planned_.back();
  }
  if (planned_.size() == kMostUnitPlans) planned_.erase(planned_.begin());
  return *planned_.emplace_back(plan_products(pass));
}

std::shared_ptr<DinLinear::Products> DinLinear::plan_products(const OpContext& pass) {
  auto made = std::make_shared<Products>();
  Products& p = *made;
  p.rows = pass.batch_rows;
  p.elements = pass.rows;
  const auto plan = [&](cuda::MatmulPlan plan) {
    plan.input_type = out().dtype;
    return cuda::Matmul::plan(*pass.matmul, plan);
  };
  const auto rows = pass.batch_rows, elements = pass.rows;
  p.rows_forward = plan({.m = rows,
                         .n = units_,
                         .k = n_,
                         .transpose_b = Transpose::kYes,
                         .a = in(0).value_data,
                         .b = typed_row_weights_.data(),
                         .c = row_part_.data()});
  p.forward = plan({.m = elements,
                    .n = units_,
                    .k = stride(),
                    .transpose_b = Transpose::kYes,
                    .a = products_.data(),
                    .b = typed_element_weights_.data(),
                    .c = out().value_data,
                    .output_type = out().dtype});
  if (!learns()) return made;
  p.to_row_weight = plan({.m = units_,
                          .n = n_,
                          .k = rows,
                          .transpose_a = Transpose::kYes,
                          .a = typed_row_part_gradient_.data(),
                          .b = in(0).value_data,
                          .c = row_gradients_.data()});
  p.to_element_weight = plan({.m = units_,
                              .n = stride(),
                              .k = elements,
                              .transpose_a = Transpose::kYes,
                              .a = out().gradient_data,
                              .b = products_.data(),
                              .c = element_gradients_.data()});
  if (write(0) != Write::kNone)
    p.to_query = plan({.m = rows,
                       .n = n_,
                       .k = units_,
                       .a = typed_row_part_gradient_.data(),
                       .b = typed_row_weights_.data(),
                       .c = in(0).gradient_data,
                       .output_type = out().dtype,
                       .beta = write(0) == Write::kAdd ? 1.0f : 0.0f});
  if (write(0) != Write::kNone || write(1) != Write::kNone)
    p.to_products = plan({.m = elements,
                          .n = stride(),
                          .k = units_,
                          .a = out().gradient_data,
                          .b = typed_element_weights_.data(),
                          .c = product_gradients_.data(),
                          .output_type = out().dtype});
  return made;
}

void DinLinear::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const Products& p = products_for(pass);
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const cudaStream_t stream = pass.context.stream;
    fold_kernel<T><<<blocks_of(units_ * (stride() + n_), kThreads), kThreads, 0, stream>>>(
        fold(), units_, stride(), pass.parameters + weight_, as<T>(typed_element_weights_),
        as<T>(typed_row_weights_));
    check_launch("launching the folding of weights");
    p.rows_forward->run(pass.context);
    const Sides<T> of{pass.batch_rows, pass.rows,    n_,          m_,
                      stride(),        pass.offsets, pass.row_of, in(0).value<T>(),
                      in(1).value<T>()};
    with_size_of_both<T>(n_, m_, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      products_kernel<kSize, T>
          <<<blocks_of(pass.rows * m_ / kSize, kThreads), kThreads, 0, stream>>>(of,
                                                                                 as<T>(products_));
      check_launch("launching products with rows");
    });
    p.forward->run(pass.context);
    const float* bias = bias_ < 0 ? nullptr : pass.parameters + bias_;
    with_fused_activation(activation_, [&](auto f) {
      with_size<T>(units_, [&](auto size) {
        constexpr int kSize = decltype(size)::value;
        const int64_t in_row = units_ / kSize;
        finish_kernel<kSize><<<blocks_of(pass.rows * in_row, kThreads), kThreads, 0, stream>>>(
            pass.rows, static_cast<unsigned>(in_row), pass.row_of, row_part_.data(), bias,
            out().value<T>(), f);
        check_launch("launching the sum of the parts of a linear layer");
      });
    });
  });
}

void DinLinear::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) {
    detail::zero(pass.context, pass.gradients + weight_, units_ * 4 * m_ * sizeof(float));
    if (bias_ >= 0) detail::zero(pass.context, pass.gradients + bias_, units_ * sizeof(float));
    if (write(0) == Write::kOverwrite)
      detail::zero(pass.context, in(0).gradient_data, pass.batch_rows * n_ * size_of(in(0).dtype));
    return;
  }
  const Products& p = products_for(pass);
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const cudaStream_t stream = pass.context.stream;
    with_fused_activation(activation_, [&](auto f) {
      with_size<T>(units_, [&](auto size) {
        constexpr int kSize = decltype(size)::value;
        const int64_t in_row = units_ / kSize;
        undo_kernel<kSize><<<blocks_of(pass.batch_rows * in_row, kThreads), kThreads, 0, stream>>>(
            pass.batch_rows, static_cast<unsigned>(in_row), pass.offsets, out().value<T>(),
            out().gradient<T>(), row_part_gradient_.data(), as<T>(typed_row_part_gradient_), f);
        check_launch("launching sums over elements");
      });
    });
    if (bias_ >= 0)
      column_sums<1>(pass.context, pass.batch_rows, units_,
                     RowElement{row_part_gradient_.data(), units_}, pass.workspace,
                     {{pass.gradients + bias_}});
    p.to_row_weight->run(pass.context);
    p.to_element_weight->run(pass.context);
    map(pass.context, Write::kOverwrite, units_ * 4 * m_,
        Unfold{fold(), stride(), element_gradients_.data(), row_gradients_.data()},
        pass.gradients + weight_);
    if (p.to_query != nullptr) p.to_query->run(pass.context);
    if (p.to_products == nullptr) return;
    p.to_products->run(pass.context);
    const Sides<T> of{pass.batch_rows, pass.rows,    n_,          m_,
                      stride(),        pass.offsets, pass.row_of, in(0).value<T>(),
                      in(1).value<T>()};
    with_size_of_both<T>(n_, m_, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      spread_kernel<kSize, T>
          <<<blocks_of(pass.batch_rows * m_ / kSize, kThreads), kThreads, 0, stream>>>(
              of, as<T>(product_gradients_), write(0), in(0).gradient<T>(), write(1),
              in(1).gradient<T>());
      check_launch("launching the gradients of products with rows");
    });
  });
  if (write(1) == Write::kOverwrite) clear_padding(pass, in(1).dtype, m_, in(1).gradient_data);
}

}  // namespace emblem
