#include "model/lookup/model_lookup.h"

#include <algorithm>

#include "core/memory/make_room.h"
#include "model/lookup/key_arrays.h"
#include "model/model.h"

namespace emblem {
namespace {

const FeatureKeys& keys_of(const ModelBatch& batch, const GroupedFeature& each) {
  return batch.sparse[static_cast<size_t>(each.feature->sparse_index)];
}

template <class T>
void copy_values(const Context& context, T* to, const T* from, int64_t count) {
  if (count > 0) detail::copy(context, to, from, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

ModelLookup::ModelLookup(const Context& context, const config::PipelineConfig& config,
                         const LookupGroup& group, const MakeLookup& make_elsewhere, ModelUse use,
                         const MakeRankTables& make_rank_tables)
    : group_(group), precision_(precision_of(context, config.train_config())) {
  const LookupTables tables = tables_of_lookup(config, group, use);
  if (make_elsewhere) {
    lookup_ = make_elsewhere(tables);
    return;
  }
  if (make_rank_tables) {
    RankTables made = make_rank_tables(tables);
    is_divided_ = true;
    counts_stacked_ = made.notes_absent;
    tables_ = std::move(made.tables);
    lookup_ = std::move(made.lookup);
  } else {
    for (const TableSettings& settings : tables.tables)
      tables_.push_back(make_table(context, settings));
  }
  std::vector<LookupFeature> features;
  for (const TableUse& each : tables.uses) {
    Table* table = tables_[static_cast<size_t>(each.table)].get();
    features.push_back({table, each.pooling});
    feature_tables_.push_back(table);
  }
  if (!lookup_) {
    lookup_ = make_lookup(context, features, tables.lookup);
    counts_stacked_ = true;
  }
  counts_stacked_ &= group.is_stacked;
  if (counts_stacked_)
    stacked_counts_ = Buffer<int64_t>::zeros(context, std::ssize(group.features), 2);
}

// The bags of all features one after the other.
void ModelLookup::stack(const Context& context, const ModelBatch& batch, Keys& to) const {
  int64_t keys = 0, bags = 0;
  bool has_offsets = false, has_weights = false;
  for (const GroupedFeature& each : group_.features) {
    const FeatureKeys& part = keys_of(batch, each);
    keys += part.keys.size();
    bags += bags_of(part);
    has_offsets |= part.offsets.size() > 0;
    has_weights |= part.weights.size() > 0;
  }
  make_room(context, to.keys, keys);
  if (has_offsets) make_room(context, to.offsets, bags + 1);
  if (has_weights) make_room(context, to.weights, keys);
  int64_t key = 0, bag = 0;
  for (const GroupedFeature& each : group_.features) {
    const FeatureKeys& part = keys_of(batch, each);
    copy_values(context, to.keys.data() + key, part.keys.data, part.keys.size());
    if (has_offsets)
      shift_offsets(context, part, static_cast<int32_t>(key), to.offsets.data() + bag);
    if (has_weights && part.weights.size() > 0)
      copy_values(context, to.weights.data() + key, part.weights.data, part.weights.size());
    else if (has_weights)
      fill(context, 1.0f, part.keys.size(), to.weights.data() + key);
    key += part.keys.size();
    bag += bags_of(part);
  }
  FeatureKeys& all = to.features.emplace_back();
  all.keys = {to.keys.data(), keys, 1, context.device};
  if (has_offsets) {
    // The end of the last bag, as the begin of one more.
    shift_offsets(context, {.keys = {nullptr, 1, 1, context.device}}, static_cast<int32_t>(keys),
                  to.offsets.data() + bags);
    all.offsets = {to.offsets.data(), bags + 1, 1, context.device};
  }
  if (has_weights) all.weights = {to.weights.data(), keys, 1, context.device};
  if (counts_stacked_) {
    make_room(context, to.absent, keys);
    all.absent = {to.absent.data(), keys, 1, context.device};
  }
}

// After a forward pass over `keys`, those of `batch`.
void ModelLookup::count_stacked(const Context& context, const ModelBatch& batch, const Keys& keys) {
  if (!counts_stacked_) return;
  const uint8_t* absent = keys.absent.data();
  int64_t* counts = stacked_counts_.data();
  for (const GroupedFeature& each : group_.features) {
    const int64_t count = keys_of(batch, each).keys.size();
    add_flags(context, {absent, count, 1, context.device}, counts);
    absent += count;
    counts += 2;
  }
}

void ModelLookup::pick(const Context& context, const ModelBatch& batch, Keys& to) const {
  to.features.clear();
  if (group_.is_stacked) return stack(context, batch, to);
  for (const GroupedFeature& each : group_.features) to.features.push_back(keys_of(batch, each));
}

AnyView ModelLookup::room(const Context& context, int64_t bags, Buffer<char>& memory) const {
  make_room(context, memory, bags * group_.width * size_of(precision_));
  return {memory.data(), bags, group_.width, precision_, context.device};
}

AnyView ModelLookup::stacked(const Context& context, Graph& graph, Buffer<char>& memory) const {
  int64_t bags = 0;
  for (const GroupedFeature& each : group_.features) bags += graph.matrix(each.node).rows;
  return room(context, bags, memory);
}

void ModelLookup::forward(const Context& context, Graph& graph, const ModelBatch& batch,
                          Phase phase) {
  shard_begins_.clear();
  pick(context, batch, keys_);
  if (!group_.is_stacked) {
    lookup_->forward(context, keys_.features, phase, graph.matrix(group_.features[0].node));
    return;
  }
  const AnyView all = stacked(context, graph, rows_);
  lookup_->forward(context, keys_.features, phase, all);
  count_stacked(context, batch, keys_);
  const char* from = rows_.data();
  for (const GroupedFeature& each : group_.features) {
    const AnyView to = graph.matrix(each.node);
    const int64_t bytes = to.size() * size_of(to.dtype);
    copy_values(context, static_cast<char*>(to.data), from, bytes);
    from += bytes;
  }
}

void ModelLookup::forward_shards(const Context& context, std::span<const ModelBatch* const> shards,
                                 Phase phase) {
  shard_keys_.resize(shards.size());
  shard_begins_.assign(1, 0);
  std::vector<FeatureKeys> features;
  const size_t each = group_.is_stacked ? 1 : group_.features.size();
  for (size_t s = 0; s < shards.size(); ++s) {
    Keys& keys = shard_keys_[s];
    if (shards[s] != nullptr)
      pick(context, *shards[s], keys);
    else
      keys.features.assign(each, {});
    features.insert(features.end(), keys.features.begin(), keys.features.end());
    shard_begins_.push_back(shard_begins_.back() + bags_of(keys.features[0]));
  }
  const AnyView all = room(context, shard_begins_.back(), rows_);
  room(context, shard_begins_.back(), row_gradients_);
  lookup_->forward(context, features, phase, all);
  for (size_t s = 0; s < shards.size(); ++s)
    if (shards[s] != nullptr) count_stacked(context, *shards[s], shard_keys_[s]);
}

void ModelLookup::prefetch(const Context& context, std::span<const ModelBatch* const> shards) {
  // Divided lookups know announced keys by their address, which stacked ones do not keep.
  if (group_.is_stacked && is_divided_) return;
  std::vector<FeatureKeys> features;
  for (const ModelBatch* shard : shards) {
    if (shard == nullptr) return;
    pick(context, *shard, coming_);
    features.insert(features.end(), coming_.features.begin(), coming_.features.end());
  }
  lookup_->prefetch(context, features);
}

template <class Matrix, class Copy>
void ModelLookup::for_each_node(size_t shard, Matrix&& matrix, Copy&& copy) const {
  const size_t nodes = group_.is_stacked ? group_.features.size() : 1;
  int64_t bags = shard_begins_[shard];
  for (size_t i = 0; i < nodes; ++i) {
    const auto of_node = matrix(group_.features[i].node);
    copy(of_node, bags * group_.width * size_of(of_node.dtype));
    bags += of_node.rows;
  }
}

void ModelLookup::feed_shard(const Context& context, Graph& graph, size_t shard) {
  for_each_node(
      shard, [&](Node node) { return graph.matrix(node); },
      [&](const AnyView& to, int64_t begin) {
        copy_values(context, static_cast<char*>(to.data), rows_.data() + begin,
                    to.size() * size_of(to.dtype));
      });
}

void ModelLookup::keep_gradients(const Context& context, Graph& graph, size_t shard) {
  for_each_node(
      shard, [&](Node node) { return graph.gradient_matrix(node); },
      [&](const AnyView& from, int64_t begin) {
        copy_values(context, row_gradients_.data() + begin, static_cast<const char*>(from.data),
                    from.size() * size_of(from.dtype));
      });
}

ConstAnyView ModelLookup::gradients(const Context& context, Graph& graph) {
  if (!shard_begins_.empty()) return room(context, shard_begins_.back(), row_gradients_);
  if (!group_.is_stacked) return graph.gradient_matrix(group_.features[0].node);
  AnyView all = stacked(context, graph, row_gradients_);
  char* to = row_gradients_.data();
  for (const GroupedFeature& each : group_.features) {
    const ConstAnyView from = graph.gradient_matrix(each.node);
    all.dtype = from.dtype;
    const int64_t bytes = from.size() * size_of(from.dtype);
    copy_values(context, to, static_cast<const char*>(from.data), bytes);
    to += bytes;
  }
  return all;
}

// Gradients of a stacked lookup are laid together when they are used.
void ModelLookup::prepare_backward(const Context& context, Graph& graph) {
  if (group_.is_stacked && (is_divided_ || context.device != Device::kCpu)) return;
  const bool is_laid_later = group_.is_stacked && shard_begins_.empty();
  lookup_->prepare_backward(
      context, is_laid_later ? stacked(context, graph, row_gradients_) : gradients(context, graph));
}

double ModelLookup::squared_gradient_norm(const Context& context, Graph& graph) {
  return lookup_->squared_gradient_norm(context, gradients(context, graph));
}

void ModelLookup::backward(const Context& context, Graph& graph, const StepScalars& step) {
  lookup_->backward(context, gradients(context, graph), step.scale, step.learning_rate, step.step);
}

std::vector<LookupCounts> ModelLookup::take_stacked_counts(const Context& context) {
  const std::vector<int64_t> values = stacked_counts_.to_host(context);
  detail::zero(context, stacked_counts_.data(), values.size() * sizeof(int64_t));
  std::vector<LookupCounts> counts;
  for (size_t i = 0; i < values.size(); i += 2) counts.push_back({values[i], values[i + 1]});
  return counts;
}

std::vector<FeatureLookups> ModelLookup::take_counts(const Context& context) {
  std::vector<LookupCounts> counts = lookup_->take_counts(context);
  if (counts_stacked_)
    counts = take_stacked_counts(context);
  else if (group_.is_stacked)
    counts.assign(group_.features.size(), LookupCounts(counts[0]));
  std::vector<FeatureLookups> found;
  for (size_t f = 0; f < group_.features.size(); ++f)
    found.push_back({group_.features[f].feature->name, group_.features[f].table, counts[f]});
  return found;
}

}  // namespace emblem
