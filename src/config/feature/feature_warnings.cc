#include "config/feature/feature_warnings.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::Message;

using Names = std::vector<std::string>;

bool is_set(const Message& message, const char* setting) {
  const auto* field = message.GetDescriptor()->FindFieldByName(setting);
  if (field == nullptr) return false;
  return field->is_repeated() ? message.GetReflection()->FieldSize(message, field) > 0
                              : message.GetReflection()->HasField(message, field);
}

// ---- fg_mode ----

// The settings of a feature that FG_NONE does not use.
Names unused_by_fg_none(const FeatureSpec& spec) {
  const FeatureSettings& settings = spec.settings;
  const Message& message = message_of(spec.config);
  Names unused;
  const auto add = [&](bool given, const char* setting) {
    if (given) unused.push_back(setting);
  };
  const bool reads_itself =
      settings.expressions.size() == 1 &&
      settings.expressions[0].substr(settings.expressions[0].find(':') + 1) == spec.name;
  add(!settings.expressions.empty() && !reads_itself, "expression");
  add(settings.hash_bucket_size.has_value(), "hash_bucket_size");
  add(!settings.boundaries.empty(), "boundaries");
  add(!settings.normalizer.empty(), "normalizer");
  add(is_set(message, "default_value"), "default_value");
  add(is_set(message, "separator"), "separator");
  add(!settings.na_strings.empty(), "na_strings");
  add(settings.number_format != config::PLAIN, "number_format");
  add(settings.date_part != config::NO_DATE, "date_part");
  return unused;
}

void warn_of_fg_none(const FeatureLayout& layout, Names& warnings) {
  for (const char* setting :
       {"expression", "hash_bucket_size", "boundaries", "normalizer", "default_value", "separator",
        "na_strings", "number_format", "date_part"}) {
    Names features;
    for (const FeatureSpec& spec : layout.features) {
      for (const std::string& unused : unused_by_fg_none(spec))
        if (unused == setting) features.push_back(spec.name);
    }
    if (features.empty()) continue;
    const bool sizes =
        setting == std::string("hash_bucket_size") || setting == std::string("boundaries");
    warnings.push_back(
        cat("fg_mode is FG_NONE, so that ", setting, " of ", feature_list(features),
            sizes ? " sizes the table, but does not change values" : " has no effect",
            "; set data_config { fg_mode: FG_DAG } to apply it"));
  }
}

void warn_of_zch(const FeatureLayout& layout, Names& warnings) {
  Names features;
  for (const FeatureSpec& spec : layout.features)
    if (spec.settings.zch) features.push_back(spec.name);
  if (features.empty()) return;
  warnings.push_back(cat("zch of ", feature_list(features),
                         ": an id gets its row at its first occurrence in training, whatever "
                         "eviction_interval is, and an id without a row reads as zeros, where "
                         "TorchEasyRec has a shared row"));
}

// ---- the place of a setting ----

// A setting that has no effect on some features.
struct Rule {
  const char* setting;
  const char* reason;
  bool (*has_no_effect)(const FeatureSpec&, config::FgMode);
};

bool has_vocabulary(const FeatureSettings& settings) {
  return !settings.vocab_list.empty() || !settings.vocab_dict.empty() ||
         !settings.vocab_file.empty();
}

bool has_no_table(const FeatureSpec& spec, config::FgMode) {
  return spec.kind == FeatureKind::kDense;
}

bool has_no_vector(const FeatureSpec& spec, config::FgMode) {
  return spec.kind == FeatureKind::kDense && !spec.settings.autodis && !spec.settings.mlp;
}

bool is_no_sequence(const FeatureSpec& spec, config::FgMode) { return !spec.settings.in_sequence; }

constexpr char kNoTable[] = "numbers have no table of rows";
constexpr char kNoSequence[] = "it is of sequences";

constexpr Rule kRules[] = {
    {"use_mask", "data_config.sample_mask_prob is not supported",
     [](const FeatureSpec&, config::FgMode) { return true; }},
    {"fg_encoded_default_value", "it is of fg_mode FG_NONE; set default_value",
     [](const FeatureSpec&, config::FgMode mode) { return mode != config::FG_NONE; }},
    {"asset_dir", "there is no vocab_file",
     [](const FeatureSpec& spec, config::FgMode) { return spec.settings.vocab_file.empty(); }},
    {"default_bucketize_value", "it is of vocab_list, vocab_dict and vocab_file",
     [](const FeatureSpec& spec, config::FgMode) { return !has_vocabulary(spec.settings); }},
    {"init_fn", kNoTable, has_no_table},
    {"trainable", kNoTable, has_no_table},
    {"data_type", kNoTable, has_no_table},
    {"pooling", kNoTable, has_no_table},
    {"embedding_name", kNoTable, has_no_table},
    {"embedding_constraints", kNoTable, has_no_table},
    {"embedding_dim", "a number becomes a vector with boundaries, autodis or mlp", has_no_vector},
    {"sequence_length", kNoSequence, is_no_sequence},
    {"sequence_delim", kNoSequence, is_no_sequence},
    {"sequence_fields", kNoSequence, is_no_sequence},
};

