#include "train/predict/progressive.h"

#include "comm/bytes.h"
#include "core/files/byte_io.h"
#include "core/text/text.h"
#include "train/predict/evaluation.h"

namespace emblem {

ProgressiveValidation::ProgressiveValidation(const config::PipelineConfig& config,
                                             const FeatureLayout& layout, const World& world)
    : config_(config),
      layout_(layout),
      world_(world),
      window_rows_(is_kafka_address(config.train_input_path())
                       ? static_cast<int64_t>(config.train_config().progressive_eval_rows())
                       : 0) {
  if (is_on()) begin_window();
}

void ProgressiveValidation::begin_window() {
  metrics_ = evaluated_metrics(config_, layout_);
  rows_ = 0;
}

std::optional<ProgressiveValidation::Window> ProgressiveValidation::add(
    const Context& context, Model& model, std::span<const Shard> shards, int64_t rows) {
  std::vector<const ModelBatch*> batches;
  for (const Shard& shard : shards) batches.push_back(shard.batch);
  model.lookup_shards(context, batches, Phase::kEval);
  for (size_t s = 0; s < shards.size(); ++s) {
    if (shards[s].batch == nullptr) continue;
    model.forward_shard(context, s, *shards[s].batch, Phase::kEval, 0);
    add_metrics(context, model, *shards[s].host);
  }
  rows_ += rows;
  return rows_ >= window_rows_ ? finish() : std::nullopt;
}

void ProgressiveValidation::add_metrics(const Context& context, Model& model, const Batch& host) {
  const auto& logits = logits_.of(context, model, host.rows);
  for (size_t head = 0; head < metrics_.size(); ++head) metrics_[head].add(host, logits[head]);
}

// Rank 0 has the rows of all ranks afterwards.
void ProgressiveValidation::merge_ranks() {
  ByteWriter own;
  if (!world_.writes())
    for (const HeadMetrics& of_head : metrics_) own.add_text(of_head.to_bytes());
  const std::vector<std::string> of_ranks = gather_bytes(*world_.ranks, own.bytes());
  std::vector<HeadMetrics> one = evaluated_metrics(config_, layout_);
  for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
    ByteReader bytes(of_ranks[rank], "the metrics of a rank");
    for (size_t head = 0; head < metrics_.size(); ++head) {
      one[head].restore(bytes.read_text());
      metrics_[head].merge(one[head]);
    }
    bytes.end();
  }
}

std::optional<ProgressiveValidation::Window> ProgressiveValidation::finish() {
  if (rows_ == 0) return std::nullopt;
  merge_ranks();
  if (!world_.writes()) {
    begin_window();
    return std::nullopt;
  }
  Window window{.rows = rows_};
  for (HeadMetrics& of_head : metrics_)
    for (size_t i = 0; i < of_head.names().size(); ++i)
      window.metrics[of_head.names()[i]] = of_head.value(i);
  begin_window();
  return window;
}

}  // namespace emblem
