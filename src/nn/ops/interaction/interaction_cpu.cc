#include <cstring>

#include "core/math/divide.h"
#include "core/threads/thread_pool.h"
#include "kernels/cpu/panels.h"
#include "kernels/simd.h"
#include "nn/ops/interaction/interaction.h"

namespace emblem {
namespace {

using simd::Floats;
using simd::kWidth;

constexpr int kBlock =
    4;  // products are computed for 4 x 4 vectors at a time: 16 sums in registers

int64_t first_pair_of(int64_t i) { return i * (i - 1) / 2; }

// products[a][b] = left[a] . right[b]
void block_products(const float* const* left, const float* const* right, int64_t dim,
                    float (&products)[kBlock][kBlock]) {
  Floats sums[kBlock][kBlock] = {};
  int64_t d = 0;
  for (; d + kWidth <= dim; d += kWidth) {
    Floats r[kBlock];
    for (int b = 0; b < kBlock; ++b) r[b] = simd::load(right[b] + d);
    for (int a = 0; a < kBlock; ++a) {
      const Floats l = simd::load(left[a] + d);
      for (int b = 0; b < kBlock; ++b) sums[a][b] += l * r[b];
    }
  }
  for (int a = 0; a < kBlock; ++a) simd::horizontal_sums(sums[a], products[a]);
  for (; d < dim; ++d) {
    for (int a = 0; a < kBlock; ++a) {
      for (int b = 0; b < kBlock; ++b) products[a][b] += left[a][d] * right[b][d];
    }
  }
}

// out[first_pair_of(i) + j] = vectors[i] . vectors[j] for j < i < n. `vectors` is padded to a
// multiple of kBlock with any valid pointers.
void products_by_blocks(const float* const* vectors, int64_t n, int64_t dim, float* out) {
  for (int64_t i = 0; i < n; i += kBlock) {
    for (int64_t j = 0; j <= i; j += kBlock) {
      float products[kBlock][kBlock];
      block_products(vectors + i, vectors + j, dim, products);
      for (int64_t a = 0; a < kBlock && i + a < n; ++a) {
        float* row = out + first_pair_of(i + a) + j;
        const int64_t count = std::min<int64_t>(kBlock, i + a - j);
        for (int64_t b = 0; b < count; ++b) row[b] = products[a][b];
      }
    }
  }
}

// ---- the same with the vectors side by side, which needs no sums over lanes ----

constexpr int64_t kMostSideBySide = 64, kMostTurnedDim = 64;

// Whether that is faster: where sums over lanes of long vectors would take longer than products.
bool side_by_side_pays(int64_t n, int64_t dim) {
  return kWidth >= 8 && n <= kMostSideBySide && dim <= kMostTurnedDim && dim % 4 == 0;
}

// turned[d][v] = vectors[v][d], rows of kMostSideBySide, with zeros up to a multiple of registers.
void turn(const float* const* vectors, int64_t n, int64_t dim, float* turned) {
  const int64_t end = (n + 2 * kWidth - 1) / (2 * kWidth) * (2 * kWidth);
  for (int64_t d = 0; d < dim; ++d)
    std::fill(turned + d * kMostSideBySide + n, turned + d * kMostSideBySide + end, 0.0f);
  for (int64_t v = 0; v < n; v += 4) {
    for (int64_t d = 0; d < dim; d += 4) {
      const cpu::FourByFour block =
          cpu::transposed(cpu::load_four(vectors[v] + d), cpu::load_four(vectors[v + 1] + d),
                          cpu::load_four(vectors[v + 2] + d), cpu::load_four(vectors[v + 3] + d));
      for (int64_t i = 0; i < 4; ++i)
        std::memcpy(turned + (d + i) * kMostSideBySide + v, &block.rows[i], sizeof(cpu::Four));
    }
  }
}

// Products of vectors i to i + kBlock - 1 with those from j on, kRegisters registers of them.
template <int kRegisters>
void products_side_by_side(const float* const* left, int64_t dim, const float* turned,
                           float (&products)[kBlock][kMostSideBySide], int64_t j) {
  Floats sums[kBlock][kRegisters] = {};
  for (int64_t d = 0; d < dim; ++d) {
    Floats line[kRegisters];
    for (int v = 0; v < kRegisters; ++v)
      line[v] = simd::load(turned + d * kMostSideBySide + j + v * kWidth);
    for (int a = 0; a < kBlock; ++a) {
      const Floats factor = simd::broadcast(left[a][d]);
      for (int v = 0; v < kRegisters; ++v) sums[a][v] += factor * line[v];
    }
  }
  for (int a = 0; a < kBlock; ++a) {
    for (int v = 0; v < kRegisters; ++v) simd::store(products[a] + j + v * kWidth, sums[a][v]);
  }
}

void products_by_rows(const float* const* vectors, int64_t n, int64_t dim, float* out) {
  alignas(64) float turned[kMostTurnedDim * kMostSideBySide];
  turn(vectors, n, dim, turned);
  for (int64_t i = 0; i < n; i += kBlock) {
    float products[kBlock][kMostSideBySide];
    const int64_t most = std::min(i + kBlock, n) - 1;  // columns of the last row
    for (int64_t j = 0; j < most; j += 2 * kWidth) {
      const auto run = most - j > kWidth ? products_side_by_side<2> : products_side_by_side<1>;
      run(vectors + i, dim, turned, products, j);
    }
    for (int64_t a = 0; a < kBlock && i + a < n; ++a)
      std::copy_n(products[a], i + a, out + first_pair_of(i + a));
  }
}

void pair_products(const float* const* vectors, int64_t n, int64_t dim, float* out) {
  return side_by_side_pays(n, dim) ? products_by_rows(vectors, n, dim, out)
                                   : products_by_blocks(vectors, n, dim, out);
}

// pairs as a full symmetric matrix with zeros on the diagonal; rows are `stride` floats apart.
void unfold_pairs(const float* pairs, int64_t n, int64_t stride, float* full) {
  for (int64_t i = 0; i < n; pairs += i, ++i) {
    std::copy_n(pairs, i, full + i * stride);
    full[i * stride + i] = 0.0f;
    for (int64_t j = 0; j < i; ++j) full[j * stride + i] = pairs[j];
  }
}

// sums[a] = sum over j of full[j][i + a] vectors[j], kVectors registers of each from position d on.
template <int kVectors>
void weighted_sums(const float* const* vectors, int64_t n, int64_t d, const float* full,
                   int64_t stride, Floats (&sums)[kBlock][kVectors]) {
  for (auto& row : sums) {
    for (auto& sum : row) sum = Floats{};
  }
  for (int64_t j = 0; j < n; ++j, full += stride) {
    Floats value[kVectors];
    for (int v = 0; v < kVectors; ++v) value[v] = simd::load(vectors[j] + d + v * kWidth);
    for (int a = 0; a < kBlock; ++a) {
      for (int v = 0; v < kVectors; ++v) sums[a][v] += full[a] * value[v];
    }
  }
}

// Where the gradient of a vector goes; `also` is added to it where not null.
struct Target {
  float* to = nullptr;
  Write write = Write::kNone;
  const float* also = nullptr;
};

template <int kVectors>
void put(const Target& target, int64_t d, const Floats (&sums)[kVectors]) {
  if (target.write == Write::kNone) return;
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = d + v * kWidth;
    Floats sum = sums[v];
    if (target.also != nullptr) sum += simd::load(target.also + at);
    if (target.write == Write::kAdd) sum += simd::load(target.to + at);
    simd::store(target.to + at, sum);
  }
}

void put_one(const Target& target, int64_t d, float sum) {
  if (target.write == Write::kNone) return;
  if (target.also != nullptr) sum += target.also[d];
  target.to[d] = target.write == Write::kAdd ? target.to[d] + sum : sum;
}

// The gradient of each vector i: the sum over j of full[i][j] vectors[j].
void pair_gradients(const float* const* vectors, int64_t n, int64_t dim, const float* full,
                    int64_t stride, const Target* targets) {
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min<int64_t>(kBlock, n - i);
    int64_t d = 0;
    for (; d + 4 * kWidth <= dim; d += 4 * kWidth) {
      Floats sums[kBlock][4];
      weighted_sums<4>(vectors, n, d, full + i, stride, sums);
      for (int64_t a = 0; a < count; ++a) put<4>(targets[i + a], d, sums[a]);
    }
    for (; d + 2 * kWidth <= dim; d += 2 * kWidth) {
      Floats sums[kBlock][2];
      weighted_sums<2>(vectors, n, d, full + i, stride, sums);
      for (int64_t a = 0; a < count; ++a) put<2>(targets[i + a], d, sums[a]);
    }
    for (; d + kWidth <= dim; d += kWidth) {
      Floats sums[kBlock][1];
      weighted_sums<1>(vectors, n, d, full + i, stride, sums);
      for (int64_t a = 0; a < count; ++a) put<1>(targets[i + a], d, sums[a]);
    }
    for (; d < dim; ++d) {
      for (int64_t a = 0; a < count; ++a) {
        float sum = 0.0f;
        for (int64_t j = 0; j < n; ++j) sum += full[j * stride + i + a] * vectors[j][d];
        put_one(targets[i + a], d, sum);
      }
    }
  }
}

}  // namespace

