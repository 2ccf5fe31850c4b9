#include "config/feature/sequences.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "config/check/semantics.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Sets that grow together.
class Unions {
 public:
  explicit Unions(size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), size_t{0});
  }
  size_t root(size_t at) const {
    while (parents_[at] != at) at = parents_[at];
    return at;
  }
  // The smaller position is the root.
  void join(size_t a, size_t b) {
    a = root(a);
    b = root(b);
    parents_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parents_;
};

// The features of groups that are sequences, by position, in the order of the file.
std::vector<std::vector<size_t>> members_of_groups(const config::ModelConfig& model,
                                                   std::span<const FeatureSpec> features) {
  std::unordered_map<std::string, size_t> positions;
  for (size_t i = 0; i < features.size(); ++i) positions.emplace(features[i].name, i);
  std::vector<std::vector<size_t>> groups;
  for (const SequenceGroup& group : sequence_groups_of(model)) {
    std::vector<size_t>& members = groups.emplace_back();
    for (const std::string& name : group.features) {
      const auto found = positions.find(name);
      if (found != positions.end() && features[found->second].settings.in_sequence)
        members.push_back(found->second);
    }
  }
  return groups;
}

// The first feature that a group names has the lengths.
void put_first(const std::vector<std::vector<size_t>>& groups, std::vector<size_t>& members) {
  for (const std::vector<size_t>& group : groups) {
    if (group.empty()) continue;
    const auto found = std::find(members.begin(), members.end(), group.front());
    if (found == members.end()) continue;
    std::rotate(members.begin(), found, found + 1);
    return;
  }
}

int64_t limit_of(const config::SeqEncoderConfig& encoder) {
  const auto* field = encoder.GetDescriptor()->FindFieldByNumber(encoder.seq_module_case());
  if (field == nullptr) return 0;
  const auto& message = encoder.GetReflection()->GetMessage(encoder, field);
  const auto* limit = message.GetDescriptor()->FindFieldByName("max_seq_length");
  return limit == nullptr ? 0 : message.GetReflection()->GetInt32(message, limit);
}

std::string input_of(const config::SeqEncoderConfig& encoder) {
  const auto* field = encoder.GetDescriptor()->FindFieldByNumber(encoder.seq_module_case());
  if (field == nullptr) return "";
  const auto& message = encoder.GetReflection()->GetMessage(encoder, field);
  return message.GetReflection()->GetString(message,
                                            message.GetDescriptor()->FindFieldByName("input"));
}

std::vector<int64_t> limits_of(const config::FeatureGroupConfig& group, const std::string& nested) {
  std::vector<int64_t> limits;
  for (const config::SeqEncoderConfig& encoder : group.sequence_encoders()) {
    const std::string input = input_of(encoder);
    if (input.empty() || input == nested) limits.push_back(limit_of(encoder));
  }
  return limits;
}

// Encoded sequences are read as they are.
int64_t limit_of(const FeatureSpec& feature, config::FgMode mode) {
  const bool encoded = mode == config::FG_NONE || mode == config::FG_BUCKETIZE;
  return encoded ? 0 : feature.settings.sequence_length;
}

}  // namespace

std::vector<SequenceGroup> sequence_groups_of(const config::ModelConfig& model) {
  std::vector<SequenceGroup> groups;
  for (const config::FeatureGroupConfig& group : model.feature_groups()) {
    if (group.group_type() == config::SEQUENCE || group.group_type() == config::JAGGED_SEQUENCE) {
      groups.push_back({group.group_name(),
                        group.group_name(),
                        {group.feature_names().begin(), group.feature_names().end()},
                        group.embedding_name_suffix(),
                        false,
                        {0}});
    }
    for (const config::SeqGroupConfig& nested : group.sequence_groups()) {
      const bool unnamed = nested.group_name().empty() && group.sequence_groups_size() == 1;
      const std::string& name = unnamed ? group.group_name() : nested.group_name();
      groups.push_back({name,
                        group.group_name(),
                        {nested.feature_names().begin(), nested.feature_names().end()},
                        nested.has_embedding_name_suffix() ? nested.embedding_name_suffix()
                                                           : group.embedding_name_suffix(),
                        true,
                        limits_of(group, name)});
    }
  }
  return groups;
}

int64_t reading_limit(const config::ModelConfig& model, const SequenceSpec& sequence,
                      std::span<const FeatureSpec> features) {
  std::optional<int64_t> limit;
  for (const SequenceGroup& group : sequence_groups_of(model)) {
    const bool reads =
        std::any_of(sequence.features.begin(), sequence.features.end(), [&](size_t feature) {
          return std::find(group.features.begin(), group.features.end(), features[feature].name) !=
                 group.features.end();
        });
    if (!reads) continue;
    for (const int64_t other : group.limits) {
      EMBLEM_REQUIRE(limit.value_or(other) == other, "the sequence \"", printable(sequence.name),
                     "\" is read with max_seq_length ", *limit, " and ", other,
                     " (0: all elements), expected one for all its encoders and groups; make them "
                     "equal, or set sequence_length of the feature instead");
      limit = other;
    }
  }
  return limit.value_or(0);
}

std::vector<SequenceSpec> lay_out_sequences(const config::PipelineConfig& config,
                                            std::span<const std::string> names,
                                            std::span<FeatureSpec> features) {
  Unions unions(features.size());
  std::map<std::string, size_t> first_of_name;
  for (size_t i = 0; i < features.size(); ++i) {
    if (names[i].empty()) continue;
    unions.join(first_of_name.emplace(names[i], i).first->second, i);
  }
  const auto groups = members_of_groups(config.model_config(), features);
  for (const std::vector<size_t>& group : groups)
    for (const size_t member : group) unions.join(group.front(), member);

  std::map<size_t, std::vector<size_t>> members;  // by root
  for (size_t i = 0; i < features.size(); ++i) {
    if (features[i].settings.in_sequence && !features[i].is_intermediate)
      members[unions.root(i)].push_back(i);
  }
  const config::FgMode mode = semantics_of(config).fg_mode;
  std::vector<SequenceSpec> sequences;
  for (auto& [root, positions] : members) {
    put_first(groups, positions);
    SequenceSpec sequence;
    const size_t first = positions.front();
    sequence.name = names[first].empty() ? features[first].name : names[first];
    for (const size_t i : positions) {
      features[i].sequence = static_cast<int64_t>(sequences.size());
      const int64_t limit = limit_of(features[i], mode);
      if (limit > 0 && (sequence.max_length == 0 || limit < sequence.max_length))
        sequence.max_length = limit;
      if (features[i].kind != FeatureKind::kDense) continue;
      features[i].dense_begin = sequence.dense_cols;
      sequence.dense_cols += features[i].dense_cols;
    }
    sequence.features = std::move(positions);
    const int64_t read = reading_limit(config.model_config(), sequence, features);
    if (read > 0 && (sequence.max_length == 0 || read < sequence.max_length))
      sequence.max_length = read;
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

}  // namespace emblem
