#include "kernels/gemm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/tile_gemm.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  Transpose transpose_a, transpose_b;
  int64_t m, n, k, padding;
  float alpha, beta;
};

struct Problem {
  std::vector<float> a, b, c;
  Matrix<const float> left, right;

  explicit Problem(const Case& t) {
    const bool turn_a = t.transpose_a == Transpose::kYes, turn_b = t.transpose_b == Transpose::kYes;
    const int64_t a_rows = turn_a ? t.k : t.m, a_cols = turn_a ? t.m : t.k;
    const int64_t b_rows = turn_b ? t.n : t.k, b_cols = turn_b ? t.k : t.n;
    Random random{7, static_cast<uint64_t>(t.m * 1000 + t.n)};
    for (auto [values, count] : {std::pair{&a, a_rows * (a_cols + t.padding)},
                                 {&b, b_rows * (b_cols + t.padding)},
                                 {&c, t.m * (t.n + t.padding)}}) {
      values->resize(count);
      for (float& value : *values) value = random.uniform() - 0.5f;
    }
    left = {a.data(), a_rows, a_cols, a_cols + t.padding};
    right = {b.data(), b_rows, b_cols, b_cols + t.padding};
  }
  void round_to_bf16() {
    for (auto* values : {&a, &b})
      for (float& value : *values) value = Bf16::from(value).to_float();
  }
  void make_integers() {
    for (auto* values : {&a, &b})
      for (float& value : *values) value = std::nearbyint(value * 200);
  }
  Matrix<float> out(const Case& t) { return {c.data(), t.m, t.n, t.n + t.padding}; }
};

// What gemm promises, in double precision; elements between the rows stay.
std::vector<float> oracle(const Case& t, const Problem& problem) {
  std::vector<float> expected = problem.c;
  const auto at = [](Matrix<const float> m, Transpose transpose, int64_t i, int64_t j) {
    return static_cast<double>(transpose == Transpose::kYes ? m.row(j)[i] : m.row(i)[j]);
  };
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = 0.0;
      for (int64_t k = 0; k < t.k; ++k) {
        sum += at(problem.left, t.transpose_a, i, k) * at(problem.right, t.transpose_b, k, j);
      }
      float& c = expected[i * (t.n + t.padding) + j];
      c = static_cast<float>(t.alpha * sum + (t.beta == 0.0f ? 0.0 : t.beta * c));
    }
  }
  return expected;
}

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, int64_t k,
                  float unit = 1.0f) {
  ASSERT_EQ(actual.size(), expected.size());
  const float tolerance = 1e-6f * unit * std::sqrt(static_cast<float>(k) + 1.0f);
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
}

const int64_t kShapes[][3] = {{1, 1, 1},   {7, 5, 3},      {8, 12, 16},   {300, 1, 70},
                              {1, 530, 9}, {257, 13, 270}, {33, 65, 300}, {260, 515, 11},
                              {64, 64, 0}, {9, 530, 260},  {70, 40, 1100}};

template <class Body>
void for_each_case(Body&& body) {
  for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
    for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
      for (const auto& shape : kShapes) {
        for (const int64_t padding : {0, 3}) {
          const float alpha = padding == 0 ? 1.0f : 0.5f, beta = shape[0] % 2 == 0 ? 0.0f : -2.0f;
          body(Case{ta, tb, shape[0], shape[1], shape[2], padding, alpha, beta});
        }
      }
    }
  }
}

TEST(Gemm, AgreesWithDoublePrecisionForOddShapesTransposesStridesAndFactors) {
  ThreadPool pool(2);
  Context context;
  context.threads = &pool;
  for_each_case([&](const Case& t) {
    Problem problem(t);
    const auto expected = oracle(t, problem);
    gemm(context, t.transpose_a, t.transpose_b, t.alpha, problem.left, problem.right, t.beta,
         problem.out(t));
    expect_close(problem.c, expected, t.k);
  });
}

