#include "config/feature/labels.h"

#include <algorithm>
#include <map>
#include <set>

#include "config/feature/matching.h"
#include "config/feature/towers.h"
#include "loss/from_config.h"

namespace emblem {
namespace {

// Rows of one session are compared by their labels.
bool needs_all_labels(const config::LossConfig& loss) { return session_of(loss).has_value(); }

LabelSpec label_of(const TowerSpec& tower, const std::string& name,
                   const config::DataConfig& data) {
  const bool may_be_missing =
      std::none_of(tower.losses.begin(), tower.losses.end(), needs_all_labels);
  const std::vector<std::string> values(data.label_classes().begin(), data.label_classes().end());
  switch (tower.losses.empty() ? HeadKind::kBinary : kind_of_head(tower.losses.front())) {
    case HeadKind::kClass:
      return {name, LabelKind::kClass, tower.num_class, may_be_missing, values};
    case HeadKind::kNumber:
      return {name, LabelKind::kNumber, 2, may_be_missing};
    case HeadKind::kBinary:
      break;
  }
  return {name, LabelKind::kBinary, 2, may_be_missing, values};
}

// A column that several towers read has to fit all of them: two classes are fewer than three, and
// these are fewer than all numbers.
bool is_narrower(const LabelSpec& label, const LabelSpec& than) {
  if (label.kind != than.kind) return label.kind < than.kind;
  return label.kind == LabelKind::kClass && label.classes < than.classes;
}

class LabelUses {
 public:
  void add(const LabelSpec& label) {
    const auto [found, is_new] = uses_.emplace(label.name, label);
    if (is_new) return;
    const bool may_be_missing = label.may_be_missing && found->second.may_be_missing;
    if (is_narrower(label, found->second)) found->second = label;
    found->second.may_be_missing = may_be_missing;
  }
  std::vector<LabelSpec> in_order_of(const std::vector<std::string>& fields) const {
    std::vector<LabelSpec> labels;
    for (const std::string& field : fields) {
      const auto found = uses_.find(field);
      if (found != uses_.end()) labels.push_back(found->second);
    }
    if (labels.size() == 1) labels[0].may_be_missing = false;
    return labels;
  }

 private:
  std::map<std::string, LabelSpec> uses_;
};

}  // namespace

std::vector<LabelSpec> labels_of(const config::PipelineConfig& config) {
  const config::DataConfig& data = config.data_config();
  const config::ModelConfig& model = config.model_config();
  std::vector<std::string> fields(data.label_fields().begin(), data.label_fields().end());
  if (fields.empty()) fields.push_back("label");
  // Every row of a matching model is a user's choice, whatever its label.
  if (matching_of(model)) return {{fields.front(), LabelKind::kNumber}};
  LabelUses uses;
  for (const TowerSpec& tower : towers_of(model)) {
    uses.add(label_of(tower, tower.label.empty() ? fields.front() : tower.label, data));
    if (!tower.indicator.empty()) uses.add({tower.indicator, LabelKind::kNumber});
  }
  const std::string domain = domain_field_of(model);
  if (!domain.empty()) uses.add({domain, LabelKind::kClass, domains_of(model)});
  return uses.in_order_of(fields);
}

std::vector<std::string> weight_fields_of(const config::PipelineConfig& config) {
  const auto& fields = config.data_config().sample_weight_fields();
  if (!has_task_towers(config.model_config()))
    return {fields.begin(), fields.begin() + std::min(fields.size(), 1)};
  std::set<std::string> used;
  for (const TowerSpec& tower : towers_of(config.model_config())) used.insert(tower.sample_weight);
  std::vector<std::string> names;
  for (const std::string& field : fields)
    if (used.contains(field)) names.push_back(field);
  return names;
}

}  // namespace emblem
