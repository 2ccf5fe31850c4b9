// bench/train/input.h - where the batches of a training benchmark come from.
#pragma once

#include <memory>
#include <vector>

#include "config/features.h"
#include "config/pipeline.pb.h"
#include "data/batch.h"
#include "data/loader/loader.h"
#include "model/model.h"

namespace emblem {

// One thread uses it.
class TrainInput {
 public:
  virtual ~TrainInput() = default;
  // On the model's device, for work enqueued until the next call; null at the end.
  virtual const ModelBatch* next() = 0;
  // The batch behind that one, where it is on its way to a GPU or there already; else null.
  virtual const ModelBatch* look_ahead() = 0;
  double waited_seconds() const { return waited_seconds_; }  // for batches, since it was made
  double loaded_seconds() const { return loaded_seconds_; }  // of these: for them to be in memory

 protected:
  double waited_seconds_ = 0, loaded_seconds_ = 0;
};

// In the memory of the device before the clock starts, used in turn.
std::unique_ptr<TrainInput> input_on_device(const Context& context, std::vector<Batch> batches);
// In host memory, used in turn, copied to the device at every step as training does.
std::unique_ptr<TrainInput> input_in_memory(const Context& context, std::vector<Batch> batches);
// From files, by the loader.
std::unique_ptr<TrainInput> input_from_files(const Context& context,
                                             const config::PipelineConfig& config,
                                             const FeatureLayout& layout,
                                             const LoaderOptions& options);

}  // namespace emblem
