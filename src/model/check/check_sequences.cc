#include "model/check/check_model.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/check/check_feature.h"
#include "config/feature/sequences.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

struct Widths {
  int64_t query = 0;
  int64_t sequence = 0;
};

std::string title(const SequenceGroup& group) {
  return group.nested ? cat("sequence group \"", printable(group.name), "\" of feature group \"",
                            printable(group.owner), "\"")
                      : cat("feature group \"", printable(group.name), "\"");
}

Widths widths_of(const SequenceGroup& group, const FeatureLayout& layout) {
  Widths widths;
  for (const std::string& name : group.features) {
    const FeatureSpec& feature = layout.find(name);
    (feature.settings.in_sequence ? widths.sequence : widths.query) += width_of(feature);
  }
  return widths;
}

// ---- groups ----

void check_plain_group(const config::FeatureGroupConfig& group, const FeatureLayout& layout) {
  for (const std::string& name : group.feature_names()) {
    EMBLEM_REQUIRE(!layout.find(name).settings.in_sequence, "feature group \"",
                   printable(group.group_name()), "\" is ",
                   config::FeatureGroupType_Name(group.group_type()), ", but \"", printable(name),
                   "\" is a sequence; put it into sequence_groups with an encoder, or into a group "
                   "with group_type: SEQUENCE");
  }
  EMBLEM_REQUIRE(group.group_type() == config::DEEP || group.sequence_groups().empty(),
                 "feature group \"", printable(group.group_name()), "\" is ",
                 config::FeatureGroupType_Name(group.group_type()),
                 ", but sequence_groups are for DEEP groups; move them to one");
}

void check_members(const SequenceGroup& group, const FeatureLayout& layout) {
  const FeatureSpec* first = nullptr;
  std::set<std::string> seen;
  for (const std::string& name : group.features) {
    EMBLEM_REQUIRE(seen.insert(name).second, title(group), " names \"", printable(name),
                   "\" twice");
    const FeatureSpec& feature = layout.find(name);
    require_in_batches(feature.settings);
    EMBLEM_REQUIRE(width_of(feature) > 0, title(group), ": feature \"", printable(name),
                   "\" has no embedding_dim");
    if (!feature.settings.in_sequence) continue;
    if (first == nullptr) first = &feature;
    const int64_t length = feature.settings.sequence_length;
    EMBLEM_REQUIRE(length == first->settings.sequence_length, title(group), " has \"",
                   printable(first->name), "\" with sequence_length ",
                   first->settings.sequence_length, " and \"", printable(name), "\" with ", length,
                   "; the elements of a group belong together: make them equal");
  }
  EMBLEM_REQUIRE(first != nullptr, title(group),
                 " has no sequence; add a feature of a sequence_feature, or a sequence_id_feature");
}

// ---- encoders ----

struct Encoder {
  std::string kind;   // "din_encoder"
  std::string input;  // the nested group
};

Encoder encoder_of(const config::SeqEncoderConfig& config,
                   const config::FeatureGroupConfig& group) {
  const auto* field = config.GetDescriptor()->FindFieldByNumber(config.seq_module_case());
  EMBLEM_REQUIRE(field != nullptr, "feature group \"", printable(group.group_name()),
                 "\" has an empty entry in sequence_encoders; give it a din_encoder or another");
  const auto& message = config.GetReflection()->GetMessage(config, field);
  Encoder encoder{field->name(), message.GetReflection()->GetString(
                                     message, message.GetDescriptor()->FindFieldByName("input"))};
  if (encoder.input.empty() && group.sequence_groups_size() == 1) {
    const std::string& name = group.sequence_groups(0).group_name();
    encoder.input = name.empty() ? group.group_name() : name;
  }
  return encoder;
}

void check_din(const std::string& kind, const SequenceGroup& group, const Widths& widths,
               const config::MLP& mlp) {
  EMBLEM_REQUIRE(widths.query > 0, title(group), " has no query, which ", kind,
                 " needs; add a feature that is not a sequence");
  EMBLEM_REQUIRE(widths.query <= widths.sequence, title(group), " has a query of width ",
                 widths.query, " and elements of width ", widths.sequence, ", but ", kind,
                 " needs elements at least as wide; remove features from the query, or give those "
                 "of the sequence a larger embedding_dim");
  EMBLEM_REQUIRE(mlp.hidden_units_size() > 0, title(group), ": ", kind,
                 " has no attn_mlp.hidden_units");
}

template <class Windows>  // a MultiWindowDINEncoder, or such a tower
void check_windows(const std::string& kind, const SequenceGroup& group, const Widths& widths,
                   const Windows& encoder) {
  check_din(kind, group, widths, encoder.attn_mlp());
  EMBLEM_REQUIRE(encoder.windows_len_size() > 0, title(group), ": ", kind, " has no windows_len");
  for (const uint32_t length : encoder.windows_len())
    EMBLEM_REQUIRE(length > 0, title(group), ": ", kind,
                   ".windows_len has a 0, expected at least 1");
}

