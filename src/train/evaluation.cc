#include "train/evaluation.h"

#include <chrono>

#include "core/host_copy.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "core/text.h"
#include "model/probability.h"
#include "train/batch_stream.h"
#include "train/metrics/metrics.h"

namespace emblem {
namespace {

// The group of each row: the first key of the grouping feature, 0 where it has none.
void take_groups(const SparseColumn& column, int64_t rows, std::vector<int64_t>& groups) {
  groups.resize(rows);
  for (int64_t row = 0; row < rows; ++row) {
    if (column.offsets.empty())
      groups[row] = column.keys[row];
    else
      groups[row] =
          column.offsets[row] < column.offsets[row + 1] ? column.keys[column.offsets[row]] : 0;
  }
}

}  // namespace

double Evaluation::at(const std::string& metric) const {
  const auto found = metrics.find(metric);
  if (found != metrics.end()) return found->second;
  std::string names;
  for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::kInvalidArgument, cat("metric \"", metric, "\" is not evaluated, but ",
                                               names, "; add it to model_config.metrics"));
}

bool for_each_prediction(const Context& context, Model& model, const config::PipelineConfig& config,
                         const FeatureLayout& layout, const LoaderOptions& options,
                         const std::string& title,
                         const std::function<void(const Batch&, View<const float> logits)>& take) {
  const auto own_memory = options.memory == nullptr ? batch_memory(context) : nullptr;
  LoaderOptions loading = options;
  if (own_memory) loading.memory = own_memory.get();
  Loader loader(config.data_config(), layout, loading);
  BatchStream batches(context, batches_of(loader));
  Progress progress(title, loader.expected_rows());
  progress.update(0);
  int64_t rows = 0;
  while (batches.next()) {
    if (interrupted()) return false;
    const Batch& batch = batches.host();
    model.forward(context, batches.batch(), Phase::kEval, 0);
    batches.look_ahead();
    const std::vector<float> logits = to_host(context, model.logits());
    take(batch, {logits.data(), batch.rows, 1});
    rows += batch.rows;
    progress.set_total(loader.expected_rows());
    progress.update(rows);
  }
  model.check(context);
  progress.set_total(loader.expected_rows());
  progress.finish();
  return true;
}

void check_metrics(const config::PipelineConfig& config, const FeatureLayout& layout) {
  make_metrics(config.model_config());
  if (const auto grouping = grouping_key(config.model_config())) {
    EMBLEM_REQUIRE(layout.find(*grouping).kind == FeatureKind::kSparse, "metric grouped_auc has ",
                   "grouping_key \"", *grouping,
                   "\", which is a numeric feature; group by an id_feature");
  }
}

std::optional<Evaluation> evaluate(const Context& context, Model& model,
                                   const config::PipelineConfig& config,
                                   const FeatureLayout& layout, const LoaderOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  auto metrics = make_metrics(config.model_config());
  const auto grouping = grouping_key(config.model_config());
  LoaderOptions limited = options;
  if (config.eval_config().has_num_steps()) limited.max_batches = config.eval_config().num_steps();
  Evaluation result;
  std::vector<float> predictions;
  std::vector<int64_t> groups;
  const auto take = [&](const Batch& batch, View<const float> logits) {
    const auto rows = static_cast<size_t>(batch.rows);
    predictions.resize(rows);
    for (size_t row = 0; row < rows; ++row) predictions[row] = probability_of(logits.data[row]);
    if (grouping)
      take_groups(batch.sparse[layout.find(*grouping).sparse_index], batch.rows, groups);
    const MetricBatch view{.predictions = predictions,
                           .labels = {batch.labels.data(), batch.labels.size()},
                           .logits = {logits.data, rows},
                           .weights = {batch.sample_weights.data(), batch.sample_weights.size()},
                           .groups = groups};
    for (auto& metric : metrics) metric->add(view);
    result.rows += batch.rows;
  };
  if (!for_each_prediction(context, model, config, layout, limited, "evaluating", take))
    return std::nullopt;
  EMBLEM_REQUIRE(result.rows > 0, "no rows to evaluate in ", options.input);
  for (auto& metric : metrics) result.metrics[metric->name()] = metric->value();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string to_text(const Evaluation& evaluation) {
  std::string text;
  for (const auto& [name, value] : evaluation.metrics) {
    text += (text.empty() ? "" : "  ") + name + " " + format_metric(value);
  }
  return text;
}

}  // namespace emblem
