#include "config/feature/feature_settings.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <limits>

#include "config/load/vocabulary_file.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The fields of a message by name, with or without them in it.
class Fields {
 public:
  explicit Fields(const Message& message) : message_(message) {}

  bool has(const char* name) const {
    const FieldDescriptor* field = find(name);
    if (field == nullptr) return false;
    return field->is_repeated() ? reflection().FieldSize(message_, field) > 0
                                : reflection().HasField(message_, field);
  }
  void read(const char* name, std::string& value) const {
    if (const FieldDescriptor* field = find(name)) value = reflection().GetString(message_, field);
  }
  void read(const char* name, std::optional<std::string>& value) const {
    if (has(name)) read(name, value.emplace());
  }
  void read(const char* name, bool& value) const {
    if (const FieldDescriptor* field = find(name)) value = reflection().GetBool(message_, field);
  }
  void read(const char* name, int64_t& value) const {
    if (const FieldDescriptor* field = find(name)) value = reflection().GetUInt32(message_, field);
  }
  void read(const char* name, std::optional<uint32_t>& value) const {
    if (has(name)) value = reflection().GetUInt32(message_, find(name));
  }
  void read(const char* name, std::optional<uint64_t>& value) const {
    if (has(name)) value = reflection().GetUInt64(message_, find(name));
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void read(const char* name, Enum& value) const {
    if (const FieldDescriptor* field = find(name))
      value = static_cast<Enum>(reflection().GetEnumValue(message_, field));
  }
  // One text or several.
  void append(const char* name, std::vector<std::string>& values) const {
    const FieldDescriptor* field = find(name);
    if (field == nullptr) return;
    if (!field->is_repeated()) {
      if (has(name)) values.push_back(reflection().GetString(message_, field));
      return;
    }
    for (int i = 0; i < reflection().FieldSize(message_, field); ++i)
      values.push_back(reflection().GetRepeatedString(message_, field, i));
  }
  void append(const char* name, std::vector<float>& values) const {
    const FieldDescriptor* field = find(name);
    if (field == nullptr) return;
    for (int i = 0; i < reflection().FieldSize(message_, field); ++i)
      values.push_back(reflection().GetRepeatedFloat(message_, field, i));
  }
  template <class Value>
  void read_message(const char* name, std::optional<Value>& value) const {
    if (has(name)) value = static_cast<const Value&>(reflection().GetMessage(message_, find(name)));
  }
  void read(const char* name, std::map<std::string, uint64_t>& values) const {
    const FieldDescriptor* field = find(name);
    if (field == nullptr) return;
    for (int i = 0; i < reflection().FieldSize(message_, field); ++i) {
      const Message& entry = reflection().GetRepeatedMessage(message_, field, i);
      const auto* type = entry.GetDescriptor();
      const auto& of_entry = *entry.GetReflection();
      values.emplace(of_entry.GetString(entry, type->map_key()),
                     of_entry.GetUInt64(entry, type->map_value()));
    }
  }

 private:
  const FieldDescriptor* find(const char* name) const {
    return message_.GetDescriptor()->FindFieldByName(name);
  }
  const google::protobuf::Reflection& reflection() const { return *message_.GetReflection(); }

  const Message& message_;
};

struct Kind {
  FeatureType type;
  bool in_sequence;
};

Kind kind_of(const config::FeatureConfig& feature) {
  using Case = config::FeatureConfig;
  switch (feature.feature_case()) {
    case Case::kIdFeature:
    case Case::kSequenceIdFeature:
      return {FeatureType::kId, feature.has_sequence_id_feature()};
    case Case::kRawFeature:
    case Case::kSequenceRawFeature:
      return {FeatureType::kRaw, feature.has_sequence_raw_feature()};
    case Case::kComboFeature:
    case Case::kSequenceComboFeature:
      return {FeatureType::kCombo, feature.has_sequence_combo_feature()};
    case Case::kLookupFeature:
    case Case::kSequenceLookupFeature:
      return {FeatureType::kLookup, feature.has_sequence_lookup_feature()};
    case Case::kMatchFeature:
    case Case::kSequenceMatchFeature:
      return {FeatureType::kMatch, feature.has_sequence_match_feature()};
    case Case::kExprFeature:
    case Case::kSequenceExprFeature:
      return {FeatureType::kExpr, feature.has_sequence_expr_feature()};
    case Case::kOverlapFeature:
    case Case::kSequenceOverlapFeature:
      return {FeatureType::kOverlap, feature.has_sequence_overlap_feature()};
    case Case::kTokenizeFeature:
    case Case::kSequenceTokenizeFeature:
      return {FeatureType::kTokenize, feature.has_sequence_tokenize_feature()};
    case Case::kCustomFeature:
    case Case::kSequenceCustomFeature:
      return {FeatureType::kCustom, feature.has_sequence_custom_feature()};
    case Case::kKvDotProduct:
    case Case::kSequenceKvDotProduct:
      return {FeatureType::kKvDotProduct, feature.has_sequence_kv_dot_product()};
    case Case::kBoolMaskFeature:
    case Case::kSequenceBoolMaskFeature:
      return {FeatureType::kBoolMask, feature.has_sequence_bool_mask_feature()};
    case Case::kCombineFeature:
    case Case::kSequenceCombineFeature:
      return {FeatureType::kCombine, feature.has_sequence_combine_feature()};
    case Case::kSequenceFeature:
      throw Error(ErrorCode::kInternal, "a sequence_feature is not one feature");
    case Case::FEATURE_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument, "a feature of feature_configs is empty");
}

const FieldDescriptor& chosen_field(const config::FeatureConfig& feature) {
  const FieldDescriptor* field = feature.GetDescriptor()->FindFieldByNumber(feature.feature_case());
  EMBLEM_REQUIRE(field != nullptr, "a feature of feature_configs is empty");
  return *field;
}

void read_inputs(const Fields& fields, FeatureSettings& settings) {
  // An expr_feature's expression is the formula.
  if (settings.type != FeatureType::kExpr) fields.append("expression", settings.expressions);
  for (const char* name :
       {"map", "key", "nested_map", "pkey", "skey", "variables", "query", "title", "document"})
    fields.append(name, settings.expressions);
}

void read_rows(const Fields& fields, FeatureSettings& settings) {
  fields.read("hash_bucket_size", settings.hash_bucket_size);
  fields.read("num_buckets", settings.num_buckets);
  fields.append("vocab_list", settings.vocab_list);
  fields.read("vocab_dict", settings.vocab_dict);
  fields.read("vocab_file", settings.vocab_file);
  std::string folder;
  fields.read("asset_dir", folder);
  if (!settings.vocab_file.empty() && !folder.empty())
    settings.vocab_file = folder + "/" + settings.vocab_file;
  fields.read_message("zch", settings.zch);
  fields.read_message("dynamicemb", settings.dynamicemb);
  fields.append("boundaries", settings.boundaries);
  fields.read("default_bucketize_value", settings.default_bucketize_value);
}

void read_values(const Fields& fields, FeatureSettings& settings) {
  fields.read("value_dim", settings.value_dim);
  fields.read("default_value", settings.default_value);
  fields.read("fg_encoded_default_value", settings.fg_encoded_default_value);
  fields.read("separator", settings.separator);
  fields.read("normalizer", settings.normalizer);
  fields.append("na_strings", settings.na_strings);
  fields.read("number_format", settings.number_format);
  fields.read("date_part", settings.date_part);
  fields.read("day_first", settings.day_first);
  fields.append("piecewise_linear", settings.piecewise_linear);
  fields.read("combiner", settings.combiner);
  fields.read("weighted", settings.weighted);
  fields.read("use_mask", settings.use_mask);
  fields.read("stub_type", settings.stub_type);
  fields.read("need_discrete", settings.need_discrete);
  fields.read("tokens_as_sequence", settings.tokens_as_sequence);
}

void read_embedding(const Fields& fields, FeatureSettings& settings) {
  fields.read("embedding_name", settings.embedding_name);
  fields.read("embedding_dim", settings.embedding_dim);
  settings.has_embedding_dim = fields.has("embedding_dim");
  fields.read("pooling", settings.pooling);
  fields.read("init_fn", settings.init_fn);
  fields.read("trainable", settings.trainable);
  fields.read("data_type", settings.data_type);
  fields.read_message("autodis", settings.autodis);
  settings.mlp = fields.has("mlp");
}

}  // namespace

