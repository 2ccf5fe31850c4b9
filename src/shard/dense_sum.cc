#include "shard/dense_sum.h"

#include <algorithm>
#include <numeric>

#include "comm/sum_all.h"

namespace emblem {

DenseSum::DenseSum(Communicator& ranks, std::vector<int64_t> shards_of_rank)
    : ranks_(ranks), shards_of_rank_(std::move(shards_of_rank)) {}

// Rank r adds up slice r of all shards, then the slices are exchanged.
void DenseSum::operator()(std::span<const float> parts, std::span<float> total) {
  const size_t size = total.size(), count = static_cast<size_t>(ranks_.size());
  const auto own = static_cast<size_t>(ranks_.rank());
  const auto own_shards = static_cast<size_t>(shards_of_rank_[own]);
  EMBLEM_REQUIRE(parts.size() == own_shards * size, "a sum of ", parts.size(), " values of ",
                 own_shards, " shards, expected ", own_shards * size);
  const size_t slice = (size + count - 1) / count;
  const auto begin = [&](size_t rank) { return std::min(size, rank * slice); };
  const auto slice_of = [&](size_t rank) { return begin(rank + 1) - begin(rank); };
  send_.resize(parts.size());
  std::vector<Piece> send, receive;
  float* next = send_.data();
  for (size_t rank = 0; rank < count; ++rank) {
    send.push_back({next, own_shards * slice_of(rank) * sizeof(float)});
    for (size_t s = 0; s < own_shards; ++s)
      next = std::copy_n(parts.data() + s * size + begin(rank), slice_of(rank), next);
  }
  const auto shards = static_cast<size_t>(
      std::accumulate(shards_of_rank_.begin(), shards_of_rank_.end(), int64_t{0}));
  received_.resize(shards * slice_of(own));
  std::vector<std::span<float>> of_shards;
  for (size_t s = 0; s < shards; ++s)
    of_shards.emplace_back(received_.data() + s * slice_of(own), slice_of(own));
  size_t first = 0;
  for (size_t rank = 0; rank < count; ++rank) {
    const auto held = static_cast<size_t>(shards_of_rank_[rank]);
    receive.push_back(
        {received_.data() + first * slice_of(own), held * slice_of(own) * sizeof(float)});
    first += held;
  }
  ranks_.exchange(Context{}, send, receive);
  sum_tree(of_shards);
  send.assign(count, {received_.data(), slice_of(own) * sizeof(float)});
  receive.clear();
  for (size_t rank = 0; rank < count; ++rank)
    receive.push_back({total.data() + begin(rank), slice_of(rank) * sizeof(float)});
  ranks_.exchange(Context{}, send, receive);
}

}  // namespace emblem
