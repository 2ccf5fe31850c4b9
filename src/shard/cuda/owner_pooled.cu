#include "shard/cuda/owner_pooled.h"

#include <utility>

#include "comm/threads/threads.h"
#include "core/memory/make_room.h"
#include "shard/cuda/device_sharded_lookup.h"

namespace emblem::cuda {

OwnerPooled::OwnerPooled(const Context& context, std::span<const TableSlice> tables,
                         std::span<const PartFeature> features, const ShardRanks& ranks,
                         const LookupSettings& settings)
    : ranks_(ranks),
      owners_(owners_of(tables, features, ranks.host->size())),
      mine_(owners_[static_cast<size_t>(ranks.host->rank())]),
      features_(features.size()),
      exchange_keys_(ranks, features_of(owners_)) {
  std::vector<PooledColumn> columns;
  for (const Owner& owner : owners_) {
    for (const size_t f : owner.features)
      for (int64_t d = 0; d < tables[features[f].table].settings.dim; ++d)
        columns.push_back({static_cast<int32_t>(features[f].column + d),
                           static_cast<int32_t>(owner.first), static_cast<int32_t>(owner.width)});
    width_ += owner.width;
  }
  columns_ = Buffer<PooledColumn>::from(context, columns);
  if (mine_.width > 0) make_lookup(context, tables, features, settings);
}

std::vector<OwnerPooled::Owner> OwnerPooled::owners_of(std::span<const TableSlice> tables,
                                                       std::span<const PartFeature> features,
                                                       int ranks) {
  std::vector<Owner> owners(static_cast<size_t>(ranks));
  for (size_t f = 0; f < features.size(); ++f) {
    const TableSlice& table = tables[features[f].table];
    Owner& owner = owners[static_cast<size_t>(table.pooled_by)];
    owner.features.push_back(f);
    owner.width += table.settings.dim;
  }
  for (size_t rank = 1; rank < owners.size(); ++rank)
    owners[rank].first = owners[rank - 1].first + owners[rank - 1].width;
  return owners;
}

std::vector<std::vector<size_t>> OwnerPooled::features_of(const std::vector<Owner>& owners) {
  std::vector<std::vector<size_t>> features;
  for (const Owner& owner : owners) features.push_back(owner.features);
  return features;
}

void OwnerPooled::make_lookup(const Context& context, std::span<const TableSlice> tables,
                              std::span<const PartFeature> features,
                              const LookupSettings& settings) {
  std::vector<ShardedTable> here;
  std::vector<size_t> numbers(tables.size());  // numbers of tables among those here
  for (size_t t = 0; t < tables.size(); ++t) {
    numbers[t] = here.size();
    if (tables[t].pooled_by == ranks_.host->rank())
      here.push_back(
          {tables[t].settings, over_all_ranks(tables[t].settings.name, 1), tables[t].local});
  }
  std::vector<ShardedFeature> of_owner;
  for (const size_t f : mine_.features)
    of_owner.push_back({numbers[features[f].table], features[f].pooling});
  alone_ = std::move(make_thread_ranks(1).front());
  const ShardRanks one{alone_.get(), alone_.get(), ranks_.host->size() * ranks_.slots};
  lookup_ = std::make_unique<DeviceShardedLookup>(context, here, of_owner, one, settings);
}

AnyView OwnerPooled::view(Buffer<char>& memory, int64_t rows, int64_t width) const {
  return {memory.data(), rows, width, ranks_.precision, Device::kCuda};
}

std::vector<Piece> OwnerPooled::own_pieces() {
  std::vector<Piece> pieces;
  for (const Owner& owner : owners_)
    pieces.push_back({own_.data() + bags_ * owner.first * element_bytes(),
                      static_cast<size_t>(bags_ * owner.width * element_bytes())});
  return pieces;
}

std::vector<Piece> OwnerPooled::pooled_pieces() {
  const int64_t bytes = mine_.width * element_bytes();  // bytes of a bag
  std::vector<Piece> pieces;
  for (size_t rank = 0; rank < owners_.size(); ++rank)
    pieces.push_back(
        {pooled_.data() + pooled_begins_[rank] * bytes,
         static_cast<size_t>((pooled_begins_[rank + 1] - pooled_begins_[rank]) * bytes)});
  return pieces;
}

// ---- forward ----

void OwnerPooled::forward(const Context& context, std::span<const FeatureKeys> features,
                          Phase phase, AnyView out) {
  gradients_exchanged_ = false;
  bags_ = out.rows;
  const std::vector<FeatureKeys> received = exchange_keys_(context, features, features_);
  pooled_begins_.assign(1, 0);
  const size_t of_rank = received.size() / owners_.size();  // features of each slot
  for (size_t rank = 0; rank < owners_.size(); ++rank) {
    int64_t bags = pooled_begins_.back();
    for (size_t i = 0; i < of_rank; i += mine_.features.size())
      bags += bags_of(received[rank * of_rank + i]);
    pooled_begins_.push_back(bags);
  }
  make_room(context, own_, bags_ * width_ * element_bytes());
  make_room(context, pooled_, pooled_begins_.back() * mine_.width * element_bytes());
  if (lookup_ != nullptr)
    lookup_->forward(context, received, phase, view(pooled_, pooled_begins_.back(), mine_.width));
  ranks_.device->exchange(context, pooled_pieces(), own_pieces());
  vectors_to_columns(context, columns_.data(), static_cast<int32_t>(width_),
                     view(own_, bags_, width_), out);
}

// ---- backward ----

void OwnerPooled::exchange_gradients(const Context& context, ConstAnyView gradients) {
  if (std::exchange(gradients_exchanged_, true)) return;
  columns_to_vectors(context, columns_.data(), static_cast<int32_t>(width_), gradients,
                     view(own_, bags_, width_));
  ranks_.device->exchange(context, own_pieces(), pooled_pieces());
}

void OwnerPooled::add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                            ExactSum& sum) {
  exchange_gradients(context, gradients);
  if (lookup_ != nullptr)
    lookup_->add_squared_gradient_norm(context, view(pooled_, pooled_begins_.back(), mine_.width),
                                       sum);
}

void OwnerPooled::backward(const Context& context, ConstAnyView gradients,
                           const StepScalars& scalars) {
  exchange_gradients(context, gradients);
  if (lookup_ != nullptr)
    lookup_->backward(context, view(pooled_, pooled_begins_.back(), mine_.width), scalars.scale,
                      scalars.learning_rate, scalars.step);
}

void OwnerPooled::check(const Context& context) {
  if (lookup_ != nullptr) lookup_->check(context);
}

// The owner counts for all ranks.
std::vector<int64_t> OwnerPooled::take_missing(const Context& context) {
  std::vector<int64_t> missing(features_);
  if (lookup_ == nullptr) return missing;
  const std::vector<LookupCounts> counts = lookup_->take_counts(context);
  for (size_t i = 0; i < counts.size(); ++i) missing[mine_.features[i]] = counts[i].missing;
  return missing;
}

}  // namespace emblem::cuda
