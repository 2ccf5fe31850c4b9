#include "kernels/cpu/tile_product.h"

#include <algorithm>

#include "core/memory/scratch_memory.h"
#include "emblem/error.h"
#include "kernels/cpu/copied_rows.h"

namespace emblem::cpu {
namespace {

constexpr int64_t kMostInner = 512, kUnit = 64;  // the deepest of all kernels
constexpr int64_t kCopiedBlock = 192;            // rows whose copies stay in the L2 cache
constexpr int kMostTile = 32 * 32;               // floats, of all kernels

// A tile at the border of c.
void multiply_border(const TileKernel& kernel, const std::byte* a, const std::byte* b,
                     int64_t inner, bool add, int64_t rows, int64_t cols, float* c,
                     int64_t stride) {
  float tile[kMostTile];
  for (int64_t r = 0; add && r < rows; ++r)
    std::copy_n(c + r * stride, cols, tile + r * kernel.cols);
  kernel.multiply(a, b, inner, add, tile, kernel.cols);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(tile + r * kernel.cols, cols, c + r * stride);
}

// Rows that are worth a panel; the rest are multiplied few at a time, up to twice.
int64_t rows_in_panels(const TileKernel& kernel, const Lines& a) {
  const int64_t rest = a.count % kernel.rows;
  const bool few = a.inner_step == 1 &&
                   rest <= std::min<int64_t>(kernel.rows * 2 / 3, 2 * TileKernel::kMostFewRows);
  return few ? a.count - rest : a.count;
}

class Entered {
 public:
  explicit Entered(const TileKernel& kernel) : kernel_(kernel) {
    if (kernel_.enter != nullptr) kernel_.enter();
  }
  ~Entered() {
    if (kernel_.leave != nullptr) kernel_.leave();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  const TileKernel& kernel_;
};

// c [rows, cols] = (add ? c : 0) + a b for panels of both.
void multiply_tiles(const TileKernel& kernel, const std::byte* a, int64_t rows, int64_t inner,
                    const std::byte* b, int64_t panel_bytes, int64_t cols, bool add, float* c,
                    int64_t stride) {
  const int64_t left_bytes = kernel.panel_bytes(kernel.rows, inner);
  for (int64_t first = 0; first < cols; first += kernel.col_block) {
    const std::byte* left = a;
    for (int64_t row = 0; row < rows; row += kernel.rows, left += left_bytes) {
      const int64_t height = std::min<int64_t>(kernel.rows, rows - row);
      const std::byte* panel = b + first / kernel.cols * panel_bytes;
      for (int64_t col = first; col < std::min(first + kernel.col_block, cols);
           col += kernel.cols, panel += panel_bytes) {
        const int64_t width = std::min<int64_t>(kernel.cols, cols - col);
        float* to = c + row * stride + col;
        if (height == kernel.rows && width == kernel.cols) {
          kernel.multiply(left, panel, inner, add, to, stride);
        } else {
          multiply_border(kernel, left, panel, inner, add, height, width, to, stride);
        }
      }
    }
  }
}

// An inner block and a row block.
void multiply_block(const TileKernel& kernel, const Lines& a, const std::byte* b,
                    int64_t panel_bytes, int64_t cols, bool add, float* c, int64_t stride) {
  static thread_local ScratchMemory<std::byte> memory;
  Lines lines = a;
  lines.count = rows_in_panels(kernel, a);
  std::byte* const left = memory.take(kernel.bytes_for(lines.count, kernel.rows, a.inner));
  kernel.pack_left(lines, kernel.rows, left);
  multiply_tiles(kernel, left, lines.count, a.inner, b, panel_bytes, cols, add, c, stride);
  for (int64_t row = lines.count; row < a.count; row += TileKernel::kMostFewRows) {
    Lines few = a;
    few.data = a.data + row * a.step;
    few.count = std::min(TileKernel::kMostFewRows, a.count - row);
    kernel.multiply_few(few, b, panel_bytes, cols, add, c + row * stride, stride);
  }
}

// The product by copies of the rows.
void multiply_copies(const TileKernel& kernel, const Lines& a, const std::byte* b,
                     int64_t panel_bytes, int64_t cols, bool add, float* c, int64_t stride,
                     const Finish& finish) {
  static thread_local ScratchMemory<float> memory;
  const int64_t step = equal_blocks(a.inner, TileKernel::kMostCopied);
  float* const copied = memory.take(static_cast<size_t>(kCopiedBlock * TileKernel::kCopiedStride));
  for (int64_t row = 0; row < a.count; row += kCopiedBlock) {
    for (int64_t k = 0; k < a.inner; k += step) {
      Lines block = a;
      block.data = a.data + row * a.step + k;
      const CopiedRows copies{copied, std::min(kCopiedBlock, a.count - row),
                              std::min(step, a.inner - k)};
      copies.copy(block, 0, copies.rows);
      multiply_copied(kernel, copies, b + kernel.panel_bytes(kernel.cols, k), panel_bytes, cols,
                      add || k > 0, c + row * stride, stride,
                      k + step < a.inner ? Finish{} : finish);
    }
  }
}

void apply(const Finish& finish, int64_t rows, int64_t cols, float* c, int64_t stride) {
  const float* __restrict bias = finish.bias;
  for (int64_t r = 0; r < rows; ++r) {
    float* __restrict row = c + r * stride;
    if (bias != nullptr && finish.relu) {
      for (int64_t j = 0; j < cols; ++j) row[j] = row[j] + bias[j] < 0.0f ? 0.0f : row[j] + bias[j];
    } else if (bias != nullptr) {
      for (int64_t j = 0; j < cols; ++j) row[j] += bias[j];
    } else if (finish.relu) {
      for (int64_t j = 0; j < cols; ++j) row[j] = row[j] < 0.0f ? 0.0f : row[j];
    }
  }
}

}  // namespace

int64_t equal_blocks(int64_t inner, int64_t most) {
  const int64_t blocks = (inner + most - 1) / most;
  return blocks <= 1 ? inner : ((inner + blocks - 1) / blocks + kUnit - 1) / kUnit * kUnit;
}

int64_t inner_block(int64_t inner) { return equal_blocks(inner, kMostInner); }

Lines scaled(const TileKernel& kernel, const Lines& a, float factor) {
  if (factor == 1.0f) return a;
  EMBLEM_REQUIRE(kernel.type == DType::kF32, "a product in ", name_of(kernel.type),
                 " takes no factor");
  static thread_local ScratchMemory<float> memory;
  float* const values = memory.take(static_cast<size_t>(a.count * a.inner));
  const bool along_lines = a.inner_step == 1;
  Lines to = a;
  to.data = values;
  to.step = along_lines ? a.inner : 1;
  to.inner_step = along_lines ? 1 : a.count;
  const int64_t runs = along_lines ? a.count : a.inner, length = along_lines ? a.inner : a.count;
  for (int64_t r = 0; r < runs; ++r) {
    const float* from = a.data + r * (along_lines ? a.step : a.inner_step);
    for (int64_t i = 0; i < length; ++i) values[r * length + i] = factor * from[i];
  }
  return to;
}

void multiply_panels(const TileKernel& kernel, const Lines& a, float factor, const std::byte* b,
                     int64_t panel_bytes, int64_t cols, bool add, float* c, int64_t stride,
                     const Finish& finish) {
  if (kernel.multiply_copied != nullptr && a.inner_step == 1 && a.inner > 0 && factor == 1.0f &&
      a.count > TileKernel::kMostFewRows)
    return multiply_copies(kernel, a, b, panel_bytes, cols, add, c, stride, finish);
  const int64_t inner_step = inner_block(a.inner);
  const Entered entered(kernel);
  Lines block = a;
  for (int64_t row = 0; row < a.count; row += kernel.row_block) {
    block.count = std::min(kernel.row_block, a.count - row);
    for (int64_t k = 0; k < a.inner; k += inner_step) {
      block.data = a.data + row * a.step + k * a.inner_step;
      block.inner = std::min(inner_step, a.inner - k);
      if (a.factors != nullptr) block.factors = a.factors + k;
      if (a.zeros != nullptr) block.zeros = a.zeros + k;
      multiply_block(kernel, scaled(kernel, block, factor), b + kernel.panel_bytes(kernel.cols, k),
                     panel_bytes, cols, add || k > 0, c + row * stride, stride);
    }
    apply(finish, block.count, cols, c + row * stride, stride);
  }
}

void multiply_panels(const TileKernel& kernel, const std::byte* a, int64_t rows, int64_t inner,
                     const std::byte* b, int64_t cols, bool add, float* c, int64_t stride) {
  const Entered entered(kernel);
  multiply_tiles(kernel, a, rows, inner, b, kernel.panel_bytes(kernel.cols, inner), cols, add, c,
                 stride);
}

void multiply_float_panels(const TileKernel& kernel, const Lines& a, const float* b, int64_t cols,
                           bool add, float* c, int64_t stride, const Finish& finish) {
  if (a.count == 0) return;
  kernel.multiply_few_floats(a, b, kernel.cols * a.inner, cols, add, c, stride);
  apply(finish, a.count, cols, c, stride);
}

}  // namespace emblem::cpu
