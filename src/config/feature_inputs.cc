#include "config/feature_inputs.h"

#include <algorithm>

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

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

}  // namespace

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

}  // namespace emblem
