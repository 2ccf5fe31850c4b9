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

// g[j] for a block of weights; l2 stays out of the way when it is 0.
template <class W>
inline float full_gradient(const SegmentUpdate& op, float sum, const W* weight) {
  return op.l2 == 0.0f ? op.scale * sum : op.scale * sum + op.l2 * load_weight(weight);
}

template <class W, class R>
  requires(!R::kRowWise)
void update_row(const SegmentUpdate& op, const R& rule, const float* __restrict sum,
                W* __restrict weights, float* __restrict state) {
  const int64_t dim = op.rows.dim;
  const auto one = [&](int64_t d) {
    float weight = load_weight(weights + d);
    rule(full_gradient(op, sum[d], weights + d), weight, state + d, dim);
    store_weight(weights + d, weight);
  };
  int64_t d = 0;
  for (; d + kBlock <= dim; d += kBlock) {
    for (int64_t j = 0; j < kBlock; ++j) one(d + j);
  }
  for (; d < dim; ++d) one(d);
}

template <class W, class R>
  requires(R::kRowWise)
void update_row(const SegmentUpdate& op, const R& rule, const float* __restrict sum,
                W* __restrict weights, float* __restrict state) {
  const int64_t dim = op.rows.dim;
  float squares[kBlock] = {};  // several sums, so that they need not wait for each other
  for (int64_t d = 0; d < dim; ++d) {
    const float gradient = full_gradient(op, sum[d], weights + d);
    squares[d % kBlock] += gradient * gradient;
  }
  float square = 0.0f;
  for (int64_t j = 0; j < kBlock; ++j) square += squares[j];
  const float factor = rule.factor(square / static_cast<float>(dim), state);
  for (int64_t d = 0; d < dim; ++d) {
    const float weight = load_weight(weights + d);
    store_weight(weights + d, weight - factor * full_gradient(op, sum[d], weights + d));
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
  for_each_segment(op, begin, end, row_bytes, [&](int64_t, const float* sum, char* row) {
    update_row(op, rule, sum, reinterpret_cast<W*>(row), op.rows.state(row));
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
