// comm/sum_all.h - sums over ranks in a fixed order: equal on all ranks, and the same with every
// transport.
#pragma once

#include <span>

#include "comm/communicator.h"

namespace emblem {

// Replaces `values` by their sum over all ranks (all-reduce). Sizes are equal on all ranks. Numbers
// are added along a binary tree over the ranks: the left part of n leaves is the largest power of
// two below n. So four ranks that add up 1 value each give the bits of two ranks that add up 2 each
// before, in the same order. CPU memory. Each rank sends and receives 2 (N - 1) / N times the
// bytes.
void sum_all(const Context& context, Communicator& ranks, std::span<float> values);
void sum_all(const Context& context, Communicator& ranks, std::span<double> values);
void sum_all(const Context& context, Communicator& ranks, std::span<int64_t> values);

// The sum of `parts` (all of equal size, at least one) in that order, in place: it ends up in
// parts[0].
void sum_tree(std::span<const std::span<float>> parts);
void sum_tree(std::span<const std::span<double>> parts);
void sum_tree(std::span<const std::span<int64_t>> parts);

}  // namespace emblem
