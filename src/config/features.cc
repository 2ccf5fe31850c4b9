#include "config/features.h"

#include <algorithm>
#include <unordered_set>

#include "config/check_feature.h"
#include "config/feature_expansion.h"
#include "config/feature_inputs.h"
#include "config/labels.h"
#include "config/sequences.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string first_column(const std::vector<FeatureInput>& inputs) {
  for (const FeatureInput& input : inputs)
    if (input.source == FeatureInput::Source::kColumn) return input.name;
  return "";
}

FeatureSpec spec_of(ExpandedFeature feature, const config::PipelineConfig& config,
                    config::FgMode mode) {
  FeatureSpec spec;
  spec.settings = settings_of(feature.config);
  FeatureSettings& settings = spec.settings;
  settings.in_sequence = feature.in_sequence || settings.tokens_as_sequence;
  check_file_name(settings.name, "feature_name");
  check_feature(settings, settings.in_sequence);
  spec.name = settings.name;
  spec.inputs = inputs_of(feature, settings, mode);
  spec.column = first_column(spec.inputs);
  spec.kind = is_sparse(settings) ? FeatureKind::kSparse : FeatureKind::kDense;
  if (spec.kind == FeatureKind::kDense)
    spec.dense_cols = value_dim_of(settings, settings.in_sequence);
  else
    spec.rows = rows_of(settings, settings.in_sequence);
  spec.table_divisor = std::max<int64_t>(1, config.train_config().divide_tables());
  spec.is_intermediate = settings.stub_type;
  if (settings.in_sequence) spec.sequence_delim = settings.sequence_delim;
  spec.config = std::move(feature.config);
  return spec;
}

void place_in_batch(FeatureLayout& layout) {
  for (FeatureSpec& spec : layout.features) {
    if (spec.is_intermediate) continue;
    if (spec.kind == FeatureKind::kSparse) {
      spec.sparse_index = layout.sparse_count++;
    } else if (spec.sequence < 0) {
      spec.dense_begin = layout.dense_cols;
      layout.dense_cols += spec.dense_cols;
    }
  }
}

}  // namespace

FeatureLayout layout_of(const config::PipelineConfig& config) {
  FeatureLayout layout;
  layout.semantics = semantics_of(config);
  layout.labels = labels_of(config);
  layout.weight_fields = weight_fields_of(config);
  std::unordered_set<std::string> names;
  std::vector<std::string> sequence_names;
  for (ExpandedFeature& feature : expand_features(config)) {
    sequence_names.push_back(feature.sequence_name);
    FeatureSpec spec = spec_of(std::move(feature), config, layout.semantics.fg_mode);
    EMBLEM_REQUIRE(names.insert(spec.name).second, "two features are called \"", spec.name,
                   "\"; give one of them another feature_name");
    layout.features.push_back(std::move(spec));
  }
  layout.sequences = lay_out_sequences(config, sequence_names, layout.features);
  place_in_batch(layout);
  return layout;
}

std::string table_name_of(const config::FeatureConfig& feature) {
  const FeatureSettings settings = settings_of(feature);
  return settings.embedding_name.value_or(settings.name + "_emb");
}

int64_t embedding_dim_of(const config::FeatureConfig& feature) {
  return settings_of(feature).embedding_dim;
}

int64_t table_rows(const FeatureSpec& feature) {
  return feature.rows == 0 ? 0 : std::max<int64_t>(1, feature.rows / feature.table_divisor);
}

const FeatureSpec& FeatureLayout::find(const std::string& name) const {
  const auto found = std::find_if(features.begin(), features.end(),
                                  [&](const auto& spec) { return spec.name == name; });
  if (found != features.end()) return *found;
  std::vector<std::string> names;
  for (const FeatureSpec& spec : features) names.push_back(spec.name);
  const auto nearest = nearest_name(name, names);
  throw Error(ErrorCode::kInvalidArgument, cat("there is no feature \"", name, "\"",
                                               nearest ? cat("; did you mean \"", *nearest, "\"?")
                                                       : "; feature_configs lists all features"));
}

}  // namespace emblem
