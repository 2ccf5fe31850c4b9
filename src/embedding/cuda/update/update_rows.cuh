// embedding/cuda/update/update_rows.cuh - what kernels do with the summed gradient of a row.
#pragma once

#include <type_traits>
#include <variant>

#include "embedding/cuda/lookup/row_ring.cuh"
#include "embedding/cuda/update/update_rows.h"
#include "embedding/rounding.h"

namespace emblem::cuda {

inline constexpr int kUpdateThreads = kRingThreads;

template <class S>
__device__ uint32_t group_mask() {
  if constexpr (S::kLanes == 32) {
    return ~0u;
  } else {
    return ((1u << S::kLanes) - 1) << (threadIdx.x % 32 / S::kLanes * S::kLanes);
  }
}

template <class S>
__device__ float sum_of_group(float value) {
#pragma unroll
  for (int step = S::kLanes / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(group_mask<S>(), value, step);
  return value;
}

// The rule with the values of the step.
template <class R>
__device__ R with_values(R rule, const UpdateScalars& values) {
  rule.learning_rate = values.learning_rate;
  if constexpr (kHasCorrections<R>) {
    rule.correction1 = values.correction1;
    rule.correction2 = values.correction2;
  }
  if constexpr (std::is_same_v<R, Momentum>) rule.dampening = values.dampening;
  return rule;
}

// Updates a row by its summed gradient.
template <class S, class R_>
struct Apply {
  using R = R_;
  R given_rule;
  float given_scale, l2;
  uint32_t given_draw;          // kRoundToNearest, or of the step
  const UpdateScalars* values;  // null: the given ones

  __device__ void operator()(const RowsOf& table, char* row, int member, Share<S>& sum,
                             RowShare<S, R>& share) const {
    const float scale = values != nullptr ? values->scale : given_scale;
    const R rule = values != nullptr ? with_values(given_rule, *values) : given_rule;
    float square = 0.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) {
        float& g = sum.chunk[c].at[v];
        g = l2 == 0.0f ? scale * g : mix(scale, g, l2, share.weights.chunk[c].at[v]);
        square += g * g;
      }
    });
    float factor = 0.0f;
    if constexpr (R::kRowWise)
      factor =
          rule.factor(sum_of_group<S>(square) / static_cast<float>(table.dim), &share.row_state);
    for_each_chunk<S>(member, table.dim, [&](int c, int d) {
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) {
        float& w = share.weights.chunk[c].at[v];
        float states[R::kStates > 0 ? R::kStates : 1];
#pragma unroll
        for (int s = 0; s < R::kStates; ++s) states[s] = share.states[s].chunk[c].at[v];
        if constexpr (R::kRowWise)
          rule(factor, sum.chunk[c].at[v], w, states, 1);
        else
          rule(sum.chunk[c].at[v], w, states, 1);
#pragma unroll
        for (int s = 0; s < R::kStates; ++s) share.states[s].chunk[c].at[v] = states[s];
        w = rounded(w, table.dtype, table.first_column + d + v);
      }
    });
    store_row<S, R>(table, row, member, share);
  }

  // Before the store converts it: a weight that 16 bits can hold stays what it is.
  __device__ float rounded(float weight, DType type, int position) const {
    if (type == DType::kF32 || given_draw == kRoundToNearest) return weight;
    const uint32_t draw = values != nullptr ? values->rounding_draw : given_draw;
    return type == DType::kF16 ? round_stochastically<F16>(weight, draw, position)
                               : round_stochastically<Bf16>(weight, draw, position);
  }
};

// Calls f(S{}, Apply<S, R>) for the shape and the rule of `op`.
template <class F>
void with_apply(const UpdateRows& op, const F& f) {
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    visit_table_rule(op.rule, [&](const auto& rule) {
      using R = std::decay_t<decltype(rule)>;
      f(as, Apply<S, R>{rule, op.scale, op.l2, op.rounding_draw, op.values});
    });
  });
}

template <class S>
struct AddSquare {
  using R = void;
  double* total;
  float* squares;  // null: added to total in any order

  // `first`: position of the row's first occurrence, with squares.
  __device__ void operator()(const RowsOf& table, char*, int member, Share<S>& sum,
                             uint32_t first) const {
    float square = 0.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      for (int v = 0; v < S::kVector; ++v) square += sum.chunk[c].at[v] * sum.chunk[c].at[v];
    });
    square = sum_of_group<S>(square);
    if (member != 0) return;
    if (squares != nullptr)
      squares[first] = square;
    else
      atomicAdd(total, static_cast<double>(square));
  }
};

// Replaces a row by the sum.
template <class S>
struct StoreSum {
  using R = void;

  __device__ void operator()(const RowsOf& table, char* row, int member, Share<S>& sum,
                             uint32_t) const {
    for_each_chunk<S>(member, table.dim, [&](int c, int d) {
      store_weights<S::kVector>(table.dtype, row, d, sum.chunk[c]);
    });
  }
};

struct TileArguments {
  Gradients gradients;
  float* partials;
  uint32_t* arrivals;
  int cls;
  uint32_t tile;                        // occurrences that a group takes
  const uint32_t* positions = nullptr;  // positions of occurrences, with AddSquare::squares
};

// With in_order: see update_rows and store_sums.
void update_in_order(const Context& context, const BatchRef& batch, const UpdateRows& op);
void store_sums_in_order(const Context& context, const BatchRef& batch, const UpdateRows& op);

}  // namespace emblem::cuda
