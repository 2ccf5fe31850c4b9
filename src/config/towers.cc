#include "config/towers.h"

namespace emblem {
namespace {

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

TowerSpec tower_of(const config::TaskTower& tower) { return shared_of(tower); }

TowerSpec tower_of(const config::BayesTaskTower& tower) {
  TowerSpec spec = shared_of(tower);
  spec.relations.assign(tower.relation_tower_names().begin(), tower.relation_tower_names().end());
  return spec;
}

template <class Towers>
std::vector<TowerSpec> all_of(const Towers& towers) {
  std::vector<TowerSpec> specs;
  for (const auto& tower : towers) specs.push_back(tower_of(tower));
  return specs;
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
  if (model.has_mmoe()) return all_of(model.mmoe().task_towers());
  if (model.has_ple()) return all_of(model.ple().task_towers());
  if (model.has_dbmtl()) return all_of(model.dbmtl().task_towers());
  if (model.has_pepnet()) return all_of(model.pepnet().task_towers());
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

bool has_task_towers(const config::ModelConfig& model) {
  return model.has_mmoe() || model.has_ple() || model.has_dbmtl() || model.has_pepnet();
}

std::string domain_field_of(const config::ModelConfig& model) {
  return model.pepnet().domain_input_name();
}

int64_t domains_of(const config::ModelConfig& model) {
  return domain_field_of(model).empty() ? 1 : model.pepnet().task_domain_num();
}

}  // namespace emblem
