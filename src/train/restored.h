// train/restored.h - a model from a checkpoint, for evaluation and prediction.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/input_ranges.h"
#include "config/features.h"
#include "config/pipeline.pb.h"
#include "train/evaluation.h"
#include "train/prediction_file.h"
#include "train/world.h"

namespace emblem {

class RestoredModel {
 public:
  // `checkpoint`, on this machine, may be a model dir: its latest one is taken. `config` is a
  // pipeline file, or empty for the configuration that the checkpoint holds; `overrides` apply to
  // either. Features and layers mean what they meant in training (config/semantics.h); a `config`
  // that asks for something else is refused. Only weights are loaded, no optimizer state.
  //
  // With `world`, which outlives it, all ranks make one and call its functions together: each has
  // the rows of tables that a plan gives it and reads its share of the data.
  RestoredModel(const Context& context, const std::string& checkpoint, const std::string& config,
                std::span<const std::string> overrides, const World* world = nullptr);

  // `input` empty: the configuration's eval_input_path, or the rows that were held out of training;
  // the latter with the settings of training that chose them, others are refused.
  //
  // Here and below, the rows of an `input` that is given are those that fulfil `filters`, all of
  // them if there are none: data_config.filters choose rows of training and of its evaluations. The
  // files are read in their own format, whatever the model was trained on.
  Evaluation evaluate(const std::string& input, const std::vector<std::string>& filters = {});

  // Writes a line for every row of `input`, in their order, to `out` (train/prediction_file.h):
  // `keep` names columns of the input that come before the predictions as they are, `outputs` the
  // outputs of the model (choose_outputs). Labels are not read and may be missing. An interruption
  // is an error; `out` then does not appear. Of several ranks, rank 0 writes the rows of all in
  // their order; what is returned is the sum over all.
  PredictionPass predict(const std::string& input, const std::string& out,
                         const std::vector<std::string>& keep = {},
                         const std::vector<std::string>& outputs = {},
                         const std::vector<std::string>& filters = {});

  // The ranges of inputs that layers have on the first `rows` rows of `input`, for int8
  // (checkpoint/input_ranges.h). On a CPU, by a model that is not in int8 itself.
  LayerRanges input_ranges(const std::string& input, int64_t rows);

  const config::PipelineConfig& config() const { return config_; }
  Model& model() { return *model_; }
  const std::string& checkpoint() const { return checkpoint_; }  // that was read
  int64_t step() const { return step_; }                         // of the checkpoint

 private:
  LoaderOptions loader_options(const std::string& input) const;
  config::PipelineConfig config_for(const std::string& input,
                                    const std::vector<std::string>& filters) const;
  std::optional<PredictionPass> predict_on_ranks(const config::PipelineConfig& config,
                                                 const LoaderOptions& options,
                                                 const std::vector<HeadSpec>& heads,
                                                 const std::vector<OutputSpec>& outputs,
                                                 PredictionFile* file);

  Context context_;
  const World* world_;
  std::string checkpoint_;
  config::PipelineConfig config_;
  Storage storage_;  // of the data of config_
  FeatureLayout layout_;
  std::unique_ptr<Model> model_;
  int64_t step_ = 0;
};

}  // namespace emblem
