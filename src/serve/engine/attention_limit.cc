#include "serve/engine/attention_limit.h"

#include <algorithm>
#include <set>

#include "config/feature/sequences.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// The features that self attention reads.
std::set<std::string> attended_features(const config::ModelConfig& model) {
  std::set<std::string> names;
  const std::vector<SequenceGroup> groups = sequence_groups_of(model);
  for (const config::FeatureGroupConfig& owner : model.feature_groups()) {
    for (const config::SeqEncoderConfig& encoder : owner.sequence_encoders()) {
      if (!encoder.has_self_attention_encoder()) continue;
      const std::string& input = encoder.self_attention_encoder().input();
      for (const SequenceGroup& group : groups) {
        if (group.owner == owner.group_name() && (input.empty() || group.name == input))
          names.insert(group.features.begin(), group.features.end());
      }
    }
  }
  return names;
}

}  // namespace

AttentionLimit::AttentionLimit(const config::ModelConfig& model, const FeatureLayout& layout) {
  const std::set<std::string> names = attended_features(model);
  for (size_t i = 0; i < layout.sequences.size(); ++i) {
    const SequenceSpec& sequence = layout.sequences[i];
    const bool is_attended =
        std::any_of(sequence.features.begin(), sequence.features.end(),
                    [&](size_t feature) { return names.contains(layout.features[feature].name); });
    if (is_attended && sequence.max_length == 0) sequences_.push_back({i, sequence.name});
  }
}

void AttentionLimit::check(const Batch& batch) const {
  for (const Sequence& sequence : sequences_) {
    const HostVector<int32_t>& offsets = batch.sequences[sequence.at].offsets;
    for (size_t row = 0; row + 1 < offsets.size(); ++row) {
      const int32_t elements = offsets[row + 1] - offsets[row];
      EMBLEM_REQUIRE(elements <= kMostElements, "row ", row, ": sequence \"",
                     printable(sequence.name), "\" has ", elements, " elements; at most ",
                     kMostElements,
                     " are allowed, because self attention compares all of them with each other "
                     "and the pipeline has no sequence_length");
    }
  }
}

}  // namespace emblem
