// train/predict/progressive.h - progressive validation: the rows of a stream are predicted before
// they are trained on, so that metrics are those of the newest data, which the model has not seen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "model/model.h"
#include "train/metrics/head_metrics.h"
#include "train/run/host_logits.h"
#include "train/run/world.h"

namespace emblem {

// Used by one thread.
class ProgressiveValidation {
 public:
  // Validates over windows of train_config.progressive_eval_rows; none with files, and
  // with 0. `config` and `layout` outlive it. Throws Error for a metric that cannot be computed.
  ProgressiveValidation(const config::PipelineConfig& config, const FeatureLayout& layout,
                        const World& world);

  bool is_on() const { return window_rows_ > 0; }

  struct Window {
    int64_t rows = 0;
    std::map<std::string, double> metrics;  // as those of evaluations; NaN where undefined
  };

  // Predicts the batches of this rank's shards, null where there is none, as evaluations do: no new
  // rows, no statistics, no dropout. `rows` are those of all ranks, which call it together. Rank 0
  // returns the window that ends with it. The model counts lookups meanwhile
  // (Model::take_lookup_counts).
  struct Shard {
    const ModelBatch* batch = nullptr;
    const Batch* host = nullptr;
  };
  std::optional<Window> add(const Context& context, Model& model, std::span<const Shard> shards,
                            int64_t rows);

  // The window that is not full yet; nothing when it has no rows. Collective.
  std::optional<Window> finish();

 private:
  void begin_window();
  void add_metrics(const Context& context, Model& model, const Batch& host);
  void merge_ranks();

  const config::PipelineConfig& config_;
  const FeatureLayout& layout_;
  const World world_;
  int64_t window_rows_;
  int64_t rows_ = 0;
  std::vector<HeadMetrics> metrics_;
  HostLogits logits_;
};

}  // namespace emblem
