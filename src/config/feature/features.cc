#include "config/feature/features.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "config/check/check_feature.h"
#include "config/feature/feature_settings.h"
#include "config/feature/items.h"
#include "config/feature/labels.h"
#include "config/feature/sequences.h"
#include "config/load/name.h"
#include "config/proto/pipeline.pb.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// A feature of feature_configs as a flat list: the features of a sequence_feature one by one, and
// sequence_id_feature as the id_feature that describes its elements.
struct ExpandedFeature {
  // A feature of a kind without "sequence_". Features of a sequence_feature are called
  // SEQUENCE__NAME and have its sequence_length and sequence_delim.
  config::FeatureConfig config;
  bool in_sequence = false;
  std::string sequence_name;  // name of the sequence_feature; "" for a feature outside of one
};

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kSequencePrefix = "sequence_";

void set_text(Message* message, const char* field, const std::string& value) {
  message->GetReflection()->SetString(message, message->GetDescriptor()->FindFieldByName(field),
                                      value);
}

std::string name_of(const Message& message) {
  return message.GetReflection()->GetString(
      message, message.GetDescriptor()->FindFieldByName("feature_name"));
}

// A feature of the kind `kind` (id_feature) with the settings of `source`.
config::FeatureConfig feature_with(const std::string& kind, const Message& source) {
  config::FeatureConfig feature;
  const FieldDescriptor* field = feature.GetDescriptor()->FindFieldByName(kind);
  feature.GetReflection()->MutableMessage(&feature, field)->CopyFrom(source);
  return feature;
}

void add_sequence(const config::SequenceFeature& sequence, int index,
                  std::vector<ExpandedFeature>& features) {
  EMBLEM_REQUIRE(!sequence.sequence_name().empty(), "feature_configs[", index,
                 "].sequence_feature has no sequence_name");
  EMBLEM_REQUIRE(sequence.features_size() > 0, "sequence_feature \"",
                 printable(sequence.sequence_name()), "\" has no features");
  for (const config::SeqFeatureConfig& member : sequence.features()) {
    const FieldDescriptor* field = member.GetDescriptor()->FindFieldByNumber(member.feature_case());
    EMBLEM_REQUIRE(field != nullptr, "sequence_feature \"", printable(sequence.sequence_name()),
                   "\" has an empty entry in features");
    const Message& source = member.GetReflection()->GetMessage(member, field);
    ExpandedFeature feature{feature_with(field->name(), source), true, sequence.sequence_name()};
    Message* message = mutable_message_of(&feature.config);
    EMBLEM_REQUIRE(!name_of(source).empty(), "a feature of sequence_feature \"",
                   printable(sequence.sequence_name()), "\" has no feature_name");
    set_text(message, "feature_name", sequence.sequence_name() + "__" + name_of(source));
    set_text(message, "sequence_delim", sequence.sequence_delim());
    const FieldDescriptor* length = message->GetDescriptor()->FindFieldByName("sequence_length");
    message->GetReflection()->SetUInt32(message, length, sequence.sequence_length());
    features.push_back(std::move(feature));
  }
}

// Throws Error for features and sequences without content or name.
std::vector<ExpandedFeature> expand_features(const config::PipelineConfig& config) {
  std::vector<ExpandedFeature> features;
  for (int i = 0; i < config.feature_configs_size(); ++i) {
    const config::FeatureConfig& feature = config.feature_configs(i);
    if (feature.has_sequence_feature()) {
      add_sequence(feature.sequence_feature(), i, features);
      continue;
    }
    const FieldDescriptor* field =
        feature.GetDescriptor()->FindFieldByNumber(feature.feature_case());
    EMBLEM_REQUIRE(field != nullptr, "feature_configs[", i,
                   "] is empty; give it an id_feature, a raw_feature or another feature");
    EMBLEM_REQUIRE(!name_of(message_of(feature)).empty(), "feature_configs[", i,
                   "] has no feature_name");
    if (!field->name().starts_with(kSequencePrefix))
      features.push_back({feature, false, ""});
    else
      features.push_back(
          {feature_with(field->name().substr(kSequencePrefix.size()), message_of(feature)), true,
           ""});
  }
  return features;
}

// "user:age" reads column age; user, item and context are TorchEasyRec's and mean nothing here but
// which inputs are sequences.
struct Expression {
  std::string side;  // "" when there is none
  std::string name;
};

Expression parse(const std::string& text, const std::string& feature) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {"", text};
  Expression expression{text.substr(0, colon), text.substr(colon + 1)};
  EMBLEM_REQUIRE(!expression.name.empty(), "feature \"", printable(feature), "\": expression \"",
                 printable(text), "\" names no column; write it like \"user:age\"");
  return expression;
}

// Kinds whose only input is the sequence itself.
bool has_one_input(FeatureType type) {
  return type == FeatureType::kId || type == FeatureType::kRaw || type == FeatureType::kTokenize ||
         type == FeatureType::kCombine;
}

bool is_sequence(const Expression& input, const FeatureSettings& settings) {
  if (!settings.in_sequence || settings.tokens_as_sequence) return false;
  const std::vector<std::string>& fields = settings.sequence_fields;
  if (!fields.empty()) return std::find(fields.begin(), fields.end(), input.name) != fields.end();
  return has_one_input(settings.type) ? input.side != "feature" : input.side == "item";
}

FeatureInput::Source source_of(const std::string& side, config::FgMode mode) {
  using Source = FeatureInput::Source;
  if (mode != config::FG_DAG) return Source::kColumn;
  if (side == "feature") return Source::kFeature;
  return side == "const" ? Source::kConstant : Source::kColumn;
}

// Inputs in the order of FeatureSettings::expressions. Under FG_NONE and FG_BUCKETIZE a feature
// reads the column that has its name. Inputs of a sequence_feature that are sequences have its
// prefix. Throws Error for expressions without a name, and features without inputs.
std::vector<FeatureInput> inputs_of(const ExpandedFeature& feature, const FeatureSettings& settings,
                                    config::FgMode mode) {
  using Source = FeatureInput::Source;
  const bool encoded = mode == config::FG_NONE || mode == config::FG_BUCKETIZE;
  if (encoded) return {{Source::kColumn, settings.name, settings.in_sequence}};
  std::vector<FeatureInput> inputs;
  for (const std::string& text : settings.expressions) {
    if (text.empty()) continue;
    const Expression expression = parse(text, settings.name);
    FeatureInput input{source_of(expression.side, mode), expression.name,
                       is_sequence(expression, settings)};
    // match_feature: all keys of this level.
    if (settings.type == FeatureType::kMatch && text == "ALL") input.source = Source::kConstant;
    if (input.source == Source::kConstant) input.is_sequence = false;
    if (input.is_sequence && !feature.sequence_name.empty())
      input.name = feature.sequence_name + "__" + input.name;
    inputs.push_back(std::move(input));
  }
  if (!inputs.empty()) return inputs;
  EMBLEM_REQUIRE(has_one_input(settings.type), "feature \"", printable(settings.name),
                 "\" does not say what it reads; give it inputs like \"user:age\"");
  return {{Source::kColumn, settings.name, settings.in_sequence}};
}

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
    spec.dense_cols = number_cols(settings, settings.in_sequence);
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
  lay_out_items(config.data_config(), layout);
  lay_out_candidates(config, layout);
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
