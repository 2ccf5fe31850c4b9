#include "model/model.h"

#include <algorithm>

#include "core/text.h"
#include "model/builders.h"
#include "model/inputs.h"

namespace emblem {
namespace {

// Copies a batch's values into an input node of the graph.
void feed(const Context& context, const char* what, View<const float> from, View<float> to) {
  if (from.size() != to.size()) [[unlikely]]
    throw Error(ErrorCode::kInternal,
                cat("a batch has ", from.size(), " ", what, ", but the model takes ", to.rows,
                    " x ", to.cols, " of them"));
  detail::copy(context, to.data, from.data, static_cast<size_t>(from.size()) * sizeof(float));
}

}  // namespace

DType precision_of(const Context& context, const config::TrainConfig& config) {
  if (context.device == Device::kCpu) return DType::kF32;
  if (config.mixed_precision() == "BF16") return DType::kBf16;
  return config.mixed_precision() == "FP16" ? DType::kF16 : DType::kF32;
}

Model::Model(const Context& context, const config::PipelineConfig& config,
             const FeatureLayout& layout, int64_t max_rows, const MakeLookup& make_lookup,
             ModelUse use)
    : name_(model_name(config.model_config())), graph_(config.train_config().seed()) {
  ModelInputs inputs(graph_, config, layout, wide_dim_of(config.model_config()));
  logits_ = build_model(graph_, inputs, config.model_config());
  float smoothing = 0.0f;
  for (const auto& loss : config.model_config().losses())
    smoothing = loss.binary_cross_entropy().label_smoothing();
  graph_.binary_cross_entropy(logits_, inputs.label(), inputs.weights(), smoothing);
  dense_ = inputs.dense();
  label_ = inputs.label();
  weights_ = inputs.weights();
  add_embeddings(context, config, inputs.deep(), TableFamily::kDeep, make_lookup, use);
  add_embeddings(context, config, inputs.wide(), TableFamily::kWide, make_lookup, use);
  const DType precision = precision_of(context, config.train_config());
  // In 16 bits an evaluation computes with the padded rows of training, so that its results are the
  // same to the last bit.
  const bool is_lean = make_lookup || (use == ModelUse::kEvaluation && precision == DType::kF32);
  graph_.prepare(context, max_rows, precision,
                 is_lean ? Graph::Purpose::kInference : Graph::Purpose::kTraining);
}

std::vector<Model::LookupInput> Model::lookup_inputs() const {
  std::vector<LookupInput> inputs;
  for (const Embeddings& embeddings : embeddings_)
    inputs.push_back({embeddings.node, embeddings.sparse_index, embeddings.feature_tables});
  return inputs;
}

void Model::add_embeddings(const Context& context, const config::PipelineConfig& config,
                           const LookupPlan& plan, TableFamily family,
                           const MakeLookup& make_elsewhere, ModelUse use) {
  if (plan.features.empty()) return;
  const TablePlan tables = plan_tables(config, plan, family, use);
  Embeddings& added = embeddings_.emplace_back();
  added.node = plan.node;
  for (size_t i = 0; i < tables.uses.size(); ++i) {
    added.sparse_index.push_back(tables.uses[i].sparse_index);
    added.feature_names.push_back(plan.features[i].feature->name);
    added.table_names.push_back(tables.tables[static_cast<size_t>(tables.uses[i].table)].name);
  }
  if (make_elsewhere) {
    added.lookup = make_elsewhere(tables);
    return;
  }
  for (const TableSettings& settings : tables.tables) {
    added.tables.push_back(make_table(context, settings));
  }
  std::vector<LookupFeature> features;
  for (const TableUse& use : tables.uses) {
    Table* table = added.tables[use.table].get();
    features.push_back({table, use.pooling});
    added.feature_tables.push_back(table);
  }
  added.lookup = make_lookup(context, features, tables.lookup);
}

void Model::Embeddings::pick(const ModelBatch& batch, std::vector<FeatureKeys>& to) const {
  to.clear();
  for (const int64_t index : sparse_index) to.push_back(batch.sparse[static_cast<size_t>(index)]);
}

void Model::forward(const Context& context, const ModelBatch& batch, Phase phase, uint64_t draw) {
  clock_.begin(context, "lookup");
  graph_.set_rows(batch.rows);
  if (dense_.id >= 0) feed(context, "numeric values", batch.dense, graph_.value(dense_));
  const bool has_targets = phase == Phase::kTrain || batch.labels.size() > 0;
  if (has_targets) feed(context, "labels", batch.labels, graph_.value(label_));
  if (has_targets && weights_.id >= 0)
    feed(context, "sample weights", batch.weights, graph_.value(weights_));
  for (Embeddings& embeddings : embeddings_) {
    embeddings.pick(batch, embeddings.keys);
    embeddings.lookup->forward(context, embeddings.keys, phase, graph_.matrix(embeddings.node));
  }
  clock_.end(context, stages_.lookup);
  clock_.begin(context, "dense forward");
  graph_.forward(context, phase, draw);
  clock_.end(context, stages_.forward);
}

void Model::prefetch(const Context& context, const ModelBatch& next) {
  for (Embeddings& embeddings : embeddings_) {
    embeddings.pick(next, embeddings.coming_keys);
    embeddings.lookup->prefetch(context, embeddings.coming_keys);
  }
}

void Model::backward(const Context& context) {
  clock_.begin(context, "dense backward");
  graph_.backward(context);
  clock_.end(context, stages_.backward);
}

double Model::squared_embedding_gradient_norm(const Context& context) {
  double sum = 0.0;
  for (Embeddings& embeddings : embeddings_) {
    sum +=
        embeddings.lookup->squared_gradient_norm(context, graph_.gradient_matrix(embeddings.node));
  }
  return sum;
}

void Model::update_embeddings(const Context& context, float scale, float learning_rate,
                              int64_t step) {
  clock_.begin(context, "update");
  for (Embeddings& embeddings : embeddings_) {
    embeddings.lookup->backward(context, graph_.gradient_matrix(embeddings.node), scale,
                                learning_rate, step);
  }
  clock_.end(context, stages_.update);
}

void Model::check(const Context& context) {
  for (Embeddings& embeddings : embeddings_) embeddings.lookup->check(context);
}

std::vector<FeatureLookups> Model::take_lookup_counts(const Context& context) {
  std::vector<FeatureLookups> found;
  for (Embeddings& embeddings : embeddings_) {
    if (embeddings.lookup == nullptr)
      throw Error(ErrorCode::kUnsupported, cat(name_, ": this model counts no lookups"));
    const std::vector<LookupCounts> counts = embeddings.lookup->take_counts(context);
    for (size_t f = 0; f < counts.size(); ++f) {
      const std::string &feature = embeddings.feature_names[f], &table = embeddings.table_names[f];
      // A feature of several groups has the same keys in each of them.
      const bool again = std::any_of(found.begin(), found.end(), [&](const FeatureLookups& other) {
        return other.feature == feature && other.table == table;
      });
      if (!again) found.push_back({feature, table, counts[f]});
    }
  }
  return found;
}

View<const float> Model::logits() { return graph_.value(logits_); }

std::vector<Table*> Model::tables() const {
  std::vector<Table*> tables;
  for (const Embeddings& embeddings : embeddings_) {
    for (const auto& table : embeddings.tables) tables.push_back(table.get());
  }
  return tables;
}

std::string Model::describe() const {
  int64_t parameters = 0;
  for (const Parameter& parameter : graph_.parameter_list())
    parameters += parameter.rows * parameter.cols;
  int64_t rows = 0, bytes = 0;
  for (const Table* table : tables()) {
    rows += table->size();
    bytes += table->bytes();
  }
  return cat(name_, ": ", format_count(static_cast<double>(parameters)), " dense parameters, ",
             tables().size(), " tables with ", format_count(static_cast<double>(rows)), " rows (",
             format_bytes(static_cast<double>(bytes)), ")");
}

}  // namespace emblem
