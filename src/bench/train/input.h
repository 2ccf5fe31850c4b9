// bench/train/input.h - sources of batches for a training benchmark.
#pragma once

#include <memory>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "data/batch.h"
#include "data/loader/loader.h"
#include "model/model.h"

namespace emblem {

// Not thread-safe.
class TrainInput {
 public:
  virtual ~TrainInput() = default;
  // A batch on the model's device, valid for work enqueued before the next call; null at the end.
  virtual const ModelBatch* next() = 0;
  // The batch after that one if it is being copied to the GPU or is there already; else null.
  virtual const ModelBatch* look_ahead() = 0;
  double waited_seconds() const { return waited_seconds_; }  // for batches, in total
  double loaded_seconds() const {
    return loaded_seconds_;
  }  // part of waited_seconds(): until batches were in host memory

 protected:
  double waited_seconds_ = 0, loaded_seconds_ = 0;
};

// Batches in device memory before timing starts, used round-robin.
std::unique_ptr<TrainInput> input_on_device(const Context& context, std::vector<Batch> batches);
// Batches in host memory, used round-robin and copied to the device at every step as in training.
std::unique_ptr<TrainInput> input_in_memory(const Context& context, std::vector<Batch> batches);
// Batches read from files by the loader.
std::unique_ptr<TrainInput> input_from_files(const Context& context,
                                             const config::PipelineConfig& config,
                                             const FeatureLayout& layout,
                                             const LoaderOptions& options);

}  // namespace emblem
