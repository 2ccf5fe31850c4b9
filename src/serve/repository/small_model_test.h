// serve/repository/small_model_test.h - a small trained model in a repository, to test serving
// with.
#pragma once

#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/math/random.h"
#include "model/check/check.h"
#include "serve/protocol/inference_service.h"
#include "serve/repository/export.h"
#include "train/learner/learner.h"
#include "train/state/run_state.h"

namespace emblem {

// 2 numbers, 3 ids: one of 50 buckets, one hashed, one dynamic.
inline constexpr const char* kSmallPipeline = R"(
train_input_path: "train" eval_input_path: "test" model_dir: "model"
train_config {
  sparse_optimizer { adagrad_optimizer { lr: 0.02 } }
  dense_optimizer { adam_optimizer { lr: 0.002 } }
  num_epochs: 1
}
data_config { dataset_type: CriteoTsvDataset fg_mode: FG_DAG batch_size: 64 }
feature_configs { raw_feature { feature_name: "I1" normalizer: "method=log1p" } }
feature_configs { raw_feature { feature_name: "I2" default_value: "3" } }
feature_configs { id_feature { feature_name: "C1" embedding_dim: 4 num_buckets: 50 } }
feature_configs { id_feature { feature_name: "C2" embedding_dim: 4 hash_bucket_size: 30 } }
feature_configs { id_feature { feature_name: "C3" embedding_dim: 4 dynamicemb { max_capacity: 1000 } } }
model_config {
  feature_groups { group_name: "dense" feature_names: "I1" feature_names: "I2" }
  feature_groups { group_name: "sparse" feature_names: "C1" feature_names: "C2" feature_names: "C3" }
  dlrm { dense_mlp { hidden_units: [8, 4] } final { hidden_units: [16] } }
  losses { binary_cross_entropy {} }
  metrics { auc { thresholds: 0 } }
}
)";

// A repository with model "ctr". Its second version is trained for longer.
class SmallServedModel {
 public:
  // `changes` are overrides of the pipeline.
  explicit SmallServedModel(const std::vector<std::string>& changes = {}) {
    config_ = parse_pipeline(kSmallPipeline, "small.config", changes);
    check_pipeline(config_);
    layout_ = layout_of(config_);
    learner_ = std::make_unique<Learner>(Context{}, config_, layout_, 64);
    train(20);
    export_version();
  }

  std::string repository() const { return folder_.path("repository"); }
  std::string model_folder() const { return repository() + "/ctr"; }
  std::string checkpoint() const { return checkpoint_; }

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      constexpr int64_t kRows = 64;
      std::vector<float> dense(kRows * 2), labels(kRows);
      std::vector<int64_t> keys[3];
      for (auto& column : keys) column.resize(kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        dense[row * 2] = random_.uniform();
        dense[row * 2 + 1] = random_.uniform();
        keys[0][row] = static_cast<int64_t>(random_.below(50));
        keys[1][row] = static_cast<int64_t>(random_.below(30));
        keys[2][row] = static_cast<int64_t>(random_.below(200)) * 1'000'003;
        labels[row] = static_cast<float>(keys[0][row] % 2);
      }
      std::vector<FeatureKeys> sparse;
      for (auto& column : keys) sparse.push_back({{column.data(), kRows, 1}, {}, {}});
      ModelBatch batch{.rows = kRows, .sparse = sparse};
      batch.dense = {dense.data(), kRows, 2};
      batch.labels = {labels.data(), kRows, 1};
      learner_->step(batch, 0);
    }
  }

  ExportedModel export_version() {
    checkpoint_ = save_run(folder_.path("model"), *learner_, {}, config_);
    return export_model(checkpoint_, model_folder());
  }

 private:
  const TempFolder folder_;
  config::PipelineConfig config_;
  FeatureLayout layout_;
  std::unique_ptr<Learner> learner_;
  std::string checkpoint_;
  Random random_{5};
};

// Raw values of some rows, and requests for them.
struct SmallRows {
  std::vector<float> numbers;  // [rows, 2]
  std::vector<int64_t> ids;    // [rows, 3]

  static SmallRows random(int64_t rows, uint64_t seed) {
    SmallRows result;
    Random random{seed};
    for (int64_t row = 0; row < rows; ++row) {
      result.numbers.push_back(10 * random.uniform());
      result.numbers.push_back(row % 5 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                            : random.uniform());
      result.ids.push_back(static_cast<int64_t>(random.below(50)));
      result.ids.push_back(static_cast<int64_t>(random.below(1000)));
      result.ids.push_back(static_cast<int64_t>(random.below(220)) * 1'000'003);
    }
    return result;
  }

  int64_t rows() const { return static_cast<int64_t>(ids.size()) / 3; }

  // Points into *this.
  std::unique_ptr<InferRequest> request(int64_t begin, int64_t count) const {
    auto request = std::make_unique<InferRequest>();
    request->model = "ctr";
    const auto bytes = [](const auto* data, int64_t size) {
      return std::as_bytes(std::span(data, static_cast<size_t>(size)));
    };
    request->inputs = {{"numerical_features",
                        DataType::kFp32,
                        {count, 2},
                        bytes(numbers.data() + begin * 2, count * 2)},
                       {"categorical_features",
                        DataType::kInt64,
                        {count, 3},
                        bytes(ids.data() + begin * 3, count * 3)}};
    return request;
  }
};

inline std::vector<float> floats_of(const OutputTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

inline InferResult infer(InferenceService& service, std::unique_ptr<InferRequest> request) {
  std::promise<InferResult> promise;
  service.infer(std::move(request),
                [&](InferResult result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

// The probabilities, or what went wrong as a test failure.
inline std::vector<float> probabilities(InferenceService& service,
                                        std::unique_ptr<InferRequest> request) {
  const InferResult result = infer(service, std::move(request));
  if (const auto* error = std::get_if<Error>(&result)) {
    ADD_FAILURE() << error->what();
    return {};
  }
  return floats_of(std::get<InferResponse>(result).outputs.at(0));
}

inline std::string error_of(const InferResult& result) {
  const auto* error = std::get_if<Error>(&result);
  return error == nullptr ? "" : error->what();
}

}  // namespace emblem
