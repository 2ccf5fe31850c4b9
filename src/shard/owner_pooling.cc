#include "shard/owner_pooling.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace emblem {
namespace {

void copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

OwnerPooling::OwnerPooling(Communicator& ranks, int64_t slots, DType precision)
    : ranks_(ranks), self_(ranks.rank()), slots_(slots), exchange_rows_(ranks, precision) {}

size_t OwnerPooling::add(const Feature& feature) {
  features_.push_back(feature);
  return features_.size() - 1;
}

const FeatureKeys* OwnerPooling::asked(int rank, int64_t item) const {
  const auto slot = static_cast<size_t>(item) / features_.size();
  const Feature& feature = feature_of(item);
  if (slot >= shards_.size() || feature.owner != rank) return nullptr;
  return &shards_[slot].sources[feature.source];
}

// Calls body(rank, item, keys) for what other ranks pool for this one.
template <class Body>
void OwnerPooling::for_each_asked(Body&& body) {
  for (int rank = 0; rank < ranks_.size(); ++rank)
    for (int64_t i = 0; rank != self_ && i < items(); ++i)
      if (const FeatureKeys* keys = asked(rank, i)) body(rank, i, *keys);
}

void OwnerPooling::exchange_facts(const Context& context) {
  std::vector<Facts> mine(static_cast<size_t>(ranks_.size() * items()));
  facts_.resize(mine.size());
  std::vector<Piece> send, receive;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const auto first = static_cast<size_t>(rank * items());
    for (int64_t i = 0; i < items(); ++i) {
      if (const FeatureKeys* keys = asked(rank, i))
        mine[first + static_cast<size_t>(i)] = {static_cast<int32_t>(bags_of(*keys)),
                                                static_cast<int32_t>(keys->keys.size()),
                                                keys->offsets.size() > 0, keys->weights.size() > 0};
    }
    const size_t bytes = static_cast<size_t>(items()) * sizeof(Facts);
    send.push_back({mine.data() + first, bytes});
    receive.push_back({facts_.data() + first, bytes});
  }
  ranks_.exchange(context, send, receive);
}

void OwnerPooling::exchange_keys(const Context& context, std::vector<Shard> shards) {
  shards_ = std::move(shards);
  exchange_facts(context);
  // Keys of all items, then offsets and weights.
  sent_keys_.lay_out(ranks_.size(), 3 * items(), [&](int rank, int64_t block) -> int64_t {
    const FeatureKeys* keys = rank == self_ ? nullptr : asked(rank, block % items());
    if (keys == nullptr) return 0;
    if (block < items()) return keys->keys.size() * 8;
    return (block < 2 * items() ? keys->offsets.size() : keys->weights.size()) * 4;
  });
  received_keys_.lay_out(ranks_.size(), 3 * items(), [&](int rank, int64_t block) -> int64_t {
    const Facts& of = facts(rank, block % items());
    if (rank == self_) return 0;
    if (block < items()) return int64_t{of.keys} * 8;
    if (block < 2 * items()) return of.has_offsets ? (int64_t{of.bags} + 1) * 4 : 0;
    return of.has_weights ? int64_t{of.keys} * 4 : 0;
  });
  for_each_asked([&](int rank, int64_t i, const FeatureKeys& keys) {
    copy(sent_keys_.at<char>(rank, i), keys.keys.data, sent_keys_.bytes(rank, i));
    copy(sent_keys_.at<char>(rank, items() + i), keys.offsets.data,
         sent_keys_.bytes(rank, items() + i));
    copy(sent_keys_.at<char>(rank, 2 * items() + i), keys.weights.data,
         sent_keys_.bytes(rank, 2 * items() + i));
  });
  ranks_.exchange(context, sent_keys_.pieces(self_), received_keys_.pieces(self_));
  // Numbers of missing keys, then vectors.
  owner_vectors_.lay_out(ranks_.size(), 2 * items(), [&](int rank, int64_t block) -> int64_t {
    if (rank == self_ || feature_of(block).owner != self_) return 0;
    return block < items() ? 8 : facts(rank, block % items()).bags * feature_of(block).dim * 4;
  });
}

FeatureKeys OwnerPooling::keys(int rank, size_t slot, size_t feature) {
  const int64_t i = item(slot, feature);
  if (rank == self_) {
    const FeatureKeys* own = asked(rank, i);
    return own != nullptr ? *own : FeatureKeys{};
  }
  const Facts& of = facts(rank, i);
  return {.keys = {received_keys_.at<int64_t>(rank, i), of.keys, 1},
          .offsets = {received_keys_.at<int32_t>(rank, items() + i),
                      of.has_offsets ? int64_t{of.bags} + 1 : 0, 1},
          .weights = {received_keys_.at<float>(rank, 2 * items() + i),
                      of.has_weights ? int64_t{of.keys} : 0, 1}};
}

float* OwnerPooling::vectors(int rank, size_t slot, size_t feature) {
  return owner_vectors_.at<float>(rank, items() + item(slot, feature));
}

int64_t& OwnerPooling::missing(int rank, size_t slot, size_t feature) {
  return *owner_vectors_.at<int64_t>(rank, item(slot, feature));
}

void OwnerPooling::exchange_vectors(const Context& context, View<float> out,
                                    std::span<LookupCounts> counts) {
  own_vectors_.lay_out(ranks_.size(), 2 * items(), [&](int rank, int64_t block) -> int64_t {
    if (rank == self_ || feature_of(block).owner != rank) return 0;
    if (block < items()) return 8;
    const FeatureKeys* keys = asked(rank, block % items());
    return keys == nullptr ? 0 : bags_of(*keys) * feature_of(block).dim * 4;
  });
  const BlockRange vectors{items(), 2 * items()};
  exchange_rows_(context, owner_vectors_, vectors, own_vectors_, vectors);
  for_each_asked([&](int rank, int64_t i, const FeatureKeys& keys) {
    const Feature& feature = feature_of(i);
    const int64_t first = shards_[static_cast<size_t>(i) / features_.size()].first_bag;
    const float* from = own_vectors_.at<float>(rank, items() + i);
    for (int64_t bag = 0; bag < bags_of(keys); ++bag)
      std::copy_n(from + bag * feature.dim, feature.dim,
                  out.data + (first + bag) * out.cols + feature.column);
    counts[feature.source].missing += *own_vectors_.at<int64_t>(rank, i);
  });
}

void OwnerPooling::exchange_gradients(const Context& context, View<const float> gradients) {
  own_vectors_.lay_out(ranks_.size(), items(), [&](int rank, int64_t i) -> int64_t {
    const FeatureKeys* keys = rank == self_ ? nullptr : asked(rank, i);
    return keys == nullptr ? 0 : bags_of(*keys) * feature_of(i).dim * 4;
  });
  owner_vectors_.lay_out(ranks_.size(), items(), [&](int rank, int64_t i) -> int64_t {
    if (rank == self_ || feature_of(i).owner != self_) return 0;
    return facts(rank, i).bags * feature_of(i).dim * 4;
  });
  for_each_asked([&](int rank, int64_t i, const FeatureKeys& keys) {
    const Feature& feature = feature_of(i);
    const int64_t first = shards_[static_cast<size_t>(i) / features_.size()].first_bag;
    float* to = own_vectors_.at<float>(rank, i);
    for (int64_t bag = 0; bag < bags_of(keys); ++bag)
      std::copy_n(gradients.data + (first + bag) * gradients.cols + feature.column, feature.dim,
                  to + bag * feature.dim);
  });
  exchange_rows_(context, own_vectors_, {0, items()}, owner_vectors_, {0, items()});
}

}  // namespace emblem
