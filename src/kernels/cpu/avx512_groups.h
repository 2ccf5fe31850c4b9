// kernels/cpu/avx512_groups.h - panels of groups of 4 bytes, 2 elements of bf16 or 4 of int8, as
// AVX-512 and AMX multiply them. What is here is local to the file that includes it, which is
// compiled for one instruction set.
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "kernels/cpu/tile_kernel.h"

namespace emblem::cpu {
namespace {

constexpr int64_t kGroupBytes = 4, kGroups = 16;  // groups of a register

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << std::max<int64_t>(count, 0)) - 1);
}

// How elements become groups: of_line gives 16 of one line, of_lines one of each of 16 lines that
// lie side by side.
struct Bf16Groups {
  static constexpr int64_t kDepth = 2;

  static __m512i of_line(const Lines& from, int64_t line, int64_t k) {
    const float* data = from.data + line * from.step + k;
    const int64_t count = from.inner - k;
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(count), data);
    const __m512 high = _mm512_maskz_loadu_ps(first_lanes(count - 16), data + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
  }

  static __m512i of_lines(const Lines& from, int64_t line, int64_t k) {
    const float* data = from.data + line + k * from.inner_step;
    const __mmask16 lines = first_lanes(from.count - line);
    const __m512 first = _mm512_maskz_loadu_ps(lines, data);
    const __m512 second = k + 1 < from.inner ? _mm512_maskz_loadu_ps(lines, data + from.inner_step)
                                             : _mm512_setzero_ps();
    return _mm512_or_si512(widened(first), _mm512_slli_epi32(widened(second), 16));
  }

 private:
  static __m512i widened(__m512 values) {
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(values));
  }
};

// Groups of left matrices whose lines are rows, and of right ones whose lines were rounded
// before. kFlip is added to each byte.
template <uint8_t kFlip>
struct Int8Groups {
  static constexpr int64_t kDepth = 4;

  static __m512i of_line(const Lines& from, int64_t line, int64_t k) {
    __m512i groups = _mm512_castsi128_si512(sixteen(from, line, k));
    groups = _mm512_inserti32x4(groups, sixteen(from, line, k + 16), 1);
    groups = _mm512_inserti32x4(groups, sixteen(from, line, k + 32), 2);
    groups = _mm512_inserti32x4(groups, sixteen(from, line, k + 48), 3);
    return _mm512_xor_si512(groups, _mm512_set1_epi8(static_cast<char>(kFlip)));
  }

  static __m512i of_lines(const Lines& from, int64_t line, int64_t k) {
    __m512i groups = _mm512_setzero_si512();
    for (int64_t i = 0; i < std::min<int64_t>(kDepth, from.inner - k); ++i) {
      const float* data = from.data + line + (k + i) * from.inner_step;
      const __m512 factor = _mm512_set1_ps(from.factors == nullptr ? 1.0f : from.factors[k + i]);
      const __m512i zero = _mm512_set1_epi32(from.zeros == nullptr ? 0 : from.zeros[k + i]);
      const __m128i bytes =
          rounded(_mm512_maskz_loadu_ps(first_lanes(from.count - line), data), factor, zero);
      groups = _mm512_or_si512(
          groups, _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), static_cast<unsigned>(8 * i)));
    }
    return _mm512_xor_si512(groups, _mm512_set1_epi8(static_cast<char>(kFlip)));
  }

 private:
  static __m128i sixteen(const Lines& from, int64_t line, int64_t k) {
    const __mmask16 there = first_lanes(from.inner - k);
    const __m512 one = _mm512_set1_ps(1.0f);
    return rounded(_mm512_maskz_loadu_ps(there, from.data + line * from.step + k),
                   from.factors == nullptr ? one : _mm512_maskz_loadu_ps(there, from.factors + k),
                   from.zeros == nullptr ? _mm512_setzero_si512()
                                         : _mm512_maskz_loadu_epi32(there, from.zeros + k));
  }
  static __m128i rounded(__m512 values, __m512 factor, __m512i zero) {
    const __m512 limit = _mm512_set1_ps(kInt8Limit);
    const __m512 scaled = _mm512_min_ps(
        _mm512_max_ps(_mm512_mul_ps(values, factor), _mm512_sub_ps(_mm512_setzero_ps(), limit)),
        limit);
    return _mm512_cvtsepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(scaled), zero));
  }
};