const Message& message_of(const config::FeatureConfig& feature) {
  return feature.GetReflection()->GetMessage(feature, &chosen_field(feature));
}

Message* mutable_message_of(config::FeatureConfig* feature) {
  return feature->GetReflection()->MutableMessage(feature, &chosen_field(*feature));
}

FeatureSettings settings_of(const config::FeatureConfig& feature) {
  const Kind kind = kind_of(feature);
  FeatureSettings settings;
  settings.type = kind.type;
  settings.in_sequence = kind.in_sequence;
  const Fields fields(message_of(feature));
  fields.read("feature_name", settings.name);
  read_inputs(fields, settings);
  read_rows(fields, settings);
  read_values(fields, settings);
  read_embedding(fields, settings);
  fields.read("sequence_length", settings.sequence_length);
  fields.read("sequence_delim", settings.sequence_delim);
  fields.append("sequence_fields", settings.sequence_fields);
  return settings;
}

std::vector<std::string> row_settings(const FeatureSettings& settings) {
  std::vector<std::string> names;
  const auto add = [&](bool given, const char* name) {
    if (given) names.push_back(name);
  };
  add(settings.num_buckets.has_value(), "num_buckets");
  add(settings.hash_bucket_size.has_value(), "hash_bucket_size");
  add(!settings.vocab_list.empty(), "vocab_list");
  add(!settings.vocab_dict.empty(), "vocab_dict");
  add(!settings.vocab_file.empty(), "vocab_file");
  add(settings.zch.has_value(), "zch");
  add(settings.dynamicemb.has_value(), "dynamicemb");
  add(!settings.boundaries.empty(), "boundaries");
  return names;
}

