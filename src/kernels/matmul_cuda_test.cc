#include "kernels/matmul_cuda.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/device/device_test.h"
#include "core/math/random.h"

namespace emblem {
namespace {

struct MatmulCudaCase {
  int64_t m, n, k;
  Transpose transpose_a, transpose_b;
  float beta;
  cuda::Epilogue epilogue;
};

std::vector<float> normals(int64_t count, uint64_t stream) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = random_normal(3, stream, i);
  return values;
}

struct Result {
  std::vector<float> c, vector;
};

// The product in double precision; `vector` is the bias, or gets the sum over op(A)'s inner
// dimension.
Result oracle(const MatmulCudaCase& t, const std::vector<float>& a, const std::vector<float>& b,
              Result result) {
  const auto at_a = [&](int64_t i, int64_t k) {
    return t.transpose_a == Transpose::kYes ? a[k * t.m + i] : a[i * t.k + k];
  };
  const auto at_b = [&](int64_t k, int64_t j) {
    return t.transpose_b == Transpose::kYes ? b[j * t.k + k] : b[k * t.n + j];
  };
  using cuda::Epilogue;
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = t.beta * result.c[i * t.n + j];
      for (int64_t k = 0; k < t.k; ++k) sum += static_cast<double>(at_a(i, k)) * at_b(k, j);
      if (t.epilogue == Epilogue::kBias || t.epilogue == Epilogue::kBiasRelu)
        sum += result.vector[j];
      if (t.epilogue == Epilogue::kRelu || t.epilogue == Epilogue::kBiasRelu)
        sum = std::max(sum, 0.0);
      result.c[i * t.n + j] = static_cast<float>(sum);
    }
  }
  return result;
}

// Whether cuBLASLt has the product.
bool agrees(const MatmulCudaCase& t) {
  const Context context{.device = Device::kCuda};
  const auto a = normals(t.m * t.k, 1), b = normals(t.k * t.n, 2);
  const Result start{normals(t.m * t.n, 3), normals(t.n, 4)};
  auto a_there = Buffer<float>::from(context, a), b_there = Buffer<float>::from(context, b),
       c = Buffer<float>::from(context, start.c),
       vector = Buffer<float>::from(context, start.vector);
  const cuda::MatmulLibrary library;
  cuda::MatmulPlan plan{.m = t.m,
                        .n = t.n,
                        .k = t.k,
                        .transpose_a = t.transpose_a,
                        .transpose_b = t.transpose_b,
                        .a = a_there.data(),
                        .b = b_there.data(),
                        .c = c.data(),
                        .beta = t.beta,
                        .epilogue = t.epilogue};
  const bool has_vector =
      t.epilogue != cuda::Epilogue::kNone && t.epilogue != cuda::Epilogue::kRelu;
  if (has_vector) plan.vector = vector.data();
  const auto product = t.epilogue == cuda::Epilogue::kNone
                           ? cuda::Matmul::plan(library, plan)
                           : cuda::Matmul::plan_fastest(context, library, plan);
  if (product == nullptr) return false;
  product->run(context);
  const Result expected = oracle(t, a, b, start);
  const Result actual{c.to_host(context), vector.to_host(context)};
  const double tolerance = 2e-6 * std::sqrt(static_cast<double>(t.k)) + 1e-6;
  for (size_t i = 0; i < expected.c.size(); ++i)
    EXPECT_NEAR(actual.c[i], expected.c[i], tolerance * (1 + std::fabs(expected.c[i]))) << i;
  for (size_t i = 0; has_vector && i < expected.vector.size(); ++i)
    EXPECT_NEAR(actual.vector[i], expected.vector[i],
                tolerance * (1 + std::fabs(expected.vector[i])));
  return true;
}

// C [m, n], added to the first columns of rows of 40, of A [m, k] and the first columns of rows of
// 24.
void expect_product_of_wider_rows() {
  constexpr int64_t m = 50, n = 16, k = 30, b_stride = 24, c_stride = 40;
  const Context context{.device = Device::kCuda};
  const auto a = normals(m * k, 1), b = normals(k * b_stride, 2), start = normals(m * c_stride, 3);
  auto a_there = Buffer<float>::from(context, a), b_there = Buffer<float>::from(context, b),
       c = Buffer<float>::from(context, start);
  const cuda::MatmulLibrary library;
  cuda::Matmul::plan(library, {.m = m,
                               .n = n,
                               .k = k,
                               .a = a_there.data(),
                               .b = b_there.data(),
                               .c = c.data(),
                               .beta = 1.0f,
                               .b_stride = b_stride,
                               .c_stride = c_stride})
      ->run(context);
  const auto actual = c.to_host(context);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c_stride; ++j) {
      double expected = start[i * c_stride + j];
      for (int64_t inner = 0; j < n && inner < k; ++inner)
        expected += static_cast<double>(a[i * k + inner]) * b[inner * b_stride + j];
      EXPECT_NEAR(actual[i * c_stride + j], expected, 2e-5 * (1 + std::fabs(expected)))
          << i << " " << j;
    }
  }
}

constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
const int64_t kMatmulCudaShapes[][3] = {
    {64, 32, 16}, {33, 5, 7}, {700, 479, 130}, {1, 3, 2}, {5, 513, 600}};

TEST(MatmulOnCuda, AgreesWithDoublePrecisionInEveryTransposition) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  dispatch(
      Device::kCuda, [] {},
      [] {
        for (const auto& shape : kMatmulCudaShapes) {
          for (const Transpose turn_a : {kNo, kYes}) {
            for (const Transpose turn_b : {kNo, kYes}) {
              for (const float beta : {0.0f, 1.0f}) {
                SCOPED_TRACE(cat(shape[0], " ", shape[1], " ", shape[2], " beta ", beta));
                EXPECT_TRUE(agrees(
                    {shape[0], shape[1], shape[2], turn_a, turn_b, beta, cuda::Epilogue::kNone}));
              }
            }
          }
        }
      });
}

TEST(MatmulOnCuda, LeavesTheColumnsAfterItsOwnAlone) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  dispatch(
      Device::kCuda, [] {}, [] { expect_product_of_wider_rows(); });
}

TEST(MatmulOnCuda, AgreesWithDoublePrecisionWithEveryEpilogueThereIs) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  dispatch(
      Device::kCuda, [] {},
      [] {
        using cuda::Epilogue;
        for (const auto& shape : kMatmulCudaShapes) {
          SCOPED_TRACE(cat(shape[0], " ", shape[1], " ", shape[2]));
          for (const Epilogue epilogue : {Epilogue::kBias, Epilogue::kRelu, Epilogue::kBiasRelu})
            agrees({shape[0], shape[1], shape[2], kNo, kYes, 0.0f, epilogue});
        }
        // What layers of common sizes rely on for speed.
        EXPECT_TRUE(agrees({256, 512, 128, kNo, kYes, 0.0f, Epilogue::kBiasRelu}));
      });
}

}  // namespace
}  // namespace emblem