// The transpose of 16 x 16 groups.
inline void transpose(__m512i (&rows)[kGroups]) {
  __m512i pairs[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  // fours[4q + j]: in each 128-bit lane l, column 4l + j of rows 4q to 4q + 3.
  __m512i fours[16];
#pragma GCC unroll 4
  for (int q = 0; q < 16; q += 4) {
    fours[q] = _mm512_unpacklo_epi64(pairs[q], pairs[q + 2]);
    fours[q + 1] = _mm512_unpackhi_epi64(pairs[q], pairs[q + 2]);
    fours[q + 2] = _mm512_unpacklo_epi64(pairs[q + 1], pairs[q + 3]);
    fours[q + 3] = _mm512_unpackhi_epi64(pairs[q + 1], pairs[q + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i low = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0x44);
    const __m512i high = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0xee);
    const __m512i low_second = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0x44);
    const __m512i high_second = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0xee);
    rows[j] = _mm512_shuffle_i32x4(low, low_second, 0x88);
    rows[4 + j] = _mm512_shuffle_i32x4(low, low_second, 0xdd);
    rows[8 + j] = _mm512_shuffle_i32x4(high, high_second, 0x88);
    rows[12 + j] = _mm512_shuffle_i32x4(high, high_second, 0xdd);
  }
}

// 16 groups from element k on of 16 lines from `line` on: one row for each line, or, `turned`, one
// for each group.
template <class Groups>
void load_groups(const Lines& from, int64_t line, int64_t k, bool turned,
                 __m512i (&rows)[kGroups]) {
  const bool along_lines = from.inner_step == 1;
  for (int64_t i = 0; i < kGroups; ++i) {
    const int64_t at = along_lines ? line + i : k + i * Groups::kDepth;
    if (at >= (along_lines ? from.count : from.inner)) {
      rows[i] = _mm512_setzero_si512();
    } else {
      rows[i] = along_lines ? Groups::of_line(from, at, k) : Groups::of_lines(from, line, at);
    }
  }
  if (turned == along_lines) transpose(rows);
}

// Calls pack(line, k) for every block of `lines` lines and `depth` elements, in an order in which
// memory is read from one address to the next.
template <class Pack>
void for_each_block(const Lines& from, int64_t lines, int64_t depth, Pack pack) {
  if (from.inner_step == 1) {
    for (int64_t line = 0; line < from.count; line += lines)
      for (int64_t k = 0; k < from.inner; k += depth) pack(line, k);
  } else {
    for (int64_t k = 0; k < from.inner; k += depth)
      for (int64_t line = 0; line < from.count; line += lines) pack(line, k);
  }
}

// Panels [groups][width], with zeros up to a multiple of `unit` groups.
template <class Groups>
void pack_groups(const Lines& from, int64_t width, int64_t unit, std::byte* to) {
  const int64_t depth = Groups::kDepth * unit;
  const int64_t groups = (from.inner + depth - 1) / depth * unit;
  __m512i rows[kGroups];
  for_each_block(from, width, kGroups * Groups::kDepth, [&](int64_t first, int64_t k) {
    const int64_t group = k / Groups::kDepth;
    for (int64_t line = 0; line < width; line += kGroups) {
      load_groups<Groups>(from, first + line, k, true, rows);
      std::byte* at = to + (groups * first + group * width + line) * kGroupBytes;
      for (int64_t i = 0; i < std::min(kGroups, groups - group); ++i)
        _mm512_mask_storeu_epi32(at + i * width * kGroupBytes, first_lanes(width - line), rows[i]);
    }
  });
}

}  // namespace
}  // namespace emblem::cpu
