#include "data/feature/column_requests.h"

#include <optional>

#include "data/format/text/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

template <class Fields>
std::optional<config::FieldType> field_type_in(const Fields& fields, const std::string& column) {
  for (const auto& field : fields)
    if (field.input_name() == column && field.has_input_type()) return field.input_type();
  return std::nullopt;
}

template <class Fields>
std::optional<ColumnType> type_in(const Fields& fields, const std::string& column) {
  const auto type = field_type_in(fields, column);
  return type ? std::optional(type_of(*type)) : std::nullopt;
}

// Ids are integers where that is declared, or was so in training. Else they are text, but integers
// in files that have types, unless they were text in training.
void request_ids(const config::DataConfig& data, ColumnRequest& request) {
  const auto recorded = type_in(data.column_types(), request.name);
  const auto type = recorded ? recorded : type_in(data.input_fields(), request.name);
  request.type = type == ColumnType::kInt64 ? ColumnType::kInt64 : ColumnType::kText;
  request.numbers_as_text = recorded == ColumnType::kText;
}

// Under FG_NONE: ids and numbers as they are.
void request_encoded(const FeatureSpec& feature, const config::DataConfig& data,
                     ColumnRequest& request) {
  if (feature.kind == FeatureKind::kSparse) {
    request.type = ColumnType::kInt64;
    request.separators = data.fg_encoded_multival_sep();
    request.weighted = feature.settings.weighted;
    request.advice =
        "fg_mode FG_NONE takes ids as they are; set data_config { fg_mode: FG_DAG } for text to be "
        "hashed and numbers to be put into buckets";
    return;
  }
  if (value_dim_of(feature.settings, feature.sequence >= 0) > 1)
    request.separators = data.fg_encoded_multival_sep();
  request.na_is_missing = true;
}

// Numbers: of raw features, and under FG_BUCKETIZE of others whose values are numbers.
bool reads_numbers(const FeatureSpec& feature) {
  return feature.settings.type == FeatureType::kRaw || feature.kind == FeatureKind::kDense ||
         !feature.settings.boundaries.empty();
}

void request_values(const FeatureSpec& feature, const config::DataConfig& data,
                    ColumnRequest& request) {
  const FeatureSettings& settings = feature.settings;
  const std::string separators = settings.separator + data.fg_encoded_multival_sep();
  if (reads_numbers(feature)) {
    if (value_dim_of(settings, feature.sequence >= 0) != 1) request.separators = separators;
    request.na_is_missing = true;
    request.number_form = {settings.number_format, settings.date_part, settings.day_first,
                           settings.na_strings};
    // Amounts and dates are the same numbers in any spelling and unit.
    if (!request.number_form.is_plain()) request.trained = {};
    return;
  }
  if (settings.num_buckets)
    request.type = ColumnType::kInt64;
  else
    request_ids(data, request);
  request.separators = separators;
  request.weighted = settings.weighted;
  request.codes = request.type == ColumnType::kText && !settings.weighted;
  if (settings.num_buckets)
    request.advice = "text needs hash_bucket_size or dynamicemb in place of num_buckets";
}

}  // namespace

TrainedValues trained_values_of(const config::DataConfig& data, const std::string& column) {
  for (const config::TrainedColumn& field : data.column_types()) {
    if (field.input_name() != column || !field.has_kind()) continue;
    return {value_type_named(field.kind()), spelling_named(field.spelling())};
  }
  return {};
}

bool reads_as_requested(config::DatasetType type) {
  switch (type) {
    case config::CsvDataset:
    case config::ParquetDataset:
    case config::OrcDataset:
    case config::ArrowDataset:
    case config::KafkaDataset:
      return true;
    default:
      return false;
  }
}

int position_of(const ColumnRequest& wanted, const std::vector<ColumnRequest>& requests,
                config::DatasetType type) {
  // Two requests for one column differ only where the request says how values are read.
  for (size_t i = 0; i < requests.size(); ++i) {
    if (reads_as_requested(type) ? requests[i] == wanted : requests[i].name == wanted.name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::unique_ptr<FgOperator> operator_of(const FeatureSpec& feature, const Semantics& semantics) {
  const bool computed =
      semantics.fg_mode == config::FG_NONE || semantics.fg_mode == config::FG_BUCKETIZE;
  return computed ? nullptr : make_operator(feature);
}

ColumnRequest request_for_input(const FeatureSpec& feature, size_t input,
                                const FgOperator* operation, const Semantics& semantics,
                                const config::DataConfig& data) {
  const FeatureInput& from = feature.inputs[input];
  ColumnRequest request{.name = from.name};
  request.trained = trained_values_of(data, from.name);
  if (from.is_sequence) request.sequence_delim = feature.sequence_delim;
  if (operation != nullptr) {
    const FgInput& wanted = operation->inputs()[input];
    request.type = wanted.type;
    request.separators = wanted.separators;
    request.na_is_missing = wanted.type == ColumnType::kFloat;
    return request;
  }
  if (semantics.fg_mode == config::FG_NONE)
    request_encoded(feature, data, request);
  else
    request_values(feature, data, request);
  return request;
}

std::vector<ColumnRequest> columns_needed(const config::DataConfig& data,
                                          const FeatureLayout& features, LabelCheck labels) {
  std::vector<ColumnRequest> requests;
  const auto need = [&](ColumnRequest request) {
    request.declared = field_type_in(data.input_fields(), request.name);
    const int at = position_of(request, requests, data.dataset_type());
    if (at < 0) {
      requests.push_back(request);
    } else if (!request.codes) {
      requests[static_cast<size_t>(at)].codes = false;
    }
  };
  if (labels != LabelCheck::kIgnore) {
    for (const LabelSpec& label : features.labels) need(request_for_label(label, data));
    for (const std::string& name : features.weight_fields) need(request_for_weight(name));
  }
  for (const FeatureSpec& feature : features.features) {
    if (feature.inputs.empty()) continue;
    const auto operation = operator_of(feature, features.semantics);
    for (size_t i = 0; i < feature.inputs.size(); ++i) {
      if (feature.inputs[i].source == FeatureInput::Source::kColumn)
        need(request_for_input(feature, i, operation.get(), features.semantics, data));
    }
  }
  return requests;
}

}  // namespace emblem
