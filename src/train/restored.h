// train/restored.h - a model from a checkpoint, for evaluation and prediction.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "train/evaluation.h"
#include "train/learner.h"

namespace emblem {

class RestoredModel {
 public:
  // `checkpoint` may be a model dir: its latest one is taken. `config` is a pipeline file, or empty
  // for the configuration that the checkpoint holds; `overrides` apply to either. Features and
  // layers mean what they meant in training (config/semantics.h); a `config` that asks for
  // something else is refused.
  RestoredModel(const Context& context, const std::string& checkpoint, const std::string& config,
                std::span<const std::string> overrides);

  // `input` empty: the configuration's eval_input_path, or the rows that were held out of training.
  Evaluation evaluate(const std::string& input);

  // Writes "prediction" and a line a row, in the order of the rows and with all digits of the
  // float; returns their number. Labels are not read and may be missing. `out` appears only when it
  // is complete: not after an error, nor when it was interrupted, which is an error, too.
  int64_t predict(const std::string& input, const std::string& out);

  const config::PipelineConfig& config() const { return config_; }
  Model& model() { return learner_->model(); }

 private:
  LoaderOptions loader_options(const std::string& input) const;

  Context context_;
  config::PipelineConfig config_;
  FeatureLayout layout_;
  std::unique_ptr<Learner> learner_;
};

// {"auc": 0.8, "log_loss": 0.45, "rows": 1000}
std::string to_json(const Evaluation& evaluation);

}  // namespace emblem
