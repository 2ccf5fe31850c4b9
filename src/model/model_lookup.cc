#include "model/model_lookup.h"

#include <algorithm>

#include "model/key_arrays.h"

namespace emblem {
namespace {

template <class T>
void make_room(const Context& context, Buffer<T>& memory, int64_t size) {
  if (memory.size() >= size) return;
  context.synchronize();  // what is enqueued may still read it
  memory = Buffer<T>(context.device, size + size / 4);
}

const FeatureKeys& keys_of(const ModelBatch& batch, const PlannedFeature& planned) {
  return batch.sparse[static_cast<size_t>(planned.feature->sparse_index)];
}

template <class T>
void copy_values(const Context& context, T* to, const T* from, int64_t count) {
  if (count > 0) detail::copy(context, to, from, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

ModelLookup::ModelLookup(const Context& context, const config::PipelineConfig& config,
                         const LookupPlan& plan, const MakeLookup& make_elsewhere, ModelUse use)
    : plan_(plan) {
  const TablePlan tables = plan_tables(config, plan, use);
  if (make_elsewhere) {
    lookup_ = make_elsewhere(tables);
    return;
  }
  for (const TableSettings& settings : tables.tables)
    tables_.push_back(make_table(context, settings));
  std::vector<LookupFeature> features;
  for (const TableUse& each : tables.uses) {
    Table* table = tables_[static_cast<size_t>(each.table)].get();
    features.push_back({table, each.pooling});
    feature_tables_.push_back(table);
  }
  lookup_ = make_lookup(context, features, tables.lookup);
}

// The bags of all features one after the other.
void ModelLookup::stack(const Context& context, const ModelBatch& batch, Keys& to) const {
  int64_t keys = 0, bags = 0;
  bool has_offsets = false, has_weights = false;
  for (const PlannedFeature& planned : plan_.features) {
    const FeatureKeys& part = keys_of(batch, planned);
    keys += part.keys.size();
    bags += bags_of(part);
    has_offsets |= part.offsets.size() > 0;
    has_weights |= part.weights.size() > 0;
  }
  make_room(context, to.keys, keys);
  if (has_offsets) make_room(context, to.offsets, bags + 1);
  if (has_weights) make_room(context, to.weights, keys);
  int64_t key = 0, bag = 0;
  for (const PlannedFeature& planned : plan_.features) {
    const FeatureKeys& part = keys_of(batch, planned);
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
}

void ModelLookup::pick(const Context& context, const ModelBatch& batch, Keys& to) const {
  to.features.clear();
  if (plan_.is_stacked) return stack(context, batch, to);
  for (const PlannedFeature& planned : plan_.features)
    to.features.push_back(keys_of(batch, planned));
}

AnyView ModelLookup::stacked(const Context& context, Graph& graph, Buffer<char>& memory) const {
  int64_t bags = 0;
  for (const PlannedFeature& planned : plan_.features) bags += graph.matrix(planned.node).rows;
  const DType type = graph.matrix(plan_.features[0].node).dtype;
  make_room(context, memory, bags * plan_.width * size_of(type));
  return {memory.data(), bags, plan_.width, type, context.device};
}

void ModelLookup::forward(const Context& context, Graph& graph, const ModelBatch& batch,
                          Phase phase) {
  pick(context, batch, keys_);
  if (!plan_.is_stacked) {
    lookup_->forward(context, keys_.features, phase, graph.matrix(plan_.features[0].node));
    return;
  }
  const AnyView all = stacked(context, graph, rows_);
  lookup_->forward(context, keys_.features, phase, all);
  const char* from = rows_.data();
  for (const PlannedFeature& planned : plan_.features) {
    const AnyView to = graph.matrix(planned.node);
    const int64_t bytes = to.size() * size_of(to.dtype);
    copy_values(context, static_cast<char*>(to.data), from, bytes);
    from += bytes;
  }
}

void ModelLookup::prefetch(const Context& context, const ModelBatch& next) {
  pick(context, next, coming_);
  lookup_->prefetch(context, coming_.features);
}

ConstAnyView ModelLookup::gradients(const Context& context, Graph& graph) {
  if (!plan_.is_stacked) return graph.gradient_matrix(plan_.features[0].node);
  AnyView all = stacked(context, graph, row_gradients_);
  char* to = row_gradients_.data();
  for (const PlannedFeature& planned : plan_.features) {
    const ConstAnyView from = graph.gradient_matrix(planned.node);
    all.dtype = from.dtype;
    const int64_t bytes = from.size() * size_of(from.dtype);
    copy_values(context, to, static_cast<const char*>(from.data), bytes);
    to += bytes;
  }
  return all;
}

double ModelLookup::squared_gradient_norm(const Context& context, Graph& graph) {
  return lookup_->squared_gradient_norm(context, gradients(context, graph));
}

void ModelLookup::backward(const Context& context, Graph& graph, const StepScalars& step) {
  lookup_->backward(context, gradients(context, graph), step.scale, step.learning_rate, step.step);
}

std::vector<FeatureLookups> ModelLookup::take_counts(const Context& context) {
  const std::vector<LookupCounts> counts = lookup_->take_counts(context);
  std::vector<FeatureLookups> found;
  for (size_t f = 0; f < counts.size(); ++f)
    found.push_back({plan_.features[f].feature->name, plan_.features[f].table, counts[f]});
  return found;
}

}  // namespace emblem
