#include "train/progressive.h"

#include "kafka/address.h"
#include "train/evaluation.h"

namespace emblem {

ProgressiveValidation::ProgressiveValidation(const config::PipelineConfig& config,
                                             const FeatureLayout& layout)
    : config_(config),
      layout_(layout),
      window_rows_(is_kafka_address(config.train_input_path())
                       ? static_cast<int64_t>(config.train_config().progressive_eval_rows())
                       : 0) {
  if (is_on()) begin_window();
}

void ProgressiveValidation::begin_window() {
  metrics_ = evaluated_metrics(config_, layout_);
  rows_ = 0;
}

std::optional<ProgressiveValidation::Window> ProgressiveValidation::add(const Context& context,
                                                                        Model& model,
                                                                        const ModelBatch& batch,
                                                                        const Batch& host) {
  model.forward(context, batch, Phase::kEval, 0);
  const auto& logits = logits_.of(context, model, host.rows);
  for (size_t head = 0; head < metrics_.size(); ++head) metrics_[head].add(host, logits[head]);
  rows_ += host.rows;
  return rows_ >= window_rows_ ? finish() : std::nullopt;
}

std::optional<ProgressiveValidation::Window> ProgressiveValidation::finish() {
  if (rows_ == 0) return std::nullopt;
  Window window{.rows = rows_};
  for (HeadMetrics& of_head : metrics_)
    for (size_t i = 0; i < of_head.names().size(); ++i)
      window.metrics[of_head.names()[i]] = of_head.value(i);
  begin_window();
  return window;
}

}  // namespace emblem
