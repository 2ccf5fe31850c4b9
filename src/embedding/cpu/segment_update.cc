#include <algorithm>
#include <vector>

#include "core/memory/prefetch.h"
#include "core/threads/thread_pool.h"
#include "embedding/cpu/segment_update.h"

namespace emblem::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kUpdateLinesAhead = 96;  // prefetch distance in cache lines
constexpr int64_t kOnStack = 1024;

// sum[d] over the occurrences [begin, end).
template <bool kWeighted>
void sum_gradients(const SegmentUpdate& op, uint32_t begin, uint32_t end, float* __restrict sum) {
  const int64_t dim = op.rows.dim;
  const uint32_t* sources = op.segments.sources;
  const float* coefficients = op.segments.coefficients;
  if (begin == end) {
    std::fill_n(sum, dim, 0.0f);
    return;
  }
  const auto gradient = [&](uint32_t i) { return op.gradients + sources[i]; };
  const auto coefficient = [&](uint32_t i) { return kWeighted ? coefficients[i] : 1.0f; };
  const auto term = [](const float* from, float c, int64_t d) {
    return kWeighted ? c * from[d] : from[d];
  };
  const float* first = gradient(begin);
  const float c = coefficient(begin);
  for (int64_t d = 0; d < dim; ++d) sum[d] = term(first, c, d);
  uint32_t i = begin + 1;
  for (; i + 4 <= end;
       i += 4) {  // four at a time, in order: the sum is read and written less often
    const float *g0 = gradient(i), *g1 = gradient(i + 1), *g2 = gradient(i + 2),
                *g3 = gradient(i + 3);
    const float c0 = coefficient(i), c1 = coefficient(i + 1), c2 = coefficient(i + 2),
                c3 = coefficient(i + 3);
    for (int64_t d = 0; d < dim; ++d) {
      sum[d] = (((sum[d] + term(g0, c0, d)) + term(g1, c1, d)) + term(g2, c2, d)) + term(g3, c3, d);
    }
  }
  for (; i < end; ++i) {
    const float* next = gradient(i);
    const float c_next = coefficient(i);
    for (int64_t d = 0; d < dim; ++d) sum[d] += term(next, c_next, d);
  }
}

// The summed gradient of a segment: the gradient itself if there is only one, else `buffer`.
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

// The gradient of a weight. Passed by value, like the rules: the compiler vectorizes only if no
// store to a row can change it.
template <bool kL2>
struct Blend {
  float scale;
  float l2;
  float operator()(float sum, float weight) const {
    return kL2 ? scale * sum + l2 * weight : scale * sum;
  }
};

// How new weights are stored. Passed by value, like Blend.
struct ToNearest {
  template <class W>
  void operator()(W* at, float weight, int64_t) const {
    store_weight(at, weight);
  }
};
struct Stochastic {
  uint32_t draw;
  int64_t first_column;
  template <class W>
  void operator()(W* at, float weight, int64_t position) const {
    store_weight(at, round_stochastically<W>(weight, draw, first_column + position));
  }
};

template <class W, class R, bool kL2, class Store>
requires(!R::kRowWise) void update_row(Blend<kL2> blend, R rule, Store store, int64_t dim,
                                       const float* __restrict sum, W* __restrict weights,
                                       float* __restrict state) {
// The planes of state do not overlap.
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (int64_t d = 0; d < dim; ++d) {
    float weight = load_weight(weights + d);
    rule(blend(sum[d], weight), weight, state + d, dim);
    store(weights + d, weight, d);
  }
}

template <class W, class R, bool kL2, class Store>
requires(R::kRowWise) void update_row(Blend<kL2> blend, R rule, Store store, int64_t dim,
                                      const float* __restrict sum, W* __restrict weights,
                                      float* __restrict state) {
  float squares[kLanes] = {};  // several sums, so that they need not wait for each other
  for (int64_t d = 0; d < dim; ++d) {
    const float gradient = blend(sum[d], load_weight(weights + d));
    squares[d % kLanes] += gradient * gradient;
  }
  float square = 0.0f;
  for (const float lane : squares) square += lane;
  const float factor = rule.factor(square / static_cast<float>(dim), state + R::kStates * dim);
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (int64_t d = 0; d < dim; ++d) {
    float weight = load_weight(weights + d);
    rule(factor, blend(sum[d], weight), weight, state + d, dim);
    store(weights + d, weight, d);
  }
}

