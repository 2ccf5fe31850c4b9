#include "config/feature_expansion.h"

#include <google/protobuf/descriptor.h>

#include "config/feature_settings.h"
#include "config/name.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

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

}  // namespace

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

}  // namespace emblem
