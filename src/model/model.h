// model/model.h - a recommender: a graph of layers over embedding lookups.
//
// Thread-compatible: one thread runs it at a time; it uses the threads of the context.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "core/phase.h"
#include "core/stage_clock.h"
#include "embedding/lookup.h"
#include "embedding/table.h"
#include "model/table_config.h"
#include "nn/graph.h"

namespace emblem {

// A batch as the model sees it; the memory is the caller's, on the model's device, and must outlive
// backward.
struct ModelBatch {
  int64_t rows = 0;
  View<const float> dense;              // [rows, dense columns]
  View<const float> labels;             // [rows, 1]; empty: the loss means nothing
  View<const float> weights;            // [rows, 1] or empty
  std::span<const FeatureKeys> sparse;  // by FeatureSpec::sparse_index
};

// What a model is computed in there: a CPU knows fp32 only, and runs models of any precision in it.
DType precision_of(const Context& context, const config::TrainConfig& config);

// Seconds that the parts of a step took; summed until cleared.
struct StageSeconds {
  double lookup = 0, forward = 0, backward = 0, update = 0;
  double dense_update = 0;  // by who trains the model
};

// The values of a feature that were looked up in a table.
struct FeatureLookups {
  std::string feature, table;
  LookupCounts counts;
};

// Makes the lookup over the tables of a plan, one feature a use.
using MakeLookup = std::function<std::unique_ptr<Lookup>(const TablePlan&)>;

class Model {
 public:
  // Builds the model on the context's device, for batches of up to max_rows. `config` has passed
  // check_pipeline. The model owns its tables unless `make_lookup` looks up elsewhere; it then has
  // none and only forward in Phase::kEval works, or, where `make_lookup` gives null, not even that:
  // the rows come in another way. With ModelUse::kEvaluation, too, only forward in Phase::kEval
  // works.
  Model(const Context& context, const config::PipelineConfig& config, const FeatureLayout& layout,
        int64_t max_rows, const MakeLookup& make_lookup = nullptr,
        ModelUse use = ModelUse::kTraining);

  // Looks up and runs the graph. `draw` numbers the batch for dropout.
  void forward(const Context& context, const ModelBatch& batch, Phase phase, uint64_t draw);
  // Between forward and backward of a step: says which batch the next step will learn, so that
  // rows of it that are in host memory may come to the GPU. It must stay until then.
  void prefetch(const Context& context, const ModelBatch& next);
  // Gradients of the last training forward.
  void backward(const Context& context);
  // Squared norm of the embeddings' gradients after backward.
  double squared_embedding_gradient_norm(const Context& context);
  // Updates the rows of the last training forward by their gradients times `scale`.
  void update_embeddings(const Context& context, float scale, float learning_rate, int64_t step);

  // Waits, and throws what went wrong in lookups that run on a GPU and could not say so themselves.
  void check(const Context& context);

  // What forward looked up since the last call: one entry for each table that a feature reads, in
  // the order of features (a feature may read a deep table and a wide one). Waits for a GPU. Throws
  // kUnsupported where the model has no lookup because rows come in another way.
  std::vector<FeatureLookups> take_lookup_counts(const Context& context);

  View<const float> logits();  // [rows, 1] of the last forward, on the model's device
  double loss(const Context& context) const { return graph_.loss(context); }

  Graph& graph() { return graph_; }
  // Who runs the graph in another way needs its nodes; id -1: there is none.
  Node dense_node() const { return dense_; }
  Node logits_node() const { return logits_; }
  // The input of a lookup, the positions of its features in ModelBatch::sparse, and their tables,
  // if the model owns them.
  struct LookupInput {
    Node node;
    std::vector<int64_t> sparse_index;
    std::vector<const Table*> tables;
  };
  std::vector<LookupInput> lookup_inputs() const;
  std::vector<Table*> tables() const;
  std::string name() const { return name_; }
  std::string describe() const;  // layers, parameters, tables
  // On a GPU: once the clock has been switched on, and up to the last collect.
  StageSeconds& stages() { return stages_; }
  StageClock& stage_clock() { return clock_; }

 private:
  // The lookup of one family of tables and the node that takes its output.
  struct Embeddings {
    Node node;
    std::vector<std::unique_ptr<Table>> tables;
    std::vector<int64_t> sparse_index;
    std::vector<const Table*> feature_tables;
    std::vector<std::string> feature_names, table_names;  // of each feature of the lookup
    std::unique_ptr<Lookup> lookup;
    std::vector<FeatureKeys> keys;         // of the last forward
    std::vector<FeatureKeys> coming_keys;  // of the last prefetch

    void pick(const ModelBatch& batch, std::vector<FeatureKeys>& to) const;
  };
  void add_embeddings(const Context& context, const config::PipelineConfig& config,
                      const LookupPlan& plan, TableFamily family, const MakeLookup& make_lookup,
                      ModelUse use);

  std::string name_;
  Graph graph_;
  Node dense_, label_, weights_, logits_;
  std::vector<Embeddings> embeddings_;
  StageSeconds stages_;
  StageClock clock_;
};

}  // namespace emblem
