#include "config/feature/towers.h"

#include <google/protobuf/descriptor.h>

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// What the messages of towers share.
template <class Tower>
TowerSpec shared_of(const Tower& tower) {
  TowerSpec spec;
  spec.name = tower.tower_name();
  spec.label = tower.label_name();
  spec.num_class = tower.num_class();
  spec.losses.assign(tower.losses().begin(), tower.losses().end());
  spec.metrics.assign(tower.metrics().begin(), tower.metrics().end());
  spec.train_metrics.assign(tower.train_metrics().begin(), tower.train_metrics().end());
  spec.weight = tower.weight();
  spec.sample_weight = tower.sample_weight_name();
  spec.indicator = tower.task_space_indicator_label();
  spec.in_space = tower.in_task_space_weight();
  spec.out_space = tower.out_task_space_weight();
  return spec;
}

TowerSpec tower_of(const Message& message) {
  if (const auto* tower = dynamic_cast<const config::TaskTower*>(&message))
    return shared_of(*tower);
  const auto& tower = dynamic_cast<const config::BayesTaskTower&>(message);
  TowerSpec spec = shared_of(tower);
  spec.relations.assign(tower.relation_tower_names().begin(), tower.relation_tower_names().end());
  return spec;
}

// The field task_towers of the model's settings; null where it has none.
const FieldDescriptor* task_towers_of(const config::ModelConfig& model) {
  const auto* chosen = model.GetDescriptor()->FindFieldByNumber(model.model_case());
  const auto* field =
      chosen == nullptr ? nullptr : chosen->message_type()->FindFieldByName("task_towers");
  if (field == nullptr) return nullptr;
  const bool is_known = field->message_type() == config::TaskTower::descriptor() ||
                        field->message_type() == config::BayesTaskTower::descriptor();
  return is_known ? field : nullptr;
}

TowerSpec whole_model(const config::ModelConfig& model) {
  TowerSpec spec;
  spec.num_class = model.num_class();
  spec.losses.assign(model.losses().begin(), model.losses().end());
  spec.metrics.assign(model.metrics().begin(), model.metrics().end());
  spec.train_metrics.assign(model.train_metrics().begin(), model.train_metrics().end());
  return spec;
}

}  // namespace

std::vector<TowerSpec> towers_of(const config::ModelConfig& model) {
  if (const FieldDescriptor* field = task_towers_of(model)) {
    const Message& settings = model.GetReflection()->GetMessage(
        model, model.GetDescriptor()->FindFieldByNumber(model.model_case()));
    std::vector<TowerSpec> towers;
    for (int i = 0; i < settings.GetReflection()->FieldSize(settings, field); ++i)
      towers.push_back(tower_of(settings.GetReflection()->GetRepeatedMessage(settings, field, i)));
    return towers;
  }
  TowerSpec tower = whole_model(model);
  if (!model.has_rocket_launching()) return {tower};
  tower.name = "light";
  TowerSpec booster = tower;
  booster.name = "booster";
  booster.in_training_only = true;
  booster.metrics.clear();
  booster.train_metrics.clear();
  return {tower, booster};
}

bool has_task_towers(const config::ModelConfig& model) { return task_towers_of(model) != nullptr; }

std::string domain_field_of(const config::ModelConfig& model) {
  return model.pepnet().domain_input_name();
}

int64_t domains_of(const config::ModelConfig& model) {
  return domain_field_of(model).empty() ? 1 : model.pepnet().task_domain_num();
}

}  // namespace emblem
