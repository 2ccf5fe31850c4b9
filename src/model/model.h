// model/model.h - a recommender: a graph of layers over embedding lookups.
//
// Thread-compatible: one thread runs it at a time; it uses the threads of the context.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/phase.h"
#include "core/system/stage_clock.h"
#include "embedding/lookup.h"
#include "embedding/table.h"
#include "model/layers/heads.h"
#include "model/lookup/model_lookup.h"
#include "model/lookup/table_config.h"
#include "model/model_batch.h"
#include "nn/graph.h"

namespace emblem {

// The type of values between layers: on a CPU fp32 for models of any precision.
DType precision_of(const Context& context, const config::TrainConfig& config);
// What layers compute in: bf16 on CPUs too, whereas FP16 models run there in fp32. INT8 models,
// which exist for inference only, run in fp32 on a GPU.
DType compute_type_of(const Context& context, const config::TrainConfig& config);
// The name of a type in train_config.mixed_precision.
constexpr const char* mixed_precision_of(DType type) {
  constexpr const char* kNames[] = {"FP32", "FP16", "BF16", "INT8"};
  return kNames[static_cast<size_t>(type)];
}

// Seconds that the parts of a step took; summed until cleared.
struct StageSeconds {
  double lookup = 0, forward = 0, backward = 0, update = 0;
  double dense_update = 0;  // by who trains the model
};

class Model {
 public:
  // Builds the model on the context's device, for batches of up to max_rows. `config` has passed
  // check_pipeline. The model owns its tables unless `make_lookup` looks up elsewhere; it then has
  // none and only forward in Phase::kEval works, or, where `make_lookup` gives null, not even that:
  // the rows come in another way. With ModelUse::kEvaluation, too, only forward in Phase::kEval
  // works.
  // Throws kCorruption, before there is memory for them, where the layers have more than
  // `most_weights` weights.
  // With `make_rank_tables` the tables are a rank's part, and passes take part in those of others.
  Model(const Context& context, const config::PipelineConfig& config, const FeatureLayout& layout,
        int64_t max_rows, const MakeLookup& make_lookup = nullptr,
        ModelUse use = ModelUse::kTraining, const MakeRankTables& make_rank_tables = nullptr,
        int64_t most_weights = INT64_MAX);

  // Looks up and runs the graph. `draw` numbers the batch for dropout.
  void forward(const Context& context, const ModelBatch& batch, Phase phase, uint64_t draw);
  // Gradients of the last training forward.
  void backward(const Context& context);

  // A step of a batch that is cut into shards, which may have no rows (null): looks up the rows of
  // all of them, together with other ranks; then each shard is run. The rows of a single shard are
  // looked up when it is run, into the place that the graph takes them from. A model whose tables
  // no other rank has a part of takes one shard.
  void lookup_shards(const Context& context, std::span<const ModelBatch* const> shards,
                     Phase phase);
  void forward_shard(const Context& context, size_t shard, const ModelBatch& batch, Phase phase,
                     uint64_t draw);
  // Between forward and backward of a step: says which shards the next step will learn, so that
  // rows of them that are in host memory may come to the GPU. They must stay until then. Null: not
  // known. Not collective.
  void prefetch(const Context& context, std::span<const ModelBatch* const> next);
  // After the backward of a shard: update_embeddings will take its gradients.
  void keep_embedding_gradients(const Context& context, size_t shard);
  // After backward: limits each of the embeddings' gradients to [-most, most].
  void clip_embedding_gradients(const Context& context, float most);
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

  // What it predicts, in the order of its towers; at least one.
  const std::vector<Head>& heads() const { return heads_; }
  // Logits of the last forward, on the model's device: [rows, domains * classes]. Not for a
  // head that is in training only.
  View<const float> logits(size_t head = 0);
  double loss(const Context& context) const { return graph_.loss(context); }
  // Its summands, in the order of loss_names(): LOSS_TOWER, or LOSS of a model with one head.
  std::vector<double> losses(const Context& context) const { return graph_.losses(context); }
  std::vector<std::string> loss_names() const { return graph_.loss_names(); }

  Graph& graph() { return graph_; }
  // Nodes for callers that run the graph in another way; id -1: there is none.
  Node dense_node() const { return dense_; }
  Node logits_node() const { return heads_[0].logits; }
  // For each of ModelBatch::sparse: the one of ModelBatch::sequences whose elements have its
  // keys, or -1.
  const std::vector<int64_t>& sequence_of_feature() const { return sequence_of_feature_; }
  // The input of a lookup, the positions of its features in ModelBatch::sparse, and their tables,
  // if the model owns them. Of a stacked lookup: the node of its first feature.
  struct LookupInput {
    Node node;
    int64_t sequence = -1;  // its bags are elements of this one of ModelBatch::sequences; -1: rows
    bool is_stacked = false;
    std::vector<int64_t> sparse_index;
    std::vector<int64_t> dims;
    std::vector<const Table*> tables;
  };
  std::vector<LookupInput> lookup_inputs() const;
  std::vector<Table*> tables() const;
  std::string name() const { return name_; }
  // Times of stages. On a GPU: once the clock has been switched on, and up to the last
  // collect.
  StageSeconds& stages() { return stages_; }
  StageClock& stage_clock() { return clock_; }

 private:
  // What a sequence of a batch fills.
  struct SequenceInput {
    size_t index = 0;  // in ModelBatch::sequences
    Space space;
    Node numbers;  // id -1: none
  };
  void feed(const Context& context, const ModelBatch& batch, Phase phase);
  void run_forward(const Context& context, Phase phase, uint64_t draw);
  void feed_values(const Context& context, const ModelBatch& batch);
  void feed_targets(const Context& context, const ModelBatch& batch, Phase phase);

  std::string name_;
  Graph graph_;
  Node dense_, labels_, weights_;
  std::vector<SequenceInput> sequences_;
  std::map<int64_t, Node> ids_;  // by position in ModelBatch::sparse
  int64_t missing_id_ = 0;
  Node candidate_logs_, candidate_of_;
  std::vector<int64_t> sequence_of_feature_;
  std::vector<Head> heads_;
  std::vector<ModelLookup> lookups_;
  bool looks_up_when_run_ = false;  // the single shard of the last lookup_shards
  StageSeconds stages_;
  StageClock clock_;
};

}  // namespace emblem
