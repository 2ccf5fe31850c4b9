#include "data/feature/column_types.h"

#include <algorithm>
#include <optional>

#include "core/log.h"
#include "data/feature/column_requests.h"
#include "data/format/columnar_decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Whether an integer and its text have different keys.
bool depends_on_type(const FeatureSpec& feature, const Semantics& semantics) {
  const FeatureSettings& settings = feature.settings;
  if (feature.kind != FeatureKind::kSparse || feature.is_intermediate) return false;
  if (settings.zch) return false;
  return settings.dynamicemb.has_value() || (settings.hash_bucket_size && !semantics.fg_hash);
}

// The request of the column whose values are those of `feature`; none where they are computed.
std::optional<ColumnRequest> column_of(const FeatureSpec& feature, const FeatureLayout& layout,
                                       const config::DataConfig& data) {
  const FeatureSpec* from = &feature;
  while (from->inputs.size() == 1 && operator_of(*from, layout.semantics) == nullptr) {
    const FeatureInput& input = from->inputs[0];
    if (input.source == FeatureInput::Source::kColumn)
      return request_for_input(*from, 0, nullptr, layout.semantics, data);
    if (input.source != FeatureInput::Source::kFeature) break;
    from = &layout.find(input.name);
  }
  return std::nullopt;
}

// Of the columns that may be read as text or as integers; one that is always a number is not.
std::vector<ColumnRequest> requests_of_ids(const config::DataConfig& data,
                                           const FeatureLayout& layout) {
  std::vector<ColumnRequest> requests;
  if (layout.semantics.fg_mode == config::FG_NONE || !reads_as_requested(data.dataset_type()))
    return requests;
  for (const FeatureSpec& feature : layout.features) {
    if (!depends_on_type(feature, layout.semantics)) continue;
    const auto request = column_of(feature, layout, data);
    if (request && request->type != ColumnType::kFloat) requests.push_back(*request);
  }
  return requests;
}

bool is_recorded(const config::DataConfig& data, const std::string& column) {
  return std::any_of(data.column_types().begin(), data.column_types().end(),
                     [&](const config::Field& field) { return field.input_name() == column; });
}

bool has_types(const config::DataConfig& data) {
  return is_columnar(data.dataset_type()) || (data.dataset_type() == config::KafkaDataset &&
                                              data.stream_format() == config::ARROW_BATCH);
}

}  // namespace

void record_column_types(const FeatureLayout& features, LabelCheck labels,
                         const std::vector<ColumnSpec>& columns, config::DataConfig* data) {
  if (columns.empty()) return;
  const std::vector<ColumnRequest> all = columns_needed(*data, features, labels);
  for (const ColumnRequest& request : requests_of_ids(*data, features)) {
    if (is_recorded(*data, request.name)) continue;
    const int at = position_of(request, all, data->dataset_type());
    const bool is_text = columns[static_cast<size_t>(at)].type == ColumnType::kText;
    config::Field* field = data->add_column_types();
    field->set_input_name(request.name);
    field->set_input_type(is_text ? config::STRING : config::INT64);
  }
}

std::vector<std::string> columns_of_unknown_type(const config::DataConfig& data,
                                                 const FeatureLayout& features) {
  std::vector<std::string> names;
  if (!has_types(data)) return names;
  for (const ColumnRequest& request : requests_of_ids(data, features)) {
    const bool is_known = request.type == ColumnType::kInt64 || is_recorded(data, request.name);
    if (!is_known && std::find(names.begin(), names.end(), request.name) == names.end())
      names.push_back(request.name);
  }
  return names;
}

void warn_of_unknown_types(const std::string& model, const config::DataConfig& data,
                           const FeatureLayout& features) {
  for (const std::string& column : columns_of_unknown_type(data, features))
    log_warn(cat(model, " does not say whether column ", in_quotes(column),
                 " had integers or text in training; requests give it as text, which does not find "
                 "rows of integers: continue the training with --resume, which records the type"));
}

}  // namespace emblem