TEST(Gemm, EveryKernelOfThisCpuAgreesWithDoublePrecision) {
  ThreadPool pool(2);
  Context context;
  context.threads = &pool;
  for (const cpu::TileKernel* kernel : cpu::tile_kernels()) {
    SCOPED_TRACE(kernel->name);
    for_each_case([&](Case t) {
      if (t.k == 0) return;
      if (kernel->type != DType::kF32) t.alpha = 1.0f;
      Problem problem(t);
      if (kernel->type == DType::kBf16) problem.round_to_bf16();
      if (kernel->type == DType::kInt8) problem.make_integers();
      const auto expected = oracle(t, problem);
      const float unit = kernel->type == DType::kInt8 ? 1e4f : 1.0f;
      Problem shared = problem;
      cpu::tile_gemm(*kernel, t.transpose_a, t.transpose_b, t.alpha, problem.left, problem.right,
                     t.k, t.beta, problem.out(t));
      expect_close(problem.c, expected, t.k, unit);
      cpu::tile_gemm(context, *kernel, t.transpose_a, t.transpose_b, t.alpha, problem.left,
                     problem.right, t.k, t.beta, shared.out(t));
      expect_close(shared.c, expected, t.k, unit);
    });
  }
}

// Errors relative to the sums of the products' sizes, which cancel one another in the sums or not.
TEST(Gemm, EveryKernelOfFp32IsAsExactAsSumsOfFp32) {
  for (const float shift : {0.5f, 0.0f}) {
    const Case t{Transpose::kNo, Transpose::kNo, 40, 70, 700, 0, 1.0f, 0.0f};
    Problem problem(t);
    for (auto* values : {&problem.a, &problem.b})
      for (float& value : *values) value += shift;
    for (const cpu::TileKernel* kernel : cpu::tile_kernels()) {
      if (kernel->type != DType::kF32) continue;
      SCOPED_TRACE(kernel->name);
      cpu::tile_gemm(*kernel, t.transpose_a, t.transpose_b, 1.0f, problem.left, problem.right, t.k,
                     0.0f, problem.out(t));
      double squares = 0.0, plain_squares = 0.0;
      for (int64_t i = 0; i < t.m; ++i) {
        for (int64_t j = 0; j < t.n; ++j) {
          double exact = 0.0, size = 0.0;
          float plain = 0.0f;
          for (int64_t k = 0; k < t.k; ++k) {
            const float a = problem.left.row(i)[k], b = problem.right.row(k)[j];
            exact += double{a} * double{b};
            size += std::abs(double{a} * double{b});
            plain = std::fma(a, b, plain);
          }
          const double error = (double{problem.c[i * t.n + j]} - exact) / size;
          const double plain_error = (double{plain} - exact) / size;
          squares += error * error;
          plain_squares += plain_error * plain_error;
        }
      }
      EXPECT_LE(squares, 1.1 * plain_squares);
    }
  }
}