void warn_of_places(const FeatureLayout& layout, Names& warnings) {
  for (const Rule& rule : kRules) {
    Names features;
    for (const FeatureSpec& spec : layout.features)
      if (is_set(message_of(spec.config), rule.setting) &&
          rule.has_no_effect(spec, layout.semantics.fg_mode))
        features.push_back(spec.name);
    if (!features.empty())
      warnings.push_back(
          cat(rule.setting, " of ", feature_list(features), " has no effect: ", rule.reason));
  }
}

// The sequence_feature has them for all of its features.
void warn_of_members(const config::PipelineConfig& config, Names& warnings) {
  for (const config::FeatureConfig& feature : config.feature_configs()) {
    for (const config::SeqFeatureConfig& member : feature.sequence_feature().features()) {
      const auto* field = member.GetDescriptor()->FindFieldByNumber(member.feature_case());
      if (field == nullptr) continue;
      for (const char* setting : {"sequence_length", "sequence_delim"})
        if (is_set(member.GetReflection()->GetMessage(member, field), setting))
          warnings.push_back(cat(setting, " of a feature of sequence_feature \"",
                                 printable(feature.sequence_feature().sequence_name()),
                                 "\" has no effect; set that of the sequence_feature"));
    }
  }
}

void warn_of_sequence_fields(const FeatureLayout& layout, Names& warnings) {
  for (const FeatureSpec& spec : layout.features) {
    for (const std::string& field : spec.settings.sequence_fields) {
      const bool is_read =
          std::any_of(spec.settings.expressions.begin(), spec.settings.expressions.end(),
                      [&](const std::string& text) {
                        return text.substr(text.find(':') + 1) == field;  // npos + 1 is 0
                      });
      if (!is_read && spec.settings.in_sequence)
        warnings.push_back(cat("sequence_fields of feature \"", spec.name, "\" has \"",
                               printable(field), "\", which is not an input of it"));
    }
  }
}

// What the mode of an initializer does not read.
void warn_of_initializer(const FeatureSpec& spec, const char* name, const char* default_mode,
                         const config::DynamicEmbInitializerArgs& args, Names& warnings) {
  static const std::map<std::string, Names> kRead = {
      {"uniform", {"lower", "upper"}},
      {"normal", {"mean", "std_dev"}},
      {"truncated_normal", {"mean", "std_dev"}},
      {"constant", {"value"}},
  };
  std::string mode = args.has_mode() ? args.mode() : default_mode;
  for (char& c : mode) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = kRead.find(mode);
  if (found == kRead.end()) return;  // is refused with the tables
  for (const char* setting : {"mean", "std_dev", "lower", "upper", "value"}) {
    const bool is_read =
        std::find(found->second.begin(), found->second.end(), setting) != found->second.end();
    if (is_set(args, setting) && !is_read)
      warnings.push_back(cat("dynamicemb.", name, ".", setting, " of feature \"", spec.name,
                             "\" has no effect: mode is \"", mode, "\""));
  }
}

void warn_of_initializers(const FeatureLayout& layout, Names& warnings) {
  for (const FeatureSpec& spec : layout.features) {
    if (!spec.settings.dynamicemb) continue;
    const config::DynamicEmbedding& table = *spec.settings.dynamicemb;
    warn_of_initializer(spec, "initializer_args", "uniform", table.initializer_args(), warnings);
    warn_of_initializer(spec, "eval_initializer_args", "constant", table.eval_initializer_args(),
                        warnings);
  }
}

}  // namespace

std::string feature_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text = names.size() == 1 ? "feature " : "features ";
  for (size_t i = 0; i < names.size() && i < kShown; ++i)
    text += cat(i == 0 ? "" : ", ", '"', printable(names[i]), '"');
  return names.size() <= kShown ? text : cat(text, " and ", names.size() - kShown, " more");
}

std::vector<std::string> feature_warnings(const config::PipelineConfig& config,
                                          const FeatureLayout& layout) {
  Names warnings;
  if (layout.semantics.fg_mode == config::FG_NONE) warn_of_fg_none(layout, warnings);
  warn_of_places(layout, warnings);
  warn_of_members(config, warnings);
  warn_of_sequence_fields(layout, warnings);
  warn_of_initializers(layout, warnings);
  warn_of_zch(layout, warnings);
  return warnings;
}

}  // namespace emblem
