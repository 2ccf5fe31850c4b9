// model/lookup/model_lookup.h - a lookup of a model: its tables, and the way of its rows into the
// nodes of the graph and of their gradients back.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "embedding/lookup.h"
#include "embedding/table.h"
#include "model/lookup/lookup_groups.h"
#include "model/lookup/table_config.h"
#include "model/model_batch.h"
#include "nn/graph.h"

namespace emblem {

// Makes the lookup over these tables, one feature per use.
using MakeLookup = std::function<std::unique_ptr<Lookup>(const LookupTables&)>;

// Tables of which other ranks have a part, and the lookup over all of them.
struct RankTables {
  std::vector<std::unique_ptr<Table>> tables;  // in the order of LookupTables
  std::unique_ptr<Lookup> lookup;              // takes the features of several shards
  bool notes_absent = false;                   // whether it fills FeatureKeys::absent
};
using MakeRankTables = std::function<RankTables(const LookupTables&)>;

// The values of a feature that were looked up in a table.
struct FeatureLookups {
  std::string feature, table;
  LookupCounts counts;
};

// Used by one thread at a time.
class ModelLookup {
 public:
  // Owns its tables unless `make_elsewhere` looks up elsewhere. `make_rank_tables`, where given,
  // makes them. `group` has its nodes.
  ModelLookup(const Context& context, const config::PipelineConfig& config,
              const LookupGroup& group, const MakeLookup& make_elsewhere, ModelUse use,
              const MakeRankTables& make_rank_tables);

  // Called after set_rows and set_elements of the graph. The batch must outlive backward.
  void forward(const Context& context, Graph& graph, const ModelBatch& batch, Phase phase);
  // A batch in shards (Model::lookup_shards). squared_gradient_norm and backward then take what was
  // kept.
  void forward_shards(const Context& context, std::span<const ModelBatch* const> shards,
                      Phase phase);
  void prefetch(const Context& context, std::span<const ModelBatch* const> shards);
  void feed_shard(const Context& context, Graph& graph, size_t shard);
  void keep_gradients(const Context& context, Graph& graph, size_t shard);
  void prepare_backward(const Context& context, Graph& graph);
  double squared_gradient_norm(const Context& context, Graph& graph);
  void backward(const Context& context, Graph& graph, const StepScalars& step);
  void check(const Context& context) { lookup_->check(context); }

  bool has_lookup() const { return lookup_ != nullptr; }
  // Counts by feature and table since the last call. Of a stacked lookup (a query and its sequence)
  // of GPU ranks, or whose rows another rank pools, each feature has the counts of all.
  std::vector<FeatureLookups> take_counts(const Context& context);

  const LookupGroup& group() const { return group_; }
  const std::vector<std::unique_ptr<Table>>& tables() const { return tables_; }
  const std::vector<const Table*>& feature_tables() const { return feature_tables_; }

 private:
  // The keys of a batch as the lookup takes them.
  struct Keys {
    std::vector<FeatureKeys> features;
    // For a stacked lookup: all features one after the other.
    Buffer<int64_t> keys;
    Buffer<int32_t> offsets;
    Buffer<float> weights;
    Buffer<uint8_t> absent;
  };
  void pick(const Context& context, const ModelBatch& batch, Keys& to) const;
  void stack(const Context& context, const ModelBatch& batch, Keys& to) const;
  void count_stacked(const Context& context, const ModelBatch& batch, const Keys& keys);
  std::vector<LookupCounts> take_stacked_counts(const Context& context);
  ConstAnyView gradients(const Context& context, Graph& graph);
  // [bags of all features, width] in `memory`.
  AnyView stacked(const Context& context, Graph& graph, Buffer<char>& memory) const;
  // [bags, width] in `memory`, in the type of the graph.
  AnyView room(const Context& context, int64_t bags, Buffer<char>& memory) const;
  // Calls copy(node matrix, bytes into the rows of the shard) for each node that takes rows of it.
  template <class Matrix, class Copy>
  void for_each_node(size_t shard, Matrix&& matrix, Copy&& copy) const;

  LookupGroup group_;
  DType precision_;  // precision of the graph
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<const Table*> feature_tables_;  // table of each feature, if the tables are here
  std::unique_ptr<Lookup> lookup_;            // null: rows come in another way
  bool is_divided_ = false;                   // other ranks have a part of the tables
  bool counts_stacked_ = false;               // features of a stacked lookup apart
  Buffer<int64_t> stacked_counts_;            // [features, 2]: values and missing ones
  Keys keys_, coming_;                        // keys of the last forward and prefetch
  Buffer<char> rows_, row_gradients_;         // [bags, width] of a stacked lookup, or of shards
  std::vector<Keys> shard_keys_;              // keys of the last forward_shards
  std::vector<int64_t> shard_begins_;         // bags before each shard, and all; empty: no shards
};

}  // namespace emblem
