#include <cmath>

#include "core/buffer.h"
#include "core/thread_pool.h"
#include "nn/activation.h"
#include "nn/norm.h"

namespace emblem {
namespace {

constexpr float kEpsilon = 1e-5f;

class LayerNorm : public Op {
 public:
  LayerNorm(Tensor* x, Tensor* out, Activation activation, const std::string& name,
            ParameterSet& parameters)
      : Op({x}, out), activation_(activation), cols_(x->cols) {
    scale_ = parameters.add(name + ".weight", 1, cols_, Initial::kOnes);
    shift_ = parameters.add(name + ".bias", 1, cols_, Initial::kZeros);
  }

  const char* kind() const override { return "layer_norm"; }
  bool has_parameters() const override { return true; }
  double flops_per_row() const override { return 8.0 * static_cast<double>(cols_); }
  void prepare(Device device, int64_t max_rows) override {
    moments_ = Buffer<float>(device, max_rows, 2);
  }
  int64_t workspace_floats(int64_t max_rows) const override {
    return 2 * cols_ * (row_groups(max_rows).count + 1);
  }

  void forward(const Pass& pass) override {
    const float *scale = pass.parameters + scale_, *shift = pass.parameters + shift_;
    with_activation(activation_, [&](auto f) {
      parallel_for(pass.context, pass.rows, rows_per_chunk(cols_), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const float* x = in(0).value + r * cols_;
          float* __restrict y = out().value + r * cols_;
          const auto [mean, inverse] = measure(x);
          moments_.data()[2 * r] = mean;
          moments_.data()[2 * r + 1] = inverse;
          for (int64_t j = 0; j < cols_; ++j)
            y[j] = f.value((x[j] - mean) * inverse * scale[j] + shift[j]);
        }
      });
    });
  }

  void backward(const Pass& pass) override {
    const RowGroups groups = row_groups(pass.rows);
    float* sums = pass.workspace;
    float* parts = sums + 2 * cols_;
    with_activation(activation_, [&](auto f) {
      parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
        float* part = parts + begin / groups.rows_each * 2 * cols_;
        std::fill_n(part, 2 * cols_, 0.0f);
        for (int64_t r = begin; r < end; ++r) backward_row(pass, r, part, f);
      });
    });
    sum_groups(pass.context, parts, groups.count, 2 * cols_, sums);
    std::copy_n(sums, cols_, pass.gradients + shift_);
    std::copy_n(sums + cols_, cols_, pass.gradients + scale_);
  }

 private:
  struct Moments {
    float mean, inverse;
  };
  Moments measure(const float* x) const {
    float sum = 0.0f, square = 0.0f;
    for (int64_t j = 0; j < cols_; ++j) sum += x[j];
    const float mean = sum / static_cast<float>(cols_);
    for (int64_t j = 0; j < cols_; ++j) square += (x[j] - mean) * (x[j] - mean);
    return {mean, 1.0f / std::sqrt(square / static_cast<float>(cols_) + kEpsilon)};
  }

  // part: the sums of dz and of dz times the normalized input over the rows of a group.
  template <class F>
  void backward_row(const Pass& pass, int64_t r, float* part, F f) {
    const float *x = in(0).value + r * cols_, *y = out().value + r * cols_;
    const float* scale = pass.parameters + scale_;
    float* __restrict dz = out().gradient + r * cols_;
    const float mean = moments_.data()[2 * r], inverse = moments_.data()[2 * r + 1];
    float plain = 0.0f, scaled = 0.0f;  // over the columns of this row
    for (int64_t j = 0; j < cols_; ++j) {
      const float normalized = (x[j] - mean) * inverse;
      dz[j] *= f.slope(y[j]);
      part[j] += dz[j];
      part[cols_ + j] += dz[j] * normalized;
      plain += dz[j] * scale[j];
      scaled += dz[j] * scale[j] * normalized;
    }
    plain /= static_cast<float>(cols_);
    scaled /= static_cast<float>(cols_);
    with_write(write(0), [&](auto add) {
      float* __restrict dx = in(0).gradient + r * cols_;
      for (int64_t j = 0; j < cols_; ++j) {
        const float through = dz[j] * scale[j] - plain - (x[j] - mean) * inverse * scaled;
        dx[j] = (add ? dx[j] : 0.0f) + inverse * through;
      }
    });
  }

  Activation activation_;
  int64_t cols_;
  int64_t scale_ = 0, shift_ = 0;
  Buffer<float> moments_;  // of each row: mean, 1 / standard deviation
};

}  // namespace

std::unique_ptr<Op> make_layer_norm(Tensor* x, Tensor* out, Activation activation,
                                    const std::string& name, ParameterSet& parameters) {
  return std::make_unique<LayerNorm>(x, out, activation, name, parameters);
}

}  // namespace emblem
