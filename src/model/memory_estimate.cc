#include "model/memory_estimate.h"

#include "model/builders.h"
#include "model/inputs.h"
#include "model/table_config.h"
#include "model/table_placement.h"
#include "nn/graph.h"

namespace emblem {
namespace {

// A row, its place in the order of rows, and what finds equal ones.
constexpr int64_t kLookupBytesPerKey = 64;
constexpr int64_t kDenseFloats = 4;  // a weight, its gradient, up to two of the optimizer
constexpr int64_t kFloat = sizeof(float);

int64_t table_bytes(const config::PipelineConfig& config, const LookupPlan& plan,
                    TableFamily family) {
  if (plan.features.empty()) return 0;
  int64_t bytes = 0;
  for (const TableSettings& table : plan_tables(config, plan, family).tables)
    bytes += table_bytes_of(table);
  return bytes;
}

}  // namespace

TrainingBytes estimate_training_bytes(const config::PipelineConfig& config,
                                      const FeatureLayout& layout, double keys_per_feature) {
  Graph graph(config.train_config().seed());
  ModelInputs inputs(graph, config, layout, wide_dim_of(config.model_config()));
  build_model(graph, inputs, config.model_config());

  TrainingBytes found;
  found.fixed = table_bytes(config, inputs.deep(), TableFamily::kDeep) +
                table_bytes(config, inputs.wide(), TableFamily::kWide);
  for (const Parameter& parameter : graph.parameter_list())
    found.fixed += parameter.rows * parameter.cols * kDenseFloats * kFloat;

  const auto features =
      static_cast<double>(inputs.deep().features.size() + inputs.wide().features.size());
  const auto keys = static_cast<int64_t>(features * keys_per_feature);
  const int64_t dense = inputs.dense().id >= 0 ? graph.cols(inputs.dense()) : 0;
  found.per_row += 2 * graph.values_per_row() * kFloat;  // and their gradients
  found.per_row += keys * kLookupBytesPerKey;
  found.batch_row = (dense + 2) * kFloat + keys * static_cast<int64_t>(sizeof(int64_t) + 4);
  return found;
}

}  // namespace emblem
