// train/state/restored.h - a model from a checkpoint, for evaluation and prediction.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/input_ranges.h"
#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "train/predict/evaluation.h"
#include "train/predict/prediction_file.h"
#include "train/run/world.h"

namespace emblem {

// Outputs of a model for all rows of a data set, in their order; NaN for rows that are bad.
struct Predictions {
  std::vector<std::string> columns;  // prediction_columns
  std::vector<float> values;         // [rows, columns]
  PredictionPass pass;
};

// What a restored model is used for. kPrediction: nothing is evaluated, so a matching model samples
// no items, and the vectors of one of its towers need the columns of that tower alone.
enum class RestoredFor { kEvaluation, kPrediction };

class RestoredModel {
 public:
  // `checkpoint`, on this machine, may be a model dir: its latest one is taken. `config` is a
  // pipeline file, or empty for the configuration that the checkpoint holds; `overrides` apply to
  // either. Features and layers mean what they meant in training (config/check/semantics.h); a
  // `config` that asks for something else is refused. Only weights are loaded, no optimizer state.
  //
  // All ranks of `world` make one and call its functions together: each has the rows of tables that
  // a plan gives it and reads its share of the data.
  RestoredModel(const Context& context, const std::string& checkpoint, const std::string& config,
                std::span<const std::string> overrides, const World& world = World::alone(),
                RestoredFor use = RestoredFor::kEvaluation);

  // `input` empty: the configuration's eval_input_path, or the rows that were held out of training;
  // the latter with the settings of training that chose them, others are refused.
  //
  // Here and below, the rows of an `input` that is given are those that fulfil `filters`, all of
  // them if there are none: data_config.filters choose rows of training and of its evaluations. The
  // files are read in their own format, whatever the model was trained on.
  Evaluation evaluate(const std::string& input, const std::vector<std::string>& filters = {},
                      const PassWatch& watch = {});

  // Writes a line for every row of `input`, in their order, to `out`
  // (train/predict/prediction_file.h): `keep` names columns of the input that come before the
  // predictions as they are, `outputs` the outputs of the model (choose_outputs). Labels are not
  // read and may be missing. An interruption is an error; `out` then does not appear. Of several
  // ranks, rank 0 writes the rows of all in their order; what is returned is the sum over all.
  PredictionPass predict(const std::string& input, const std::string& out,
                         const std::vector<std::string>& keep = {},
                         const std::vector<std::string>& outputs = {},
                         const std::vector<std::string>& filters = {}, const PassWatch& watch = {});

  // The same in memory, of one rank.
  Predictions predict(const std::string& input, const std::vector<std::string>& outputs,
                      const PassWatch& watch = {});

  // The same batch by batch: calls `take` with the values of each output, [rows, columns of the
  // output]. Bad rows are in the batches, in their place, and marked in Batch::bad; the columns
  // `keep` are in Batch::kept.
  using TakeOutputs =
      std::function<void(const Batch& batch, const std::vector<std::vector<float>>& values)>;
  PredictionPass predict_batches(const std::string& input, const std::vector<std::string>& outputs,
                                 const std::vector<std::string>& keep,
                                 const std::vector<std::string>& filters, const PassWatch& watch,
                                 const TakeOutputs& take);

  // The rows of `input` without labels, in their order, with what `layout` reads and the columns
  // `keep`. Bad rows are as in predict_batches.
  std::unique_ptr<Loader> read_rows(const std::string& input, const FeatureLayout& layout,
                                    const std::vector<std::string>& keep,
                                    const std::vector<std::string>& filters) const;

  // The ranges of inputs that layers have on the first `rows` rows of `input`, for int8
  // (checkpoint/input_ranges.h). On a CPU, by a model that is not in int8 itself.
  LayerRanges input_ranges(const std::string& input, int64_t rows, const PassWatch& watch = {});

  const config::PipelineConfig& config() const { return config_; }
  Model& model() { return *model_; }
  // The features that predictions read.
  FeatureLayout layout() const;
  const std::string& checkpoint() const { return checkpoint_; }  // that was read
  int64_t step() const { return step_; }                         // step of the checkpoint
  // Storage of the data that is read; it can be given rows in memory (data/source/storage.h).
  const Storage& storage() const { return storage_; }

 private:
  LoaderOptions loader_options(const std::string& input) const;
  LoaderOptions prediction_options(const std::string& input) const;  // that reads no labels
  config::PipelineConfig config_for(const std::string& input,
                                    const std::vector<std::string>& filters) const;

  Context context_;
  const World world_;
  std::string checkpoint_;
  config::PipelineConfig config_;
  Storage storage_;  // storage of the data of config_
  FeatureLayout layout_;
  std::unique_ptr<Model> model_;
  int64_t step_ = 0;
};

}  // namespace emblem