TEST(Gemm, Int8IsTheSameInEveryKernel) {
  constexpr int64_t kInner = 300, kCols = 70;
  std::vector<float> factors(kInner), rows(45 * kInner), weights(kCols * kInner);
  std::vector<int32_t> zeros(kInner);
  Random random{3};
  for (float& factor : factors) factor = 50 * random.uniform();
  for (int32_t& zero : zeros) zero = static_cast<int32_t>(100 * random.uniform()) - 50;
  for (float& value : rows) value = 10 * random.uniform() - 5;
  for (float& value : weights) value = std::nearbyint(254 * random.uniform() - 127);
  rows[5] = 1e30f;
  rows[kInner + 7] = -1e30f;
  for (const int64_t count : {1, 3, 4, 7, 20, 45}) {
    std::vector<float> expected(static_cast<size_t>(count * kCols));
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t j = 0; j < kCols; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < kInner; ++k) {
          const float scaled = std::clamp(rows[r * kInner + k] * factors[k], -3e4f, 3e4f);
          const auto element = static_cast<int64_t>(std::nearbyint(scaled)) + zeros[k];
          sum += std::clamp<int64_t>(element, -128, 127) *
                 static_cast<int64_t>(weights[j * kInner + k]);
        }
        expected[r * kCols + j] = static_cast<float>(sum);
      }
    }
    for (const cpu::TileKernel* kernel : cpu::tile_kernels()) {
      if (kernel->type != DType::kInt8) continue;
      SCOPED_TRACE(testing::Message() << kernel->name << ", " << count << " rows");
      std::vector<std::byte> panels(kernel->bytes_for(kCols, kernel->cols, kInner));
      kernel->pack_right({weights.data(), kCols, kInner, kInner, 1}, kernel->cols, panels.data());
      std::vector<float> actual(expected.size());
      cpu::multiply_panels(*kernel,
                           {.data = rows.data(),
                            .count = count,
                            .inner = kInner,
                            .step = kInner,
                            .factors = factors.data(),
                            .zeros = zeros.data()},
                           1.0f, panels.data(), kernel->panel_bytes(kernel->cols, kInner), kCols,
                           false, actual.data(), kCols);
      EXPECT_EQ(actual, expected);
    }
  }
}

TEST(Gemm, AKernelThatIsNotThereIsRefusedByName) {
  EXPECT_EQ(&cpu::choose_tile_kernel(DType::kF32, "plain"), &cpu::kPlainTiles);
  EXPECT_NE(&cpu::choose_tile_kernel(DType::kBf16, "plain"), &cpu::kPlainTiles);
  EXPECT_THAT([] { cpu::choose_tile_kernel(DType::kF32, "plain,mmx"); },
              ThrowsMessage<Error>(HasSubstr("EMBLEM_CPU_KERNEL=plain,mmx: no kernel \"mmx\"")));
}

TEST(Gemm, GivesTheSameBytesWithAnyNumberOfThreads) {
  for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
    const Case t{transpose, Transpose::kYes, 700, 600, 1300, 0, 1.0f, 0.0f};
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      Context context;
      context.threads = &pool;
      Problem problem(t);
      gemm(context, t.transpose_a, t.transpose_b, t.alpha, problem.left, problem.right, t.beta,
           problem.out(t));
      results.push_back(problem.c);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST(Gemm, DoesNotReadCWhenBetaIsZero) {
  const Case t{Transpose::kNo, Transpose::kNo, 9, 10, 11, 0, 1.0f, 0.0f};
  Problem problem(t);
  const auto expected = oracle(t, problem);
  for (float& value : problem.c) value = std::numeric_limits<float>::quiet_NaN();
  gemm({}, t.transpose_a, t.transpose_b, t.alpha, problem.left, problem.right, t.beta,
       problem.out(t));
  expect_close(problem.c, expected, t.k);
}

TEST(Gemm, RejectsShapesThatDoNotFit) {
  std::vector<float> data(100);
  EXPECT_THAT(
      [&] {
        gemm({}, Transpose::kNo, Transpose::kYes, 1.0f, {data.data(), 2, 3}, {data.data(), 4, 5},
             0.0f, {data.data(), 2, 4});
      },
      ThrowsMessage<Error>(HasSubstr("op(A) is [2, 3] and op(B) [5, 4], but C is [2, 4]")));
}

TEST(Gemm, SaysWhatToDoWhenAskedForADeviceItDoesNotRunOn) {
  std::vector<float> data(100);
  Context context;
  context.device = Device::kCuda;
  EXPECT_THAT(
      [&] {
        gemm(context, Transpose::kNo, Transpose::kNo, 1.0f, {data.data(), 2, 3},
             {data.data(), 3, 4}, 0.0f, {data.data(), 2, 4});
      },
      ThrowsMessage<Error>(HasSubstr("the context's device is cuda; use cuda::Matmul")));
}

}  // namespace
}  // namespace emblem
