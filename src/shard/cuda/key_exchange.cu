#include "shard/cuda/key_exchange.h"

#include <utility>

#include "comm/nccl/piece_copies.h"
#include "core/memory/make_room.h"

namespace emblem::cuda {
namespace {

constexpr int64_t kAlignment = 16;  // alignment of messages

}  // namespace

KeyExchange::KeyExchange(const ShardRanks& ranks, std::vector<std::vector<size_t>> features_of)
    : ranks_(ranks),
      self_(static_cast<size_t>(ranks.host->rank())),
      features_of_(std::move(features_of)) {
  const auto slots = static_cast<size_t>(ranks.slots);
  for (const std::vector<size_t>& features : features_of_) {
    sent_.facts.emplace_back(slots * features.size());
    received_.facts.emplace_back(slots * features_of_[self_].size());
  }
}

// Keys of all first, so that each begins at a multiple of its size.
void KeyExchange::Messages::lay_out(const Context& context, size_t self) {
  places.resize(facts.size());
  begins.assign(1, 0);
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    places[rank].assign(facts[rank].size(), {});
    int64_t end = begins.back();
    for (size_t i = 0; rank != self && i < facts[rank].size(); ++i) {
      places[rank][i].keys = end;
      end += int64_t{facts[rank][i].keys} * 8;
    }
    for (size_t i = 0; rank != self && i < facts[rank].size(); ++i) {
      const Facts& of = facts[rank][i];
      places[rank][i].offsets = end;
      if (of.has_offsets) end += (int64_t{of.bags} + 1) * 4;
      places[rank][i].weights = end;
      if (of.has_weights) end += int64_t{of.keys} * 4;
    }
    begins.push_back((end + kAlignment - 1) / kAlignment * kAlignment);
  }
  make_room(context, memory, begins.back());
}

std::vector<Piece> KeyExchange::Messages::pieces() {
  std::vector<Piece> pieces;
  for (size_t rank = 0; rank + 1 < begins.size(); ++rank)
    pieces.push_back(
        {memory.data() + begins[rank], static_cast<size_t>(begins[rank + 1] - begins[rank])});
  return pieces;
}

void KeyExchange::exchange_facts(std::span<const FeatureKeys> features, size_t each) {
  std::vector<Piece> send, receive;
  for (size_t rank = 0; rank < features_of_.size(); ++rank) {
    const std::vector<size_t>& wanted = features_of_[rank];
    std::vector<Facts>& facts = sent_.facts[rank];
    facts.assign(facts.size(), {});
    for (size_t slot = 0; slot < features.size() / each; ++slot) {
      for (size_t i = 0; i < wanted.size(); ++i) {
        const FeatureKeys& keys = features[slot * each + wanted[i]];
        facts[slot * wanted.size() + i] = {static_cast<int32_t>(bags_of(keys)),
                                           static_cast<int32_t>(keys.keys.size()),
                                           keys.offsets.size() > 0, keys.weights.size() > 0};
      }
    }
    send.push_back({facts.data(), facts.size() * sizeof(Facts)});
    receive.push_back({received_.facts[rank].data(), received_.facts[rank].size() * sizeof(Facts)});
  }
  ranks_.host->exchange(Context{}, send, receive);
}

void KeyExchange::write(const Context& context, std::span<const FeatureKeys> features,
                        size_t each) {
  std::vector<PieceCopy> copies;
  const auto add = [&](int64_t to, const void* from, int64_t bytes) {
    if (bytes > 0) copies.push_back({sent_.memory.data() + to, from, static_cast<size_t>(bytes)});
  };
  for (size_t rank = 0; rank < features_of_.size(); ++rank) {
    const std::vector<size_t>& wanted = features_of_[rank];
    for (size_t slot = 0; rank != self_ && slot < features.size() / each; ++slot) {
      for (size_t i = 0; i < wanted.size(); ++i) {
        const FeatureKeys& keys = features[slot * each + wanted[i]];
        const Place& place = sent_.places[rank][slot * wanted.size() + i];
        add(place.keys, keys.keys.data, keys.keys.size() * 8);
        add(place.offsets, keys.offsets.data, keys.offsets.size() * 4);
        add(place.weights, keys.weights.data, keys.weights.size() * 4);
      }
    }
  }
  copy_pieces(context, copies);
}

std::vector<FeatureKeys> KeyExchange::operator()(const Context& context,
                                                 std::span<const FeatureKeys> features,
                                                 size_t each) {
  exchange_facts(features, each);
  sent_.lay_out(context, self_);
  received_.lay_out(context, self_);
  write(context, features, each);
  ranks_.device->exchange(context, sent_.pieces(), received_.pieces());
  std::vector<FeatureKeys> all;
  const std::vector<size_t>& wanted = features_of_[self_];
  for (size_t rank = 0; rank < features_of_.size(); ++rank) {
    for (size_t i = 0; i < received_.facts[rank].size(); ++i) {
      const Facts& of = received_.facts[rank][i];
      const size_t slot = i / wanted.size();
      if (rank == self_) {
        const bool is_there = slot < features.size() / each;
        all.push_back(is_there ? features[slot * each + wanted[i % wanted.size()]] : FeatureKeys{});
        continue;
      }
      const char* memory = received_.memory.data();
      const Place& place = received_.places[rank][i];
      const int64_t offsets = of.has_offsets ? int64_t{of.bags} + 1 : 0;
      const int64_t weights = of.has_weights ? of.keys : 0;
      all.push_back({.keys = {reinterpret_cast<const int64_t*>(memory + place.keys), of.keys, 1,
                              Device::kCuda},
                     .offsets = {reinterpret_cast<const int32_t*>(memory + place.offsets), offsets,
                                 1, Device::kCuda},
                     .weights = {reinterpret_cast<const float*>(memory + place.weights), weights, 1,
                                 Device::kCuda}});
    }
  }
  return all;
}

}  // namespace emblem::cuda
