#include "nn/elementwise.h"

#include "core/thread_pool.h"
#include "kernels/simd.h"

namespace emblem {
namespace {

constexpr int64_t kChunk = 16384;

// body(i) gives the value added to, or stored in, to[i].
template <class Body>
void write_elements(const Context& context, Write write, float* to, int64_t count, Body&& body) {
  with_write(write, [&](auto add) {
    parallel_for(context, count, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = (add ? to[i] : 0.0f) + body(i);
    });
  });
}

class Sum : public Op {
 public:
  using Op::Op;
  const char* kind() const override { return "sum"; }
  double flops_per_row() const override {
    return static_cast<double>(out().cols * inputs().size());
  }

  void forward(const Pass& pass) override {
    parallel_for(pass.context, pass.rows * out().cols, kChunk, [&](int64_t begin, int64_t end) {
      std::copy(in(0).value + begin, in(0).value + end, out().value + begin);
      for (size_t part = 1; part < inputs().size(); ++part) {
        simd::add(in(part).value + begin, out().value + begin, end - begin);
      }
    });
  }
  void backward(const Pass& pass) override {
    const float* dy = out().gradient;
    for (size_t part = 0; part < inputs().size(); ++part) {
      write_elements(pass.context, write(part), in(part).gradient, pass.rows * out().cols,
                     [=](int64_t i) { return dy[i]; });
    }
  }
};

class Multiply : public Op {
 public:
  using Op::Op;
  const char* kind() const override { return "multiply"; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward(const Pass& pass) override {
    const float *a = in(0).value, *b = in(1).value;
    write_elements(pass.context, Write::kOverwrite, out().value, pass.rows * out().cols,
                   [=](int64_t i) { return a[i] * b[i]; });
  }
  void backward(const Pass& pass) override {
    const float* dy = out().gradient;
    for (size_t side : {0, 1}) {
      const float* other = in(1 - side).value;
      write_elements(pass.context, write(side), in(side).gradient, pass.rows * out().cols,
                     [=](int64_t i) { return dy[i] * other[i]; });
    }
  }
};

class Scale : public Op {
 public:
  Scale(Tensor* x, float factor, Tensor* out) : Op({x}, out), factor_(factor) {}
  const char* kind() const override { return "scale"; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward(const Pass& pass) override {
    scale(pass, in(0).value, Write::kOverwrite, out().value);
  }
  void backward(const Pass& pass) override {
    scale(pass, out().gradient, write(0), in(0).gradient);
  }

 private:
  void scale(const Pass& pass, const float* from, Write write, float* to) const {
    const float factor = factor_;
    write_elements(pass.context, write, to, pass.rows * out().cols,
                   [=](int64_t i) { return factor * from[i]; });
  }
  float factor_;
};

class RowSum : public Op {
 public:
  using Op::Op;
  const char* kind() const override { return "row_sum"; }
  double flops_per_row() const override { return static_cast<double>(in(0).cols); }

  void forward(const Pass& pass) override {
    const int64_t cols = in(0).cols;
    parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float sum = 0.0f;
        for (int64_t j = 0; j < cols; ++j) sum += in(0).value[r * cols + j];
        out().value[r] = sum;
      }
    });
  }
  void backward(const Pass& pass) override {
    const int64_t cols = in(0).cols;
    with_write(write(0), [&](auto add) {
      parallel_for(pass.context, pass.rows, rows_per_chunk(cols), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          float* dx = in(0).gradient + r * cols;
          const float dy = out().gradient[r];
          for (int64_t j = 0; j < cols; ++j) dx[j] = (add ? dx[j] : 0.0f) + dy;
        }
      });
    });
  }
};

}  // namespace

std::unique_ptr<Op> make_sum(std::vector<Tensor*> parts, Tensor* out) {
  return std::make_unique<Sum>(std::move(parts), out);
}
std::unique_ptr<Op> make_multiply(Tensor* a, Tensor* b, Tensor* out) {
  return std::make_unique<Multiply>(std::vector{a, b}, out);
}
std::unique_ptr<Op> make_scale(Tensor* x, float factor, Tensor* out) {
  return std::make_unique<Scale>(x, factor, out);
}
std::unique_ptr<Op> make_row_sum(Tensor* x, Tensor* out) {
  return std::make_unique<RowSum>(std::vector{x}, out);
}

}  // namespace emblem
