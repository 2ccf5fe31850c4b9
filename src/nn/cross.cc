#include "nn/cross.h"

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "kernels/simd.h"

namespace emblem {
namespace {

class CrossLayer : public Op {
 public:
  CrossLayer(Tensor* x0, Tensor* x, Tensor* out, const std::string& name, ParameterSet& parameters)
      : Op({x0, x}, out), cols_(x->cols) {
    weight_ = parameters.add(name + ".weight", 1, cols_, Initial::kXavierNormal);
    bias_ = parameters.add(name + ".bias", 1, cols_, Initial::kZeros);
  }
  const char* kind() const override { return "cross"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 5.0 * static_cast<double>(cols_); }
  void prepare(Device device, int64_t max_rows) override {
    products_ = Buffer<float>(device, max_rows);
  }
  int64_t workspace_floats(int64_t max_rows) const override {
    return 2 * cols_ * (row_groups(max_rows).count + 1);
  }

  void forward(const Pass& pass) override {
    const float *weight = pass.parameters + weight_, *bias = pass.parameters + bias_;
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float *x0 = in(0).value + r * cols_, *x = in(1).value + r * cols_;
        float* __restrict y = out().value + r * cols_;
        const float product = products_.data()[r] = simd::dot(x, weight, cols_);
        for (int64_t j = 0; j < cols_; ++j) y[j] = x0[j] * product + bias[j] + x[j];
      }
    });
  }

  void backward(const Pass& pass) override {
    const RowGroups groups = row_groups(pass.rows);
    float* sums = pass.workspace;  // of the weight's and the bias' gradient
    float* parts = sums + 2 * cols_;
    parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
      float* part = parts + begin / groups.rows_each * 2 * cols_;
      std::fill_n(part, 2 * cols_, 0.0f);
      for (int64_t r = begin; r < end; ++r) backward_row(pass, r, part);
    });
    sum_groups(pass.context, parts, groups.count, 2 * cols_, sums);
    std::copy_n(sums, cols_, pass.gradients + weight_);
    std::copy_n(sums + cols_, cols_, pass.gradients + bias_);
  }

 private:
  void backward_row(const Pass& pass, int64_t r, float* part) {
    const float *weight = pass.parameters + weight_, *dy = out().gradient + r * cols_;
    const float *x0 = in(0).value + r * cols_, *x = in(1).value + r * cols_;
    const float product_gradient = simd::dot(dy, x0, cols_);
    simd::add_scaled(product_gradient, x, part, cols_);
    simd::add(dy, part + cols_, cols_);
    with_write(write(0), [&](auto add) {
      const float product = products_.data()[r];
      float* dx = in(0).gradient + r * cols_;
      for (int64_t j = 0; j < cols_; ++j) dx[j] = (add ? dx[j] : 0.0f) + dy[j] * product;
    });
    with_write(write(1), [&](auto add) {
      float* dx = in(1).gradient + r * cols_;
      for (int64_t j = 0; j < cols_; ++j) {
        dx[j] = (add ? dx[j] : 0.0f) + dy[j] + product_gradient * weight[j];
      }
    });
  }

  int64_t cols_;
  int64_t weight_ = 0, bias_ = 0;
  Buffer<float> products_;  // x . w of each row
};

class CrossCombine : public Op {
 public:
  using Op::Op;
  const char* kind() const override { return "cross_combine"; }
  double flops_per_row() const override { return 2.0 * static_cast<double>(out().cols); }

  void forward(const Pass& pass) override {
    const float *x0 = in(0).value, *z = in(1).value, *x = in(2).value;
    float* y = out().value;
    parallel_for(pass.context, pass.rows * out().cols, 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = x0[i] * z[i] + x[i];
    });
  }

  void backward(const Pass& pass) override {
    const float *x0 = in(0).value, *z = in(1).value, *dy = out().gradient;
    parallel_for(pass.context, pass.rows * out().cols, 16384, [&](int64_t begin, int64_t end) {
      put(0, begin, end, [=](int64_t i) { return dy[i] * z[i]; });
      put(1, begin, end, [=](int64_t i) { return dy[i] * x0[i]; });
      put(2, begin, end, [=](int64_t i) { return dy[i]; });
    });
  }

 private:
  template <class Body>
  void put(size_t input, int64_t begin, int64_t end, Body body) const {
    with_write(write(input), [&](auto add) {
      float* dx = in(input).gradient;
      for (int64_t i = begin; i < end; ++i) dx[i] = (add ? dx[i] : 0.0f) + body(i);
    });
  }
};

}  // namespace

std::unique_ptr<Op> make_cross_layer(Tensor* x0, Tensor* x, Tensor* out, const std::string& name,
                                     ParameterSet& parameters) {
  return std::make_unique<CrossLayer>(x0, x, out, name, parameters);
}

std::unique_ptr<Op> make_cross_combine(Tensor* x0, Tensor* z, Tensor* x, Tensor* out) {
  return std::make_unique<CrossCombine>(std::vector{x0, z, x}, out);
}

}  // namespace emblem
