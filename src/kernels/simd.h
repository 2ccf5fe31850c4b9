// kernels/simd.h - short vectors of floats in the width of the CPU this file is compiled for, and
// the few loops over contiguous floats that everything else is made of.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE3__)
#include <immintrin.h>
#endif

namespace emblem::simd {

#if defined(__AVX__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;  // NEON, SSE
#endif

// Arithmetic on it compiles to the vector instructions of the target (GCC and Clang extension).
typedef float Floats __attribute__((vector_size(kWidth * sizeof(float))));

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
inline void store(float* to, Floats value) { std::memcpy(to, &value, sizeof(value)); }
inline Floats broadcast(float value) { return value - Floats{}; }

inline float horizontal_sum(Floats value) {
  float lanes[kWidth];
  store(lanes, value);
  float sum = 0.0f;
  for (int i = 0; i < kWidth; i += 4)
    sum += (lanes[i] + lanes[i + 1]) + (lanes[i + 2] + lanes[i + 3]);
  return sum;
}

// sums[i] = the sum of the lanes of values[i], for four at once.
inline void horizontal_sums(const Floats (&values)[4], float* sums) {
#if defined(__aarch64__)
  const float32x4_t low = vpaddq_f32((float32x4_t)values[0], (float32x4_t)values[1]);
  const float32x4_t high = vpaddq_f32((float32x4_t)values[2], (float32x4_t)values[3]);
  vst1q_f32(sums, vpaddq_f32(low, high));
#elif defined(__AVX__)
  __m128 half[4];
  for (int i = 0; i < 4; ++i) {
    const __m256 value = (__m256)values[i];
    half[i] = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  }
  _mm_storeu_ps(sums, _mm_hadd_ps(_mm_hadd_ps(half[0], half[1]), _mm_hadd_ps(half[2], half[3])));
#elif defined(__SSE3__)
  const __m128 low = _mm_hadd_ps((__m128)values[0], (__m128)values[1]);
  const __m128 high = _mm_hadd_ps((__m128)values[2], (__m128)values[3]);
  _mm_storeu_ps(sums, _mm_hadd_ps(low, high));
#else
  for (int i = 0; i < 4; ++i) sums[i] = horizontal_sum(values[i]);
#endif
}

// sum of a[i] b[i]
inline float dot(const float* a, const float* b, int64_t count) {
  Floats sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kWidth <= count; i += 4 * kWidth) {
    for (int u = 0; u < 4; ++u) sum[u] += load(a + i + u * kWidth) * load(b + i + u * kWidth);
  }
  for (; i + kWidth <= count; i += kWidth) sum[0] += load(a + i) * load(b + i);
  float total = horizontal_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

// y[i] += factor x[i]
inline void add_scaled(float factor, const float* x, float* y, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store(y + i, load(y + i) + factor * load(x + i));
  for (; i < count; ++i) y[i] += factor * x[i];
}

// y[i] += x[i]
inline void add(const float* x, float* y, int64_t count) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) store(y + i, load(y + i) + load(x + i));
  for (; i < count; ++i) y[i] += x[i];
}

}  // namespace emblem::simd
