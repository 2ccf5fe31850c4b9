// config/feature/heads.h - what a model predicts: one head for each label it learns. Checks,
// models, metrics, predictions and servers go by it.
#pragma once

#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "loss/formula.h"

namespace emblem {

struct HeadSpec {
  // What its logits are.
  enum class Role {
    kPrediction,  // of a label
    kRanks,       // of a matching model: a CandidateRank for each row
    kVector,      // vectors of a tower of a matching model, which others search
  };

  std::string name;  // the tower; "" for a model with one head
  Role role = Role::kPrediction;
  HeadKind kind = HeadKind::kBinary;
  int64_t classes = 1;         // logits, in each domain
  int64_t label = 0;           // column of Batch::labels
  float weight = 1.0f;         // weight of its losses in the sum
  int64_t sample_weight = -1;  // column of Batch::sample_weights; -1: all 1
  // Column of Batch::labels; rows where it is above 0 have the weight in_space, others out_space.
  int64_t indicator = -1;
  float in_space = 1.0f, out_space = 1.0f;
  // PEPNet: the head has domains * classes logits, and a row learns those of the domain that column
  // `domain` of Batch::labels names. 1 and -1: all rows are alike.
  int64_t domains = 1;
  int64_t domain = -1;
  // Rocket launching's booster: it has losses, but no metrics and no outputs.
  bool in_training_only = false;
  // kNumber: the output is label_mean + label_deviation * the logit (l2_loss).
  float label_mean = 0.0f, label_deviation = 1.0f;
  std::vector<config::LossConfig> losses;  // at least one
  std::vector<config::MetricConfig> metrics;
  std::vector<config::TrainMetricConfig> train_metrics;

  // "auc" -> "auc_ctr" for the tower "ctr".
  std::string named(const std::string& what) const {
    return name.empty() ? what : what + "_" + name;
  }
};

// Heads of a pipeline that has passed check_pipeline, in the order of its towers.
std::vector<HeadSpec> heads_of(const config::PipelineConfig& config, const FeatureLayout& layout);

// A matrix that predictions and servers give out.
struct OutputSpec {
  enum class Value {
    kProbability,    // [rows, 1]: of label 1
    kProbabilities,  // [rows, classes]
    kLogits,         // [rows, classes]; vectors of a tower
    kNumber,         // [rows, 1]
  };
  std::string name;  // "probs_ctr", as TorchEasyRec names it
  int64_t head = 0;
  Value value = Value::kProbability;
  int64_t cols = 1;
  int64_t domain = 0;                   // its logits are those of the head from domain * classes on
  float mean = 0.0f, deviation = 1.0f;  // kNumber: mean + deviation * the logit
};

// What is given out unless others are asked for. A model with one head of HeadKind::kBinary has one
// output, "probability".
std::vector<OutputSpec> default_outputs(const std::vector<HeadSpec>& heads);
// All that can be asked for: also "logits", "probs" and their forms for towers.
std::vector<OutputSpec> all_outputs(const std::vector<HeadSpec>& heads);

}  // namespace emblem
