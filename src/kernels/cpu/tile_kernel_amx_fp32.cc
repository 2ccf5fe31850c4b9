// Products of fp32 in the matrix registers of AMX, which multiply bf16.
//
// An element is the sum of three of bf16, exactly: its 24 bits are three times 8. Of their nine
// products six are computed; the other three are smaller than a sum's rounding. An instruction sums
// 32 elements before it adds them to the others, so that errors are smaller than those of sums of
// fp32 in their order. Elements below 2^-110 lose bits, and infinite ones become NaN.
#if defined(__x86_64__)
#include "kernels/cpu/amx_tiles.h"

namespace emblem::cpu {
namespace {

constexpr int kParts = 3, kProducts = 6;
constexpr int64_t kDepth = 2 * kGroups;

// 16 elements from k on of 16 lines from `line` on, with zeros beyond the last: one row for each
// line, or, `turned`, one for each element.
void load_block(const Lines& from, int64_t line, int64_t k, bool turned, __m512i (&rows)[kGroups]) {
  const bool along_lines = from.inner_step == 1;
  const float* data = from.data + line * from.step + k * from.inner_step;
  const int64_t lines = from.count - line, elements = from.inner - k;
  const int64_t count = along_lines ? lines : elements;
  const int64_t step = along_lines ? from.step : from.inner_step;
  const __mmask16 lanes = first_lanes(along_lines ? elements : lines);
  for (int64_t i = 0; i < kGroups; ++i)
    rows[i] = i < count ? _mm512_maskz_loadu_epi32(lanes, data + i * step) : _mm512_setzero_si512();
  if (turned == along_lines) transpose(rows);
}

// The parts of two times 16 elements, in groups of one of each.
void split(__m512i first, __m512i second, __m512i (&parts)[kParts]) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (int p = 0; p < kParts; ++p) {
    parts[p] = _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(first, 16), second);
    if (p + 1 == kParts) break;
    first = (__m512i)((__m512)first - (__m512)_mm512_and_si512(first, upper));
    second = (__m512i)((__m512)second - (__m512)_mm512_and_si512(second, upper));
  }
}

// The parts of 32 elements of 16 lines, of which elements i and i + 16 are a group.
void load_parts(const Lines& from, int64_t line, int64_t k, bool turned,
                __m512i (&rows)[kParts][kGroups]) {
  __m512i first[kGroups], second[kGroups];
  load_block(from, line, k, turned, first);
  load_block(from, line, k + kGroups, turned, second);
  for (int64_t i = 0; i < kGroups; ++i) {
    __m512i parts[kParts];
    split(first[i], second[i], parts);
    for (int p = 0; p < kParts; ++p) rows[p][i] = parts[p];
  }
}

// [inner / kDepth][part][width][kDepth]
void pack_left(const Lines& from, int64_t width, std::byte* to) {
  const int64_t blocks = (from.inner + kDepth - 1) / kDepth;
  __m512i rows[kParts][kGroups];
  for_each_block(from, width, kDepth, [&](int64_t first, int64_t k) {
    std::byte* at = to + (blocks * first + k / kDepth * width) * kParts * kTileBytes;
    for (int64_t line = 0; line < width; line += kGroups) {
      load_parts(from, first + line, k, false, rows);
      for (int64_t p = 0; p < kParts; ++p)
        for (int64_t i = 0; i < std::min(kGroups, width - line); ++i)
          _mm512_storeu_si512(at + (p * width + line + i) * kTileBytes, rows[p][i]);
    }
  });
}

// [inner / kDepth][part][groups][width]
void pack_right(const Lines& from, int64_t width, std::byte* to) {
  const int64_t blocks = (from.inner + kDepth - 1) / kDepth;
  __m512i rows[kParts][kGroups];
  for_each_block(from, width, kDepth, [&](int64_t first, int64_t k) {
    std::byte* at = to + (blocks * first / width + k / kDepth) * kParts * kBlockBytes;
    for (int64_t line = 0; line < width; line += kGroups) {
      load_parts(from, first + line, k, true, rows);
      for (int64_t p = 0; p < kParts; ++p)
        for (int64_t i = 0; i < kGroups; ++i)
          _mm512_storeu_si512(at + p * kBlockBytes + i * kRightStride + line * kGroupBytes,
                              rows[p][i]);
    }
  });
}

// ---- products ----