// How many arrays of `bytes` bytes to request ahead.
int64_t ahead_of(int64_t bytes, int64_t most) {
  const int64_t lines = (bytes + kCacheLine - 1) / kCacheLine;
  return std::clamp<int64_t>(kUpdateLinesAhead / std::max<int64_t>(lines, 1), 4, most);
}

// Requests the gradients of the next occurrences.
class GradientPrefetch {
 public:
  GradientPrefetch(const SegmentUpdate& op, int64_t begin, int64_t end)
      : op_(op),
        bytes_(op.rows.dim * int64_t{sizeof(float)}),
        ahead_(ahead_of(bytes_, 24)),
        last_(op.segments.offsets[end]),
        fetched_(op.segments.offsets[begin]) {}

  void before(int64_t segment) {
    const auto until =
        std::min<int64_t>(last_, int64_t{op_.segments.offsets[segment + 1]} + ahead_);
    for (; fetched_ < until; ++fetched_)
      prefetch(op_.gradients + op_.segments.sources[fetched_], bytes_);
  }

 private:
  const SegmentUpdate& op_;
  int64_t bytes_, ahead_;
  uint32_t last_, fetched_;
};

// Calls body(segment, sum, row) for segments [begin, end), and prefetches rows and gradients.
template <class Body>
void for_each_segment(const SegmentUpdate& op, int64_t begin, int64_t end, int64_t row_bytes,
                      Body&& body) {
  const Segments& segments = op.segments;
  float on_stack[kOnStack];
  std::vector<float> on_heap(op.rows.dim > kOnStack ? op.rows.dim : 0);
  float* buffer = on_heap.empty() ? on_stack : on_heap.data();
  GradientPrefetch gradients(op, begin, end);
  const int64_t ahead = ahead_of(row_bytes, 12);
  for (int64_t s = begin; s < std::min(end, begin + ahead); ++s) {
    prefetch_to_write(op.rows.row(segments.rows[s]), row_bytes);
  }
  for (int64_t s = begin; s < end; ++s) {
    if (s + ahead < end) prefetch_to_write(op.rows.row(segments.rows[s + ahead]), row_bytes);
    gradients.before(s);
    body(s, summed(op, s, buffer), op.rows.row(segments.rows[s]));
  }
}

template <class W, bool kL2, class R, class Store>
void update(const SegmentUpdate& op, const R& rule, Store store, int64_t begin, int64_t end) {
  const int64_t row_bytes = std::min<int64_t>(op.rows.stride, 24 * kCacheLine);
  const Blend<kL2> blend{op.scale, op.l2};
  for_each_segment(op, begin, end, row_bytes, [&](int64_t, const float* sum, char* row) {
    update_row(blend, rule, store, op.rows.dim, sum, reinterpret_cast<W*>(row), op.rows.state(row));
  });
}

template <class W, class R>
void update(const SegmentUpdate& op, const R& rule, int64_t begin, int64_t end) {
  const auto with = [&](auto store) {
    if (op.l2 != 0.0f)
      update<W, true>(op, rule, store, begin, end);
    else
      update<W, false>(op, rule, store, begin, end);
  };
  if constexpr (!std::is_same_v<W, float>) {
    if (op.rounding_draw != kRoundToNearest)
      return with(Stochastic{op.rounding_draw, op.first_column});
  }
  with(ToNearest{});
}

}  // namespace

void segment_update(const SegmentUpdate& op, int64_t begin, int64_t end) {
  with_weight_type(op.rows.dtype, [&](auto type) {
    using W = decltype(type);
    visit_table_rule(op.rule, [&](const auto& rule) { update<W>(op, rule, begin, end); });
  });
}

void sum_segments(const SegmentUpdate& op, int64_t begin, int64_t end, float* const* to) {
  const int64_t dim = op.rows.dim;
  GradientPrefetch gradients(op, begin, end);
  for (int64_t s = begin; s < end; ++s) {
    gradients.before(s);
    float* out = to[op.segments.rows[s]];
    if (const float* sum = summed(op, s, out); sum != out) std::copy_n(sum, dim, out);
  }
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

namespace emblem {

void segment_update(const Context& context, const SegmentUpdate& op) {
  EMBLEM_REQUIRE(op.rows.dim > 0, "segment_update: rows have dimension ", op.rows.dim);
  parallel_for(context, op.segments.count, 512,
               [&](int64_t begin, int64_t end) { cpu::segment_update(op, begin, end); });
}

}  // namespace emblem
