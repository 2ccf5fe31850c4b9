#include "shard/dense_sum.h"

#include <algorithm>
#include <numeric>

#include "comm/sum_all.h"
#include "core/make_room.h"
#include "shard/cuda/sum_parts.h"

namespace emblem {
namespace {

Piece piece_of(const float* data, int64_t values) {
  return {const_cast<float*>(data), static_cast<size_t>(values) * sizeof(float)};
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

// Rank r adds up slice r of all shards, then the slices are exchanged.
void DenseSum::operator()(const Context& context, View<const float> parts, View<float> total) {
  const int64_t size = total.size(), count = ranks_.size();
  const auto own = static_cast<int64_t>(ranks_.rank());
  const int64_t own_shards = shards_of_rank_[static_cast<size_t>(own)];
  EMBLEM_REQUIRE(parts.size() == own_shards * size, "a sum of ", parts.size(), " values of ",
                 own_shards, " shards, expected ", own_shards * size);
  const int64_t slice = (size + count - 1) / count;
  const auto begin = [&](int64_t rank) { return std::min(size, rank * slice); };
  const auto slice_of = [&](int64_t rank) { return begin(rank + 1) - begin(rank); };

  // One shard's slices are sent from where they are.
  const float* from = parts.data;
  if (own_shards > 1) {
    make_room(context, send_, parts.size());
    float* next = send_.data();
    for (int64_t rank = 0; rank < count; ++rank) {
      for (int64_t s = 0; s < own_shards; ++s, next += slice_of(rank))
        detail::copy(context, next, parts.data + s * size + begin(rank),
                     static_cast<size_t>(slice_of(rank)) * sizeof(float));
    }
    from = send_.data();
  }
  const int64_t shards =
      std::accumulate(shards_of_rank_.begin(), shards_of_rank_.end(), int64_t{0});
  make_room(context, received_, std::max<int64_t>(1, shards * slice_of(own)));
  std::vector<Piece> send, receive;
  int64_t first = 0;
  for (int64_t rank = 0; rank < count; ++rank) {
    const int64_t held = shards_of_rank_[static_cast<size_t>(rank)];
    send.push_back(piece_of(from + own_shards * begin(rank), own_shards * slice_of(rank)));
    receive.push_back(piece_of(received_.data() + first * slice_of(own), held * slice_of(own)));
    first += held;
  }
  ranks_.exchange(context, send, receive);
  sum_into_first(context, received_.data(), shards, slice_of(own));
  send.assign(static_cast<size_t>(count), piece_of(received_.data(), slice_of(own)));
  receive.clear();
  for (int64_t rank = 0; rank < count; ++rank)
    receive.push_back(piece_of(total.data + begin(rank), slice_of(rank)));
  ranks_.exchange(context, send, receive);
}

}  // namespace emblem
