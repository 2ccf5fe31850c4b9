#include "nn/concat.h"

#include "core/thread_pool.h"
#include "kernels/simd.h"

namespace emblem {
namespace {

// Copies or adds the rows of `from` to those of `to`.
void transfer_rows(Write write, Matrix<const float> from, Matrix<float> to) {
  for (int64_t r = 0; r < to.rows; ++r) {
    if (write == Write::kAdd) {
      simd::add(from.row(r), to.row(r), to.cols);
    } else {
      std::copy_n(from.row(r), to.cols, to.row(r));
    }
  }
}

class Concat : public Op {
 public:
  using Op::Op;
  const char* kind() const override { return "concat"; }

  void forward(const Pass& pass) override {
    for_each_part(pass, [&](size_t part, int64_t column, int64_t begin, int64_t end) {
      const Matrix<float> x(in(part).value, pass.rows, in(part).cols),
          y(out().value, pass.rows, out().cols);
      transfer_rows(Write::kOverwrite, x.row_range(begin, end),
                    y.block(begin, column, end - begin, x.cols));
    });
  }
  void backward(const Pass& pass) override {
    for_each_part(pass, [&](size_t part, int64_t column, int64_t begin, int64_t end) {
      if (write(part) == Write::kNone) return;
      const Matrix<float> dx(in(part).gradient, pass.rows, in(part).cols);
      const Matrix<float> dy(out().gradient, pass.rows, out().cols);
      transfer_rows(write(part), dy.block(begin, column, end - begin, dx.cols),
                    dx.row_range(begin, end));
    });
  }

 private:
  template <class Body>
  void for_each_part(const Pass& pass, Body&& body) const {
    parallel_for(pass.context, pass.rows, rows_per_chunk(out().cols),
                 [&](int64_t begin, int64_t end) {
                   int64_t column = 0;
                   for (size_t part = 0; part < inputs().size(); ++part) {
                     body(part, column, begin, end);
                     column += in(part).cols;
                   }
                 });
  }
};

class Slice : public Op {
 public:
  Slice(Tensor* x, int64_t first, Tensor* out) : Op({x}, out), first_(first) {}
  const char* kind() const override { return "slice"; }

  void forward(const Pass& pass) override {
    parallel_for(pass.context, pass.rows, rows_per_chunk(out().cols),
                 [&](int64_t begin, int64_t end) {
                   const Matrix<float> x(in(0).value, pass.rows, in(0).cols),
                       y(out().value, pass.rows, out().cols);
                   transfer_rows(Write::kOverwrite, x.block(begin, first_, end - begin, y.cols),
                                 y.row_range(begin, end));
                 });
  }
  void backward(const Pass& pass) override {
    parallel_for(pass.context, pass.rows, rows_per_chunk(in(0).cols),
                 [&](int64_t begin, int64_t end) {
                   const Matrix<float> dx(in(0).gradient, pass.rows, in(0).cols),
                       dy(out().gradient, pass.rows, out().cols);
                   if (write(0) == Write::kOverwrite) std::fill(dx.row(begin), dx.row(end), 0.0f);
                   transfer_rows(Write::kAdd, dy.row_range(begin, end),
                                 dx.block(begin, first_, end - begin, dy.cols));
                 });
  }

 private:
  int64_t first_;
};

}  // namespace

std::unique_ptr<Op> make_concat(std::vector<Tensor*> parts, Tensor* out) {
  return std::make_unique<Concat>(std::move(parts), out);
}
std::unique_ptr<Op> make_slice(Tensor* x, int64_t begin, Tensor* out) {
  return std::make_unique<Slice>(x, begin, out);
}

}  // namespace emblem
