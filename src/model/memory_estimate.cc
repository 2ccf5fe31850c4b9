#include "model/memory_estimate.h"

#include <iterator>

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

int64_t table_bytes(const config::PipelineConfig& config, const LookupPlan& plan) {
  int64_t bytes = 0;
  for (const TableSettings& table : plan_tables(config, plan).tables)
    bytes += table_bytes_of(table);
  return bytes;
}

// Elements of a row of a sequence, where the pipeline does not limit them.
constexpr int64_t kElementsOfARow = 50;

int64_t elements_of_a_row(const SequenceSpec& sequence) {
  return sequence.max_length > 0 ? sequence.max_length : kElementsOfARow;
}

// Of a row of the batch, in all lookups.
int64_t keys_of_a_row(const ModelInputs& inputs, double keys_per_feature) {
  double keys = 0;
  for (const LookupPlan& plan : inputs.lookups()) {
    for (const PlannedFeature& planned : plan.features) {
      const int64_t sequence = planned.feature->sequence;
      keys += sequence < 0 ? keys_per_feature
                           : static_cast<double>(elements_of_a_row(
                                 inputs.layout().sequences[static_cast<size_t>(sequence)]));
    }
  }
  return static_cast<int64_t>(keys);
}

}  // namespace

TrainingBytes estimate_training_bytes(const config::PipelineConfig& config,
                                      const FeatureLayout& layout, double keys_per_feature) {
  Graph graph(config.train_config().seed());
  ModelInputs inputs(graph, config, layout, wide_dim_of(config.model_config()));
  build_model(graph, inputs);

  TrainingBytes found;
  for (const LookupPlan& plan : inputs.lookups()) found.fixed += table_bytes(config, plan);
  for (const Parameter& parameter : graph.parameter_list())
    found.fixed += parameter.rows * parameter.cols * kDenseFloats * kFloat;

  const int64_t keys = keys_of_a_row(inputs, keys_per_feature);
  int64_t numbers = layout.dense_cols, values = graph.values_per_row();
  for (size_t s = 0; s < layout.sequences.size(); ++s) {
    const SequenceSpec& sequence = layout.sequences[s];
    numbers += elements_of_a_row(sequence) * sequence.dense_cols + 1;  // and an offset
    const Space space = inputs.sequence_spaces()[s];
    if (space.id > 0) values += elements_of_a_row(sequence) * graph.values_per_element(space);
  }
  numbers += std::ssize(layout.labels) + std::ssize(layout.weight_fields) + 1;
  found.per_row += 2 * values * kFloat;  // and their gradients
  found.per_row += keys * kLookupBytesPerKey;
  found.batch_row = numbers * kFloat + keys * static_cast<int64_t>(sizeof(int64_t) + 4);
  return found;
}

}  // namespace emblem