void check_encoder(const config::SeqEncoderConfig& config, const std::string& kind,
                   const SequenceGroup& group, const FeatureLayout& layout) {
  const Widths widths = widths_of(group, layout);
  switch (config.seq_module_case()) {
    case config::SeqEncoderConfig::kDinEncoder:
      check_din(kind, group, widths, config.din_encoder().attn_mlp());
      break;
    case config::SeqEncoderConfig::kMultiWindowDinEncoder:
      check_windows(kind, group, widths, config.multi_window_din_encoder());
      break;
    case config::SeqEncoderConfig::kSimpleAttention:
      EMBLEM_REQUIRE(widths.query == widths.sequence, title(group), " has a query of width ",
                     widths.query, " and elements of width ", widths.sequence,
                     ", but simple_attention needs equal ones");
      break;
    case config::SeqEncoderConfig::kPoolingEncoder: {
      const std::string& type = config.pooling_encoder().pooling_type();
      EMBLEM_REQUIRE(type == "mean" || type == "sum", title(group),
                     ": pooling_encoder.pooling_type is \"", printable(type),
                     "\", expected mean or sum");
      break;
    }
    case config::SeqEncoderConfig::kSelfAttentionEncoder: {
      const auto& encoder = config.self_attention_encoder();
      EMBLEM_REQUIRE(encoder.num_heads() > 0 && encoder.multihead_attn_dim() > 0 &&
                         encoder.multihead_attn_dim() % encoder.num_heads() == 0,
                     title(group), ": self_attention_encoder has multihead_attn_dim ",
                     encoder.multihead_attn_dim(), " and num_heads ", encoder.num_heads(),
                     ", expected a multiple of the heads");
      break;
    }
    case config::SeqEncoderConfig::SEQ_MODULE_NOT_SET:
      break;
  }
}

void check_encoders(const config::FeatureGroupConfig& group,
                    const std::map<std::string, SequenceGroup>& nested,
                    const FeatureLayout& layout) {
  EMBLEM_REQUIRE(group.sequence_encoders().empty() || group.sequence_groups_size() > 0,
                 "feature group \"", printable(group.group_name()),
                 "\" has sequence_encoders, but no sequence_groups for them to read");
  std::set<std::string> read;
  for (const config::SeqEncoderConfig& config : group.sequence_encoders()) {
    const Encoder encoder = encoder_of(config, group);
    const auto found = nested.find(encoder.input);
    EMBLEM_REQUIRE(found != nested.end(), "feature group \"", printable(group.group_name()),
                   "\": ", encoder.kind, " reads \"", printable(encoder.input),
                   "\", which is none of its sequence_groups; set its input to one of them");
    read.insert(encoder.input);
    check_encoder(config, encoder.kind, found->second, layout);
  }
  for (const auto& [name, sequence] : nested)
    EMBLEM_REQUIRE(read.contains(name), title(sequence),
                   " has no encoder; add one to sequence_encoders with input: \"", printable(name),
                   "\"");
}

void check_din_towers(const config::ModelConfig& model, const FeatureLayout& layout) {
  for (const config::DINTower& tower : model.multi_tower_din().din_towers()) {
    for (const SequenceGroup& group : sequence_groups_of(model)) {
      if (!group.nested && group.name == tower.input())
        check_din("din_towers", group, widths_of(group, layout), tower.attn_mlp());
    }
  }
  if (!model.has_tdm()) return;
  for (const SequenceGroup& group : sequence_groups_of(model))
    if (!group.nested)
      check_windows("tdm.multiwindow_din", group, widths_of(group, layout),
                    model.tdm().multiwindow_din());
}

// Elements have no row of their own where a feature has one value per row.
void check_readers(const FeatureLayout& layout) {
  for (const FeatureSpec& reader : layout.features) {
    for (const FeatureInput& input : reader.inputs) {
      if (input.source != FeatureInput::Source::kFeature || reader.settings.in_sequence) continue;
      const auto read = std::find_if(layout.features.begin(), layout.features.end(),
                                     [&](const auto& spec) { return spec.name == input.name; });
      EMBLEM_REQUIRE(read == layout.features.end() || !read->settings.in_sequence, "feature \"",
                     printable(reader.name), "\" has one value per row, but reads \"",
                     printable(input.name),
                     "\", which is a sequence; make it part of the sequence_feature, or a "
                     "sequence_ feature");
    }
  }
}

}  // namespace

int64_t width_of(const FeatureSpec& feature) {
  const FeatureSettings& settings = feature.settings;
  const bool embedded = feature.kind == FeatureKind::kSparse || settings.mlp || settings.autodis;
  return embedded ? settings.embedding_dim : feature.dense_cols;
}

void check_sequences(const config::PipelineConfig& config, const FeatureLayout& layout) {
  const config::ModelConfig& model = config.model_config();
  check_readers(layout);
  std::map<std::string, std::map<std::string, SequenceGroup>> nested;  // by feature group
  std::set<std::string> names;
  for (const SequenceGroup& group : sequence_groups_of(model)) {
    EMBLEM_REQUIRE(!group.name.empty(), "a sequence group of feature group \"",
                   printable(group.owner), "\" has no group_name");
    EMBLEM_REQUIRE(names.insert(group.name).second, "two sequence groups are called \"",
                   printable(group.name), "\"; rename one of them");
    check_members(group, layout);
    if (group.nested) nested[group.owner].emplace(group.name, group);
  }
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    const bool plain = group.group_type() == config::DEEP || group.group_type() == config::WIDE;
    if (plain) check_plain_group(group, layout);
    EMBLEM_REQUIRE(plain || (group.sequence_groups().empty() && group.sequence_encoders().empty()),
                   "feature group \"", printable(group.group_name()), "\" is ",
                   config::FeatureGroupType_Name(group.group_type()),
                   ", but sequence_groups and sequence_encoders are for DEEP groups");
    check_encoders(group, nested[group.group_name()], layout);
  }
  check_din_towers(model, layout);
}

}  // namespace emblem
