// shard/cuda/sum_parts.h - a sum over parts on a GPU, in the order of comm/sum_all.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device/context.h"

namespace emblem::cuda {

// to[i] = the sum of parts[p * stride + i] along a binary tree over `count` parts. `to` may be the
// first part. Asynchronous.
void sum_parts(const Context& context, const float* parts, int64_t count, int64_t stride,
               int64_t values, float* to);

// The same over parts anywhere in the GPU's memory, at most kMostPeerParts, all of which become the
// sum.
inline constexpr size_t kMostPeerParts = 32;
void sum_peer_parts(const Context& context, std::span<float* const> parts, int64_t values);

}  // namespace emblem::cuda
