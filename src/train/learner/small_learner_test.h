// train/learner/small_learner_test.h - small models that learn from random batches, for tests on
// every device.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "config/load/load.h"
#include "core/math/random.h"
#include "core/memory/host_copy.h"
#include "data/batch.h"
#include "model/lookup/feed.h"
#include "train/learner/learner.h"

namespace emblem {

inline constexpr int64_t kMaxRows = 300;
inline constexpr int64_t kKeys = 400;
inline constexpr int kDense = 4, kSparse = 6;

struct ModelCase {
  std::string name, groups, model;
};
inline std::ostream& operator<<(std::ostream& out, const ModelCase& c) { return out << c.name; }

inline std::vector<ModelCase> model_cases() {
  const std::string wide = R"(feature_groups { group_name: "wide" group_type: WIDE
                                feature_names: "C{1..6}" feature_names: "I{1..4}" } )";
  const std::string deep = R"(feature_groups { group_name: "deep"
                                feature_names: "I{1..4}" feature_names: "C{1..6}" } )";
  const std::string dlrm = R"(feature_groups { group_name: "dense" feature_names: "I{1..4}" }
                              feature_groups { group_name: "sparse" feature_names: "C{1..6}" } )";
  const std::string mlp = "hidden_units: [32, 16]";
  return {
      {"Lr", wide, "lr {}"},
      {"Fm", wide + deep, "fm {}"},
      {"Dnn", deep, "dnn { deep { " + mlp + " use_ln: true dropout_ratio: 0.2 } }"},
      {"WideAndDeep", wide + deep,
       "wide_and_deep { deep { " + mlp + " } final { hidden_units: [8] } }"},
      {"DeepFm", wide + deep, "deepfm { deep { " + mlp + " } }"},
      {"DcnV1", deep, "dcn_v1 { cross { cross_num: 2 } deep { " + mlp + " } }"},
      {"DcnV2", deep,
       "dcn_v2 { cross { cross_num: 2 low_rank: 8 } deep { " + mlp + " use_bn: true } }"},
      {"DlrmWithCross", dlrm,
       "dlrm { dense_mlp { hidden_units: [16, 8] } final { " + mlp +
           " } arch_with_sparse: false cross { cross_num: 2 low_rank: 8 } }"},
      {"Dlrm", dlrm, "dlrm { dense_mlp { hidden_units: [16, 8] } final { " + mlp + " } }"},
  };
}

inline config::PipelineConfig pipeline(const ModelCase& of, const std::string& extra = "") {
  return parse_pipeline(cat(R"(
train_config {
  sparse_optimizer { adagrad_optimizer { lr: 0.05 } }
  dense_optimizer { adam_optimizer { lr: 0.01 } }
  )",
                            extra, R"(
}
data_config { dataset_type: RawDataset fg_mode: FG_DAG batch_size: 64 label_fields: "label" }
feature_configs { raw_feature { feature_name: "I{1..4}" } }
feature_configs { id_feature { feature_name: "C{1..3}" embedding_dim: 8 num_buckets: 400 } }
feature_configs { id_feature { feature_name: "C{4..6}" embedding_dim: 8
                               dynamicemb { max_capacity: 1000 score_strategy: "NO_EVICTION" } } }
model_config { )",
                            of.groups, of.model, " }"),
                        "test");
}

// Labels follow from the first key and the first number; the last feature has bags.
inline Batch batch_of(uint64_t number, int64_t rows) {
  Batch batch;
  batch.rows = rows;
  Random random{7, number};
  for (int64_t i = 0; i < rows * kDense; ++i) batch.dense.push_back(random.normal());
  batch.sparse.resize(kSparse);
  for (int64_t r = 0; r < rows; ++r) {
    for (int f = 0; f < kSparse; ++f) batch.sparse[f].keys.push_back(random.below(kKeys));
    const int64_t key = batch.sparse[0].keys.back();
    batch.labels.push_back(key % 2 == 0 || batch.dense[r * kDense] > 1.0f ? 1.0f : 0.0f);
  }
  SparseColumn& bags = batch.sparse.back();
  bags.keys.clear();
  bags.offsets.push_back(0);
  for (int64_t r = 0; r < rows; ++r) {
    for (uint64_t k = random.below(4); k > 0; --k) bags.keys.push_back(random.below(kKeys));
    bags.offsets.push_back(static_cast<int32_t>(bags.keys.size()));
  }
  return batch;
}

// A learner and what it needs, on one device.
struct Training {
  config::PipelineConfig config;
  FeatureLayout layout;
  Learner learner;
  Feed feed;

  Training(const Context& context, const config::PipelineConfig& config)
      : config(config),
        layout(layout_of(config)),
        learner(context, config, layout, kMaxRows),
        feed(context) {}

  // Batches of different sizes, the largest first or not.
  std::vector<double> losses(int steps) {
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
      const auto number = static_cast<uint64_t>(learner.steps());
      const int64_t rows = number % 5 == 4 ? 1 + static_cast<int64_t>(number) : 200 + number % 2;
      losses.push_back(learner.step(feed.set(batch_of(number, rows)), 0).loss);
    }
    return losses;
  }
  std::vector<float> logits(uint64_t number) {
    Model& model = learner.model();
    model.forward(learner.context(), feed.set(batch_of(number, 100)), Phase::kEval, 0);
    const auto logits = to_host(learner.context(), model.logits());
    model.check(learner.context());
    return logits;
  }
};

}  // namespace emblem
