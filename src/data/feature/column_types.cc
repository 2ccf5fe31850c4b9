#include "data/feature/column_types.h"

#include <algorithm>
#include <optional>

#include "core/system/log.h"
#include "data/feature/bags.h"
#include "data/feature/column_requests.h"
#include "data/format/columnar/columnar_decoder.h"
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

// Requests of the columns that may be read as text or as integers; a column that is always a
// number is not among them.
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

config::TrainedColumn* find_record(config::DataConfig* data, const std::string& column) {
  for (config::TrainedColumn& record : *data->mutable_column_types())
    if (record.input_name() == column) return &record;
  return nullptr;
}

config::TrainedColumn* find_or_add_record(config::DataConfig* data, const std::string& column) {
  if (config::TrainedColumn* found = find_record(data, column)) return found;
  config::TrainedColumn* record = data->add_column_types();
  record->set_input_name(column);
  return record;
}

bool has_recorded_type(const config::DataConfig& data, const std::string& column) {
  return std::any_of(data.column_types().begin(), data.column_types().end(),
                     [&](const config::TrainedColumn& record) {
                       return record.input_name() == column && record.has_input_type();
                     });
}

bool is_label_or_weight(const FeatureLayout& features, const std::string& column) {
  const auto is_it = [&](const LabelSpec& label) { return label.name == column; };
  return std::any_of(features.labels.begin(), features.labels.end(), is_it) ||
         std::find(features.weight_fields.begin(), features.weight_fields.end(), column) !=
             features.weight_fields.end();
}

// What the values are, where that is worth a record: numbers are the same from all columns.
ValueType kind_worth_a_record(const ColumnRequest& request, const ColumnSpec& column,
                              const config::DataConfig& data) {
  ValueType type = column.values;
  if (type.kind == ValueKind::kUnknown && !is_columnar(data.dataset_type()) &&
      column.type == ColumnType::kText)
    type.kind = ValueKind::kText;
  const bool has_words = type.kind == ValueKind::kBool || type.is_temporal();
  return request.type == ColumnType::kFloat && !has_words ? ValueType{} : type;
}

void record_kinds(const FeatureLayout& features, const std::vector<ColumnRequest>& requests,
                  const ColumnFacts& facts, config::DataConfig* data) {
  if (!reads_as_requested(data->dataset_type())) return;
  for (size_t i = 0; i < requests.size(); ++i) {
    const ColumnRequest& request = requests[i];
    const ValueType type = kind_worth_a_record(request, facts.columns[i], *data);
    if (type.kind == ValueKind::kUnknown || is_label_or_weight(features, request.name)) continue;
    config::TrainedColumn* record = find_or_add_record(data, request.name);
    if (record->has_kind()) continue;
    record->set_kind(name_of(type));
    if (type.kind != ValueKind::kText) continue;
    const bool is_stream = data->dataset_type() == config::KafkaDataset;
    const ColumnFacts::Texts texts = facts.texts.empty() ? ColumnFacts::Texts() : facts.texts[i];
    const std::string spelling = name_of(texts.spelling.spelling());
    if (is_stream && spelling.empty()) {  // values that come may be spelled in any way
      record->set_spelling(name_of(Spelling{.style = Spelling::Style::kMixed}));
    } else if (!is_stream &&
               texts.floats.are_floats()) {  // rows that were not looked at may have other text
      record->set_kind(name_of({ValueKind::kDouble}));
      record->set_spelling(name_of(Spelling{.style = Spelling::Style::kWords}));
    } else if (!spelling.empty()) {
      record->set_spelling(spelling);
    }
  }
}

bool has_types(const config::DataConfig& data) {
  return is_columnar(data.dataset_type()) || (data.dataset_type() == config::KafkaDataset &&
                                              data.stream_format() == config::ARROW_BATCH);
}

}  // namespace

void ColumnFacts::add(const Block& block) {
  texts.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = block.columns[i];
    if (column.type != ColumnType::kText) continue;
    const TextDictionary* dictionary = column.dictionary.get();
    const size_t count = dictionary != nullptr ? dictionary->ends.size() : column.text_ends.size();
    for (size_t at = 0; at < count; ++at) {
      const std::string_view text = dictionary != nullptr ? (*dictionary)[at] : text_at(column, at);
      texts[i].spelling.add(text);
      texts[i].floats.add(text);
    }
  }
}

void record_column_types(const FeatureLayout& features, LabelCheck labels, const ColumnFacts& facts,
                         config::DataConfig* data) {
  if (facts.columns.empty()) return;
  const std::vector<ColumnRequest> all = columns_needed(*data, features, labels);
  for (const ColumnRequest& request : requests_of_ids(*data, features)) {
    if (has_recorded_type(*data, request.name)) continue;
    const int at = position_of(request, all, data->dataset_type());
    const bool is_text = facts.columns[static_cast<size_t>(at)].type == ColumnType::kText;
    find_or_add_record(data, request.name)
        ->set_input_type(is_text ? config::STRING : config::INT64);
  }
  record_kinds(features, all, facts, data);
}

std::vector<std::string> columns_of_unknown_type(const config::DataConfig& data,
                                                 const FeatureLayout& features) {
  std::vector<std::string> names;
  if (!has_types(data)) return names;
  for (const ColumnRequest& request : requests_of_ids(data, features)) {
    const bool is_known =
        request.type == ColumnType::kInt64 || has_recorded_type(data, request.name);
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