bool is_sparse(const FeatureSettings& settings) {
  switch (settings.type) {
    case FeatureType::kId:
    case FeatureType::kCombo:
    case FeatureType::kTokenize:
    case FeatureType::kBoolMask:
      return true;
    default:
      return !row_settings(settings).empty();
  }
}

int64_t value_dim_of(const FeatureSettings& settings, bool in_sequence) {
  switch (settings.type) {
    case FeatureType::kOverlap:
    case FeatureType::kKvDotProduct:
      return 1;
    case FeatureType::kTokenize:
      return settings.tokens_as_sequence ? 1 : 0;
    default:
      break;
  }
  if (!is_sparse(settings)) return std::max<int64_t>(1, settings.value_dim.value_or(1));
  if (settings.value_dim) return *settings.value_dim;
  if (settings.type == FeatureType::kLookup) return 0;
  return in_sequence || settings.type == FeatureType::kRaw ? 1 : 0;
}

int64_t number_cols(const FeatureSettings& settings, bool in_sequence) {
  if (!settings.piecewise_linear.empty()) return std::ssize(settings.piecewise_linear) - 1;
  return value_dim_of(settings, in_sequence);
}

// What a table can have.
constexpr uint64_t kMostRows = std::numeric_limits<uint32_t>::max();

Vocabulary vocabulary_of(const FeatureSettings& settings, bool in_sequence) {
  Vocabulary vocabulary;
  auto& words = vocabulary.rows_of_words;
  const bool has_default_row = !settings.default_bucketize_value;
  const uint64_t first = has_default_row ? 2 : 0;
  for (size_t i = 0; i < settings.vocab_list.size(); ++i)
    EMBLEM_REQUIRE(words.emplace(settings.vocab_list[i], first + i).second, "feature \"",
                   printable(settings.name), "\": vocab_list has \"",
                   printable(settings.vocab_list[i]), "\" twice; remove one of them");
  if (!settings.vocab_list.empty()) vocabulary.rows = first + settings.vocab_list.size();
  words.insert(settings.vocab_dict.begin(), settings.vocab_dict.end());
  if (!settings.vocab_file.empty()) words = read_vocabulary_file(settings.vocab_file);
  // Sequences have no empty default.
  const std::string missing =
      settings.default_value.empty() && in_sequence ? "0" : settings.default_value;
  if (has_default_row && !settings.vocab_list.empty()) {
    words.emplace(missing, 0);  // a word of the list keeps its row
  } else if (has_default_row && !missing.empty()) {
    words[missing] = 0;
  }
  vocabulary.row_of_others = settings.default_bucketize_value.value_or(1);
  for (const auto& [word, row] : words) {
    EMBLEM_REQUIRE(row < kMostRows, "feature \"", printable(settings.name),
                   "\": a word of the vocabulary has row ", row, ", expected less than ",
                   kMostRows);
    vocabulary.rows = std::max(vocabulary.rows, row + 1);
  }
  EMBLEM_REQUIRE(vocabulary.row_of_others < vocabulary.rows || has_default_row, "feature \"",
                 printable(settings.name), "\": default_bucketize_value is ",
                 vocabulary.row_of_others, ", but the vocabulary has ", vocabulary.rows,
                 " rows; expected less than that");
  vocabulary.rows = std::max(vocabulary.rows, vocabulary.row_of_others + 1);
  return vocabulary;
}

int64_t rows_of(const FeatureSettings& settings, bool in_sequence) {
  if (settings.type == FeatureType::kTokenize) return tokenizer_rows(settings.vocab_file);
  if (settings.num_buckets) return static_cast<int64_t>(*settings.num_buckets);
  if (settings.hash_bucket_size) return static_cast<int64_t>(*settings.hash_bucket_size);
  if (!settings.vocab_list.empty() || !settings.vocab_dict.empty() || !settings.vocab_file.empty())
    return static_cast<int64_t>(vocabulary_of(settings, in_sequence).rows);
  if (settings.zch) return static_cast<int64_t>(settings.zch->zch_size());
  if (settings.dynamicemb || settings.boundaries.empty()) return 0;
  return static_cast<int64_t>(settings.boundaries.size()) + 1;
}

}  // namespace emblem
