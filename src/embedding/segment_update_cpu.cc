#include <algorithm>
#include <vector>

#include "core/thread_pool.h"
#include "embedding/segment_update.h"

namespace emblem::cpu {
namespace {

constexpr int64_t kBlock = 16;       // weights handled in registers: a cache line of fp32
constexpr int64_t kLine = 64;
constexpr int64_t kGradientsAhead = 12;
constexpr int64_t kRowsAhead = 6;
constexpr int64_t kOnStack = 1024;

void prefetch_bytes(const void* at, int64_t bytes) {
  const char* begin = static_cast<const char*>(at);
  for (int64_t offset = 0; offset < bytes; offset += kLine) __builtin_prefetch(begin + offset);
}

void prefetch_row(const char* at, int64_t bytes) {
  for (int64_t offset = 0; offset < bytes; offset += kLine) __builtin_prefetch(at + offset, 1);
}

// sum[d] over the occurrences [begin, end), block by block so that partial sums stay in registers.
template <bool kWeighted>
void sum_gradients(const SegmentUpdate& op, uint32_t begin, uint32_t end, float* __restrict sum) {
  const Segments& segments = op.segments;
  const int64_t dim = op.rows.dim;
  const auto coefficient = [&](uint32_t i) { return kWeighted ? segments.coefficients[i] : 1.0f; };
  int64_t d = 0;
  for (; d + kBlock <= dim; d += kBlock) {
    float block[kBlock] = {};
    for (uint32_t i = begin; i < end; ++i) {
      const float* from = op.gradients + segments.sources[i] + d;
      const float c = coefficient(i);
      for (int64_t j = 0; j < kBlock; ++j) block[j] += kWeighted ? c * from[j] : from[j];
    }
    for (int64_t j = 0; j < kBlock; ++j) sum[d + j] = block[j];
  }
  for (; d < dim; ++d) {
    float one = 0.0f;
    for (uint32_t i = begin; i < end; ++i) {
      one += coefficient(i) * op.gradients[segments.sources[i] + d];
    }
    sum[d] = one;
  }
}

// The summed gradient of a segment: where it lies if it is alone, else in `buffer`.
const float* summed(const SegmentUpdate& op, int64_t segment, float* buffer) {
  const uint32_t begin = op.segments.offsets[segment], end = op.segments.offsets[segment + 1];
  if (op.segments.coefficients != nullptr) {
    sum_gradients<true>(op, begin, end, buffer);
    return buffer;
  }
  if (end - begin == 1) return op.gradients + op.segments.sources[begin];
  sum_gradients<false>(op, begin, end, buffer);
  return buffer;
}

// What the gradient of a weight is made of. Copied into locals everywhere: the compiler must see that no
// store to a row changes it, or it does not vectorize.
struct Blend {
  float scale;
  float l2;
  float operator()(float sum, float weight) const {
    return l2 == 0.0f ? scale * sum : scale * sum + l2 * weight;
  }
};

// Applies the rule to kCount weights: a constant, so that the loop becomes a few vector instructions.
template <int64_t kCount, class W, class R>
void update_weights(Blend blend, R rule, int64_t dim, const float* __restrict sum, W* __restrict weights,
                    float* __restrict state) {
  for (int64_t j = 0; j < kCount; ++j) {
    float weight = load_weight(weights + j);
    rule(blend(sum[j], weight), weight, state + j, dim);
    store_weight(weights + j, weight);
  }
}

template <class W, class R>
  requires(!R::kRowWise)
void update_row(Blend blend, R rule, int64_t dim, const float* sum, W* weights, float* state) {
  int64_t d = 0;
  for (; d + kBlock <= dim; d += kBlock) {
    update_weights<kBlock>(blend, rule, dim, sum + d, weights + d, state + d);
  }
  for (; d < dim; ++d) update_weights<1>(blend, rule, dim, sum + d, weights + d, state + d);
}

template <class W, class R>
  requires(R::kRowWise)
void update_row(Blend blend, R rule, int64_t dim, const float* __restrict sum, W* __restrict weights,
                float* __restrict state) {
  float squares[kBlock] = {};  // several sums, so that they need not wait for each other
  int64_t d = 0;
  const auto add = [&](int64_t at, int64_t lane) {
    const float gradient = blend(sum[at], load_weight(weights + at));
    squares[lane] += gradient * gradient;
  };
  for (; d + kBlock <= dim; d += kBlock) {
    for (int64_t j = 0; j < kBlock; ++j) add(d + j, j);
  }
  for (int64_t j = 0; d < dim; ++d, ++j) add(d, j);
  float square = 0.0f;
  for (int64_t j = 0; j < kBlock; ++j) square += squares[j];
  const float factor = rule.factor(square / static_cast<float>(dim), state);
  for (d = 0; d < dim; ++d) {
    const float weight = load_weight(weights + d);
    store_weight(weights + d, weight - factor * blend(sum[d], weight));
  }
}

// Calls body(segment, sum, row) for segments [begin, end), with rows and gradients fetched ahead.
template <class Body>
void for_each_segment(const SegmentUpdate& op, int64_t begin, int64_t end, int64_t row_bytes,
                      Body&& body) {
  const Segments& segments = op.segments;
  const int64_t dim_bytes = op.rows.dim * 4;
  float on_stack[kOnStack];
  std::vector<float> on_heap(op.rows.dim > kOnStack ? op.rows.dim : 0);
  float* buffer = on_heap.empty() ? on_stack : on_heap.data();
  const uint32_t last = segments.offsets[end];
  uint32_t fetched = segments.offsets[begin];
  for (int64_t s = begin; s < std::min(end, begin + kRowsAhead); ++s) {
    prefetch_row(op.rows.row(segments.rows[s]), row_bytes);
  }
  for (int64_t s = begin; s < end; ++s) {
    if (s + kRowsAhead < end) prefetch_row(op.rows.row(segments.rows[s + kRowsAhead]), row_bytes);
    const auto until = std::min<int64_t>(last, int64_t{segments.offsets[s + 1]} + kGradientsAhead);
    for (; fetched < until; ++fetched) {
      prefetch_bytes(op.gradients + segments.sources[fetched], dim_bytes);
    }
    body(s, summed(op, s, buffer), op.rows.row(segments.rows[s]));
  }
}

template <class W, class R>
void update(const SegmentUpdate& op, const R& rule, int64_t begin, int64_t end) {
  const int64_t row_bytes = std::min<int64_t>(op.rows.stride, 24 * kLine);
  const Blend blend{op.scale, op.l2};
  for_each_segment(op, begin, end, row_bytes, [&](int64_t, const float* sum, char* row) {
    update_row(blend, rule, op.rows.dim, sum, reinterpret_cast<W*>(row), op.rows.state(row));
  });
}

}  // namespace

void segment_update(const SegmentUpdate& op, int64_t begin, int64_t end) {
  with_weight_type(op.rows.dtype, [&](auto type) {
    std::visit([&](const auto& rule) { update<decltype(type)>(op, rule, begin, end); }, op.rule);
  });
}

void segment_update(const Context& context, const SegmentUpdate& op) {
  parallel_for(context, op.segments.count, 512,
               [&](int64_t begin, int64_t end) { segment_update(op, begin, end); });
}

double squared_norm(const SegmentUpdate& op, int64_t begin, int64_t end) {
  double total = 0.0;
  for_each_segment(op, begin, end, 0, [&](int64_t, const float* sum, char*) {
    double squares[4] = {};
    for (int64_t d = 0; d < op.rows.dim; ++d) {
      squares[d % 4] += static_cast<double>(sum[d]) * static_cast<double>(sum[d]);
    }
    total += (squares[0] + squares[1]) + (squares[2] + squares[3]);
  });
  return total;
}

}  // namespace emblem::cpu