// A part of the left matrix, of 32 rows, and of the right one.
#define EMBLEM_LEFT(part)                                                        \
  do {                                                                           \
    _tile_loadd(4, a + (part)*kBlockBytes, kTileBytes);                          \
    _tile_loadd(5, a + (part)*kBlockBytes + kTileRows * kTileBytes, kTileBytes); \
  } while (false)
#define EMBLEM_RIGHT(part)                                             \
  do {                                                                 \
    _tile_loadd(6, b + (part)*kBlockBytes, kRightStride);              \
    _tile_loadd(7, b + (part)*kBlockBytes + kTileBytes, kRightStride); \
  } while (false)
#define EMBLEM_MULTIPLY()    \
  do {                       \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(1, 4, 7); \
    _tile_dpbf16ps(2, 5, 6); \
    _tile_dpbf16ps(3, 5, 7); \
  } while (false)

// The order of products, of which the largest is the last, needs the fewest loads.
void multiply_tile(const std::byte* a, const std::byte* b, int64_t inner) {
  constexpr int64_t kStep = kParts * kBlockBytes;
  for (int64_t k = 0; k < inner; k += kDepth, a += kStep, b += kStep) {
    EMBLEM_LEFT(2);
    EMBLEM_RIGHT(0);
    EMBLEM_MULTIPLY();
    EMBLEM_LEFT(1);
    EMBLEM_MULTIPLY();
    EMBLEM_RIGHT(1);
    EMBLEM_MULTIPLY();
    EMBLEM_LEFT(0);
    EMBLEM_MULTIPLY();
    EMBLEM_RIGHT(2);
    EMBLEM_MULTIPLY();
    EMBLEM_RIGHT(0);
    EMBLEM_MULTIPLY();
  }
}
#undef EMBLEM_LEFT
#undef EMBLEM_MULTIPLY

// The same for few rows, whose parts are all in registers, `part` bytes apart in memory. Each
// product waits for the one before: between(0) to between(kProducts - 1) run meanwhile.
#define EMBLEM_MULTIPLY(left)   \
  do {                          \
    _tile_dpbf16ps(0, left, 6); \
    _tile_dpbf16ps(1, left, 7); \
  } while (false)
template <class Between>
void multiply_few_block(const std::byte* a, int64_t part, const std::byte* b, Between between) {
  _tile_loadd(3, a, kTileBytes);
  _tile_loadd(4, a + part, kTileBytes);
  _tile_loadd(5, a + 2 * part, kTileBytes);
  EMBLEM_RIGHT(0);
  EMBLEM_MULTIPLY(5);
  between(0);
  EMBLEM_MULTIPLY(4);
  between(1);
  EMBLEM_RIGHT(1);
  EMBLEM_MULTIPLY(4);
  between(2);
  EMBLEM_MULTIPLY(3);
  between(3);
  EMBLEM_RIGHT(2);
  EMBLEM_MULTIPLY(3);
  between(4);
  EMBLEM_RIGHT(0);
  EMBLEM_MULTIPLY(3);
  between(5);
}
#undef EMBLEM_RIGHT
#undef EMBLEM_MULTIPLY

std::byte* pack_few(const Lines& x) {
  const int64_t blocks = (x.inner + kDepth - 1) / kDepth;
  std::byte* const to = packing_memory(blocks * kParts * x.count * kTileBytes);
  pack_left(x, x.count, to);
  finish_stores();
  return to;
}

// Sums of few rows and up to kCols columns of c, in registers 0 and 1.
class FewSums {
 public:
  FewSums(int64_t rows, int64_t cols, float* c, int64_t stride)
      : rows_(rows), cols_(cols), c_(c), stride_(stride) {}

  void load(bool add) {
    if (!add) {
      _tile_zero(0);
      _tile_zero(1);
      return;
    }
    for (int64_t r = 0; r < rows_; ++r) std::copy_n(c_ + r * stride_, cols_, sums_ + r * kCols);
    finish_stores();
    _tile_loadd(0, sums_, kCols * 4);
    _tile_loadd(1, sums_ + kCols / 2, kCols * 4);
  }
  void store() {
    _tile_stored(0, sums_, kCols * 4);
    _tile_stored(1, sums_ + kCols / 2, kCols * 4);
    for (int64_t r = 0; r < rows_; ++r) std::copy_n(sums_ + r * kCols, cols_, c_ + r * stride_);
  }

 private:
  int64_t rows_, cols_;
  float* c_;
  int64_t stride_;
  alignas(64) float sums_[TileKernel::kMostFloatRows * kCols];
};

