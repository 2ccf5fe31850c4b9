// config/feature/towers.h - what a model says about each of its targets, whatever the kind of its
// towers. heads_of interprets it.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"

namespace emblem {

struct TowerSpec {
  std::string name;   // "" for a model with one target
  std::string label;  // "": the first of label_fields
  uint32_t num_class = 1;
  std::vector<config::LossConfig> losses;
  std::vector<config::MetricConfig> metrics;
  std::vector<config::TrainMetricConfig> train_metrics;
  float weight = 1.0f;
  std::string sample_weight;  // "": none; the first of the fields for a model with one target
  std::string indicator;      // task_space_indicator_label
  float in_space = 1.0f, out_space = 1.0f;
  std::vector<std::string> relations;  // relation_tower_names
  bool in_training_only = false;
};

// Towers in the order of the file; rocket_launching has "light" and "booster". A model with one
// target has one without a name.
std::vector<TowerSpec> towers_of(const config::ModelConfig& model);

// Whether the model has task_towers.
bool has_task_towers(const config::ModelConfig& model);

// PEPNet's domain_input_name; "" for other models and without domains.
std::string domain_field_of(const config::ModelConfig& model);
int64_t domains_of(const config::ModelConfig& model);

}  // namespace emblem