void Interaction::point_at_row(int64_t r, std::vector<const float*>& vectors) const {
  if (has_first_) vectors[0] = in(0).value() + r * dim_;
  for (int64_t v = has_first_; v < vectors_; ++v) {
    vectors[v] = x().value() + r * x().cols + (v - has_first_) * dim_;
  }
  for (size_t v = vectors_; v < vectors.size(); ++v) vectors[v] = vectors[vectors_ - 1];
}

void Interaction::forward_cpu(const OpContext& pass) {
  parallel_for(pass.context, pass.rows, rows_each(), [&](int64_t begin, int64_t end) {
    std::vector<const float*> vectors(round_up(vectors_, kBlock));
    for (int64_t r = begin; r < end; ++r) {
      point_at_row(r, vectors);
      float* y = out().value() + r * out().cols;
      if (has_first_) y = std::copy_n(vectors[0], dim_, y);
      pair_products(vectors.data(), vectors_, dim_, y);
    }
  });
}

void Interaction::backward_cpu(const OpContext& pass) {
  const int64_t stride = round_up(vectors_, kBlock);
  parallel_for(pass.context, pass.rows, rows_each(), [&](int64_t begin, int64_t end) {
    std::vector<const float*> vectors(stride);
    std::vector<Target> targets(vectors_);
    std::vector<float> full(stride * stride);
    for (int64_t r = begin; r < end; ++r) {
      const float* dy = out().gradient() + r * out().cols;
      point_at_row(r, vectors);
      if (has_first_) targets[0] = {in(0).gradient() + r * dim_, write(0), dy};
      for (int64_t v = has_first_; v < vectors_; ++v) {
        targets[v] = {x().gradient() + r * x().cols + (v - has_first_) * dim_, write(has_first_),
                      nullptr};
      }
      unfold_pairs(dy + has_first_ * dim_, vectors_, stride, full.data());
      pair_gradients(vectors.data(), vectors_, dim_, full.data(), stride, targets.data());
    }
  });
}

}  // namespace emblem