void multiply(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
              int64_t stride) {
  if (add) {
    load_sums(c, stride);
  } else {
    clear_sums();
  }
  multiply_tile(a, b, inner);
  store_sums(c, stride);
}

void multiply_few(const Lines& x, const std::byte* panels, int64_t panel_bytes, int64_t cols,
                  bool add, float* c, int64_t stride) {
  const std::byte* const rows = pack_few(x);
  const int64_t part = x.count * kTileBytes;
  enter_few(x.count);
  for (int64_t col = 0; col < cols; col += kCols, panels += panel_bytes) {
    FewSums sums(x.count, std::min<int64_t>(kCols, cols - col), c + col, stride);
    sums.load(add);
    const std::byte *a = rows, *b = panels;
    for (int64_t k = 0; k < x.inner; k += kDepth, a += kParts * part, b += kParts * kBlockBytes)
      multiply_few_block(a, part, b, [](int) {});
    sums.store();
  }
  enter();
}

// ---- few rows and weights of fp32, which are split while they are read ----

constexpr int64_t kAhead = 1024;  // floats; those of the next panels follow

// Groups [first, last) of 32 lines of a panel of floats, or of those that are there.
void split_groups(const float* panel, int64_t lines, int64_t first, int64_t last, std::byte* to) {
  for (int64_t i = first; i < last; ++i) {
    for (int64_t v = 0; v < kCols; v += kGroups) {
      const auto line = [&](int64_t at) {
        return at < lines ? _mm512_loadu_si512(panel + at * kCols + v) : _mm512_setzero_si512();
      };
      _mm_prefetch(panel + i * kCols + v + kAhead, _MM_HINT_T0);
      _mm_prefetch(panel + (i + kGroups) * kCols + v + kAhead, _MM_HINT_T0);
      __m512i parts[kParts];
      split(line(i), line(i + kGroups), parts);
      for (int p = 0; p < kParts; ++p)
        _mm512_store_si512(to + p * kBlockBytes + i * kRightStride + v * kGroupBytes, parts[p]);
    }
  }
  finish_stores();
}

// A block is split while the one before is multiplied.
void multiply_floats(const std::byte* a, int64_t rows, const float* panel, int64_t inner) {
  alignas(64) std::byte blocks[2][kParts * kBlockBytes];
  split_groups(panel, inner, 0, kGroups, blocks[0]);
  for (int64_t k = 0; k < inner; k += kDepth, a += kParts * rows * kTileBytes) {
    const int64_t next = k + kDepth;
    multiply_few_block(a, rows * kTileBytes, blocks[k / kDepth % 2], [&](int product) {
      if (next >= inner) return;
      split_groups(panel + next * kCols, inner - next, kGroups * product / kProducts,
                   kGroups * (product + 1) / kProducts, blocks[next / kDepth % 2]);
    });
  }
}

void multiply_few_floats(const Lines& x, const float* panels, int64_t panel_stride, int64_t cols,
                         bool add, float* c, int64_t stride) {
  std::byte* const rows = pack_few(x);
  enter_few(x.count);
  for (int64_t col = 0; col < cols; col += kCols, panels += panel_stride) {
    FewSums sums(x.count, std::min<int64_t>(kCols, cols - col), c + col, stride);
    sums.load(add);
    multiply_floats(rows, x.count, panels, x.inner);
    sums.store();
  }
  leave();
}

// ---- the kernel ----

void spin(int64_t steps) {
  enter();
  clear_sums();
  _tile_zero(4);
  _tile_zero(6);
  for (int64_t step = 0; step < steps; ++step) {
    for (int product = 0; product < kProducts; ++product) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 6);
      _tile_dpbf16ps(2, 4, 6);
      _tile_dpbf16ps(3, 4, 6);
    }
  }
  leave();
}

}  // namespace

const TileKernel kAmxFp32Tiles = {.name = "amx_fp32",
                                  .type = DType::kF32,
                                  .rows = kRows,
                                  .cols = kCols,
                                  .depth = kDepth,
                                  .element_bytes = kParts * 2,
                                  .row_block = 384,
                                  .col_block = 128,
                                  .pack_left = pack_left,
                                  .pack_right = pack_right,
                                  .multiply = multiply,
                                  .multiply_few = multiply_few,
                                  .multiply_few_floats = multiply_few_floats,
                                  .enter = enter,
                                  .leave = leave,
                                  .spin = spin,
                                  .spin_flops = kRows * kCols * kDepth * 2};

}  // namespace emblem::cpu
#endif
