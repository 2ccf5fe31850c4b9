#include "model/model.h"

#include <algorithm>

#include "core/text/text.h"
#include "emblem/error.h"
#include "model/layers/inputs.h"
#include "model/lookup/key_arrays.h"
#include "model/lookup/memory_estimate.h"
#include "model/models.h"
#include "optim/dense_optimizer.h"

namespace emblem {
namespace {

// Copies a batch's values into an input node of the graph.
template <class T>
void feed_node(const Context& context, const char* what, View<const T> from, View<T> to) {
  if (from.size() != to.size()) [[unlikely]]
    throw Error(ErrorCode::kInternal,
                cat("a batch has ", from.size(), " ", what, ", but the model takes ", to.rows,
                    " x ", to.cols, " of them"));
  detail::copy(context, to.data, from.data, static_cast<size_t>(from.size()) * sizeof(T));
}

// Weights that a file of a checkpoint cannot hold are not those of its model.
void require_weights(const Graph& graph, int64_t most) {
  double weights = 0;
  for (const Parameter& parameter : graph.parameter_list())
    weights += static_cast<double>(parameter.rows) * static_cast<double>(parameter.cols);
  if (weights > static_cast<double>(most))
    throw Error(
        ErrorCode::kCorruption,
        cat("the layers of its pipeline have ", format_count(weights),
            " weights, which its file of weights is too small for; it is of another model"));
}

}  // namespace

DType precision_of(const Context& context, const config::TrainConfig& config) {
  if (context.device == Device::kCpu) return DType::kF32;
  if (config.mixed_precision() == "BF16") return DType::kBf16;
  return config.mixed_precision() == "FP16" ? DType::kF16 : DType::kF32;
}

DType compute_type_of(const Context& context, const config::TrainConfig& config) {
  if (context.device != Device::kCpu) return precision_of(context, config);
  if (config.mixed_precision() == "INT8") return DType::kInt8;
  return config.mixed_precision() == "BF16" ? DType::kBf16 : DType::kF32;
}

Model::Model(const Context& context, const config::PipelineConfig& config,
             const FeatureLayout& layout, int64_t max_rows, const MakeLookup& make_lookup,
             ModelUse use, const MakeRankTables& make_rank_tables, int64_t most_weights)
    : name_(model_name(config.model_config())), graph_(config.train_config().seed()) {
  EMBLEM_REQUIRE(
      config.train_config().mixed_precision() != "INT8" || make_lookup ||
          use == ModelUse::kEvaluation,
      "train_config.mixed_precision is INT8, which exported models have; train in FP32, BF16 or "
      "FP16, then write the model by emblem export --precision int8 --calibrate DATA");
  ModelInputs inputs(graph_, config, layout, wide_dim_of(config.model_config()));
  heads_ = build_model(graph_, inputs);
  for (const Head& head : heads_) {
    add_losses(graph_, inputs, head);
    if (!head.spec.in_training_only) graph_.mark_output(head.logits);
  }
  EMBLEM_REQUIRE(make_lookup || use == ModelUse::kEvaluation || !graph_.loss_names().empty(),
                 "the model has nothing to learn: ", name_,
                 " has no item_tower; add it, with its feature group");
  dense_ = inputs.dense();
  labels_ = inputs.labels();
  weights_ = inputs.weights();
  ids_ = inputs.id_inputs();
  if (!layout.candidates.item_id.empty()) missing_id_ = -1;  // no key
  candidate_logs_ = inputs.candidate_inputs().logs;
  candidate_of_ = inputs.candidate_inputs().of;
  sequence_of_feature_.resize(static_cast<size_t>(layout.sparse_count), -1);
  for (const FeatureSpec& feature : layout.features) {
    if (feature.kind == FeatureKind::kSparse && !feature.is_intermediate)
      sequence_of_feature_[static_cast<size_t>(feature.sparse_index)] = feature.sequence;
  }
  for (size_t s = 0; s < layout.sequences.size(); ++s) {
    if (inputs.sequence_spaces()[s].id > 0)
      sequences_.push_back({s, inputs.sequence_spaces()[s], inputs.sequence_numbers()[s]});
  }
  require_weights(graph_, most_weights);
  require_dense_memory(context, graph_, max_rows);
  if (!make_lookup && !make_rank_tables) {
    std::vector<TableSettings> tables;
    for (const LookupGroup& group : inputs.lookups())
      for (TableSettings& table : tables_of_lookup(config, group, use).tables)
        tables.push_back(std::move(table));
    require_table_memory(context, tables);
  }
  for (const LookupGroup& group : inputs.lookups())
    lookups_.emplace_back(context, config, group, make_lookup, use, make_rank_tables);
  const DType precision = precision_of(context, config.train_config());
  // In 16 bits an evaluation computes with the padded rows of training, so that its results are the
  // same to the last bit.
  const bool is_lean = make_lookup || (use == ModelUse::kEvaluation && precision == DType::kF32);
  graph_.prepare(context, max_rows, compute_type_of(context, config.train_config()),
                 is_lean ? Graph::Purpose::kInference : Graph::Purpose::kTraining);
}

std::vector<Model::LookupInput> Model::lookup_inputs() const {
  std::vector<LookupInput> inputs;
  for (const ModelLookup& lookup : lookups_) {
    LookupInput& input = inputs.emplace_back();
    const LookupGroup& group = lookup.group();
    input.node = group.features[0].node;
    input.sequence = group.sequence;
    input.is_stacked = group.is_stacked;
    for (const GroupedFeature& each : group.features) {
      input.sparse_index.push_back(each.feature->sparse_index);
      input.dims.push_back(each.dim);
    }
    input.tables = lookup.feature_tables();
    if (group.is_stacked && !input.tables.empty())
      input.tables.resize(group.features.size(), input.tables[0]);
  }
  return inputs;
}

void Model::feed_values(const Context& context, const ModelBatch& batch) {
  if (dense_.id >= 0) feed_node(context, "numeric values", batch.dense, graph_.value(dense_));
  for (const SequenceInput& input : sequences_) {
    const SequenceView& sequence = batch.sequences[input.index];
    graph_.set_elements(context, input.space, sequence.offsets, sequence.elements);
    if (input.numbers.id >= 0)
      feed_node(context, "numbers of a sequence", sequence.numbers, graph_.value(input.numbers));
  }
}

void Model::feed_targets(const Context& context, const ModelBatch& batch, Phase phase) {
  if (phase != Phase::kTrain && batch.labels.size() == 0) {
    // Labels may choose nodes (Graph::select), so they are valid even where no loss reads them.
    const View<float> labels = graph_.value(labels_);
    detail::zero(context, labels.data, static_cast<size_t>(labels.size()) * sizeof(float));
    return;  // ranks of candidates, which mean nothing, read what is there
  }
  feed_node(context, "labels", batch.labels, graph_.value(labels_));
  if (weights_.id >= 0) feed_node(context, "sample weights", batch.weights, graph_.value(weights_));
  for (const auto& [sparse_index, node] : ids_)
    first_keys(context, batch.sparse[static_cast<size_t>(sparse_index)], missing_id_,
               graph_.ids(node).data);
  if (candidate_logs_.id >= 0)
    feed_node(context, "logarithms of candidates", batch.candidate_logs,
              graph_.value(candidate_logs_));
  if (candidate_of_.id >= 0)
    feed_node(context, "rows of candidates", batch.candidate_of, graph_.ids(candidate_of_));
}

void Model::feed(const Context& context, const ModelBatch& batch, Phase phase) {
  graph_.set_rows(batch.rows);
  feed_values(context, batch);
  feed_targets(context, batch, phase);
}

void Model::forward(const Context& context, const ModelBatch& batch, Phase phase, uint64_t draw) {
  clock_.begin(context, "lookup");
  feed(context, batch, phase);
  for (ModelLookup& lookup : lookups_) lookup.forward(context, graph_, batch, phase);
  clock_.end(context, stages_.lookup);
  run_forward(context, phase, draw);
}

void Model::lookup_shards(const Context& context, std::span<const ModelBatch* const> shards,
                          Phase phase) {
  looks_up_when_run_ = shards.size() == 1 && shards[0] != nullptr;
  if (looks_up_when_run_) return;
  clock_.begin(context, "lookup");
  for (ModelLookup& lookup : lookups_) lookup.forward_shards(context, shards, phase);
  clock_.end(context, stages_.lookup);
}

void Model::forward_shard(const Context& context, size_t shard, const ModelBatch& batch,
                          Phase phase, uint64_t draw) {
  if (looks_up_when_run_) return forward(context, batch, phase, draw);
  clock_.begin(context, "lookup");
  feed(context, batch, phase);
  for (ModelLookup& lookup : lookups_) lookup.feed_shard(context, graph_, shard);
  clock_.end(context, stages_.lookup);
  run_forward(context, phase, draw);
}

void Model::keep_embedding_gradients(const Context& context, size_t shard) {
  for (ModelLookup& lookup : lookups_) {
    if (looks_up_when_run_)
      lookup.prepare_backward(context, graph_);
    else
      lookup.keep_gradients(context, graph_, shard);
  }
}

void Model::run_forward(const Context& context, Phase phase, uint64_t draw) {
  clock_.begin(context, "dense forward");
  graph_.forward(context, phase, draw);
  clock_.end(context, stages_.forward);
}

void Model::prefetch(const Context& context, std::span<const ModelBatch* const> next) {
  for (ModelLookup& lookup : lookups_) lookup.prefetch(context, next);
}

void Model::backward(const Context& context) {
  clock_.begin(context, "dense backward");
  graph_.backward(context);
  clock_.end(context, stages_.backward);
}

void Model::clip_embedding_gradients(const Context& context, float most) {
  for (const ModelLookup& lookup : lookups_) {
    const std::vector<GroupedFeature>& features = lookup.group().features;
    const size_t nodes = lookup.group().is_stacked ? features.size() : 1;  // or all have one node
    for (size_t i = 0; i < nodes; ++i)
      clip_by_value(context, graph_.gradient_matrix(features[i].node), most);
  }
}

double Model::squared_embedding_gradient_norm(const Context& context) {
  double sum = 0.0;
  for (ModelLookup& lookup : lookups_) sum += lookup.squared_gradient_norm(context, graph_);
  return sum;
}

void Model::update_embeddings(const Context& context, float scale, float learning_rate,
                              int64_t step) {
  clock_.begin(context, "update");
  // All lookups take their memory before one of them updates its rows.
  if (!looks_up_when_run_)
    for (ModelLookup& lookup : lookups_) lookup.prepare_backward(context, graph_);
  for (ModelLookup& lookup : lookups_)
    lookup.backward(context, graph_, {scale, learning_rate, step});
  clock_.end(context, stages_.update);
}

void Model::check(const Context& context) {
  for (ModelLookup& lookup : lookups_) lookup.check(context);
}

std::vector<FeatureLookups> Model::take_lookup_counts(const Context& context) {
  std::vector<FeatureLookups> found;
  for (ModelLookup& lookup : lookups_) {
    if (!lookup.has_lookup())
      throw Error(ErrorCode::kUnsupported, cat(name_, ": this model counts no lookups"));
    for (const FeatureLookups& one : lookup.take_counts(context)) {
      // A feature of several groups has the same keys in each of them.
      const bool again = std::any_of(found.begin(), found.end(), [&](const FeatureLookups& other) {
        return other.feature == one.feature && other.table == one.table;
      });
      if (!again) found.push_back(one);
    }
  }
  return found;
}

View<const float> Model::logits(size_t head) { return graph_.value(heads_.at(head).logits); }

std::vector<Table*> Model::tables() const {
  std::vector<Table*> tables;
  for (const ModelLookup& lookup : lookups_) {
    for (const auto& table : lookup.tables()) tables.push_back(table.get());
  }
  return tables;
}

}  // namespace emblem
