#include "shard/dense_sum.h"

#include <algorithm>
#include <numeric>

#include "comm/sum_all.h"
#include "core/memory/make_room.h"
#include "shard/cuda/sum_parts.h"

namespace emblem {
namespace {

Piece piece_of(const float* data, int64_t values) {
  return {const_cast<float*>(data), static_cast<size_t>(values) * sizeof(float)};
}

void copy(const Context& context, float* to, const float* from, int64_t values) {
  detail::copy(context, to, from, static_cast<size_t>(values) * sizeof(float));
}

// The first of `count` parts, one after the other, becomes the sum of all.
void sum_into_first(const Context& context, float* parts, int64_t count, int64_t values) {
  dispatch(
      context.device,
      [&] {
        std::vector<std::span<float>> spans;
        for (int64_t p = 0; p < count; ++p)
          spans.emplace_back(parts + p * values, static_cast<size_t>(values));
        sum_tree(spans);
      },
      [&] { cuda::sum_parts(context, parts, count, values, values, parts); });
}

}  // namespace

DenseSum::DenseSum(Communicator& ranks, std::vector<int64_t> shards_of_rank)
    : ranks_(ranks), shards_of_rank_(std::move(shards_of_rank)) {}

DenseSum::Slice DenseSum::slice_of(int64_t rank, int64_t size) const {
  const int64_t least = (size + ranks_.size() - 1) / ranks_.size();
  const int64_t each = (least + 3) / 4 * 4;  // four values are read at a time
  const int64_t begin = std::min(size, rank * each);
  return {begin, std::min(size, begin + each) - begin};
}

// Equal on all ranks.
bool DenseSum::can_sum_in_place(const Context& context) {
  const bool have_one_each = std::all_of(shards_of_rank_.begin(), shards_of_rank_.end(),
                                         [](int64_t shards) { return shards == 1; });
  if (!uses_peer_memory_) uses_peer_memory_ = have_one_each && ranks_.can_use_peer_memory(context);
  return *uses_peer_memory_ && shards_of_rank_.size() <= cuda::kMostPeerParts;
}

// Rank r adds up slice r of all ranks, and all get the sum.
void DenseSum::sum_in_place(const Context& context, View<float> total) {
  std::vector<Piece> own;
  for (int64_t rank = 0; rank < ranks_.size(); ++rank) {
    const Slice slice = slice_of(rank, total.size());
    own.push_back(piece_of(total.data + slice.begin, slice.size));
  }
  ranks_.use_peer_memory(context, own, [&](std::span<const Piece> peers) {
    std::vector<float*> parts;
    for (const Piece& piece : peers) parts.push_back(static_cast<float*>(piece.data));
    dispatch(
        context.device, [] {},
        [&] { cuda::sum_peer_parts(context, parts, slice_of(ranks_.rank(), total.size()).size); });
  });
}

// Rank r adds up slice r of all shards, then the slices are exchanged.
void DenseSum::operator()(const Context& context, View<const float> parts, View<float> total) {
  const int64_t size = total.size(), count = ranks_.size();
  const auto own = static_cast<size_t>(ranks_.rank());
  const int64_t own_shards = shards_of_rank_[own];
  EMBLEM_REQUIRE(parts.size() == own_shards * size, "a sum of ", parts.size(), " values of ",
                 own_shards, " shards, expected ", own_shards * size);
  const int64_t shards =
      std::accumulate(shards_of_rank_.begin(), shards_of_rank_.end(), int64_t{0});
  if (shards == 1 || can_sum_in_place(context)) {
    if (parts.data != total.data) copy(context, total.data, parts.data, size);
    return shards == 1 ? ranks_.check() : sum_in_place(context, total);
  }
  std::vector<Slice> slices;
  for (int64_t rank = 0; rank < count; ++rank) slices.push_back(slice_of(rank, size));

  // One shard's slices are sent from where they are.
  const float* from = parts.data;
  if (own_shards > 1) {
    make_room(context, send_, parts.size());
    float* next = send_.data();
    for (const Slice& slice : slices) {
      for (int64_t s = 0; s < own_shards; ++s, next += slice.size)
        copy(context, next, parts.data + s * size + slice.begin, slice.size);
    }
    from = send_.data();
  }
  const int64_t own_size = slices[own].size;
  make_room(context, received_, std::max<int64_t>(1, shards * own_size));
  std::vector<Piece> send, receive;
  int64_t first = 0;
  for (size_t rank = 0; rank < slices.size(); ++rank) {
    const int64_t held = shards_of_rank_[rank];
    send.push_back(
        piece_of(from + own_shards * slices[rank].begin, own_shards * slices[rank].size));
    receive.push_back(piece_of(received_.data() + first * own_size, held * own_size));
    first += held;
  }
  ranks_.exchange(context, send, receive);
  sum_into_first(context, received_.data(), shards, own_size);
  send.assign(slices.size(), piece_of(received_.data(), own_size));
  receive.clear();
  for (const Slice& slice : slices)
    receive.push_back(piece_of(total.data + slice.begin, slice.size));
  ranks_.exchange(context, send, receive);
}

}  // namespace emblem
