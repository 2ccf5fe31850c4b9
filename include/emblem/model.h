// emblem/model.h - a trained model: evaluates and predicts rows, becomes a model that servers load.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emblem/api.h"
#include "emblem/data.h"
#include "emblem/pipeline.h"

namespace emblem {
EMBLEM_PUBLIC {
  struct ModelOptions {
    std::string device = "cpu";  // or "cuda"
    int threads = 0;             // compute threads; 0: one per CPU
    std::string precision;       // "fp32", "bf16", "fp16"; empty: as in training
    // Asked now and then by evaluate() and predict(); true ends them with an Error of kCancelled.
    std::function<bool()> is_cancelled;
    // Rows so far and rows in all (0: not known); may be empty.
    std::function<void(int64_t rows, int64_t expected_rows)> on_progress;
  };

  struct Evaluation {
    std::map<std::string, double> metrics;  // "auc", "log_loss"; NaN where undefined
    int64_t rows = 0;
    int64_t bad_rows = 0;  // skipped
    double seconds = 0;
  };

  // The rows that an evaluation read, bad ones not included.
  struct EvaluatedRows {
    int64_t rows = 0;
    std::span<const float> labels;       // [rows, labels of the pipeline], NaN where a row has none
    std::span<const float> predictions;  // [rows, columns], as Model::predict gives them
  };

  // Metrics that the caller computes, beside those of the pipeline: values by name.
  struct OwnMetrics {
    std::vector<std::string> names;
    std::function<std::map<std::string, double>(const EvaluatedRows& rows)> compute;
  };

  struct Predictions {
    // "prediction" for a model of one probability or number; else a name per output and class.
    std::vector<std::string> columns;
    int64_t rows = 0;
    std::vector<float> values;  // [rows, columns], in the order of the rows; NaN for bad ones
  };

  // Thread-safe: calls wait for each other.
  class EMBLEM_API Model {
   public:
    // A checkpoint, or a model dir: its latest one; addresses of stores are fetched first. Loads
    // weights alone.
    explicit Model(const std::string& checkpoint, const ModelOptions& options = {});
    ~Model();
    Model(Model&&) noexcept;
    Model& operator=(Model&&) noexcept;

    // Data without rows: what the model's pipeline evaluates on. Labels are needed.
    Evaluation evaluate(const Data& data = {}, const OwnMetrics& own_metrics = {});
    // A prediction for each row. Labels are not read and may be missing. `outputs` names outputs of
    // the model, as "probs_ctr"; empty: a probability, number or class probabilities of each tower.
    Predictions predict(const Data& data, const std::vector<std::string>& outputs = {});

    // Writes a version of a model that servers load into the folder REPOSITORY/NAME. The folder of
    // the version.
    std::string export_to(const std::string& folder) const;
    // Writes model.onnx into a new folder (docs/onnx.md), with these outputs, as predict names them;
    // empty: the default ones.
    void export_onnx(const std::string& folder, const std::vector<std::string>& outputs = {}) const;

    Pipeline pipeline() const;
    std::string checkpoint() const;  // its folder
    int64_t step() const;

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
