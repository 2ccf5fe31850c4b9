#include "data/feature/default_values.h"

#include <algorithm>

namespace emblem {

DefaultValues default_values_of(const FeatureSpec& feature, const Semantics& semantics,
                                const config::DataConfig& data) {
  const FeatureSettings& settings = feature.settings;
  const bool encoded = semantics.fg_mode == config::FG_NONE;
  DefaultValues values;
  values.setting = encoded ? "fg_encoded_default_value" : "default_value";
  std::string text =
      encoded ? settings.fg_encoded_default_value.value_or("") : settings.default_value;
  // The default of a tokenize_feature is a text, whose tokens its operator gives.
  if (!encoded && settings.type == FeatureType::kTokenize) return values;
  if (!encoded && text.empty() && feature.sequence >= 0) text = "0";
  const std::string separators = encoded ? data.fg_encoded_multival_sep() : settings.separator;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) values.texts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return values;
}

}  // namespace emblem
