// bench/train/bound.h - what bounds a training step, and what to change.
#pragma once

#include <string>

#include "core/device/device.h"
#include "core/math/half.h"
#include "model/model.h"

namespace emblem {

enum class Bound {
  kData,       // reading and decoding
  kCopy,       // to the GPU
  kDense,      // layers
  kEmbedding,  // lookups and updates of rows
  kLaunch,     // costs that do not depend on the batch
};
const char* name_of(Bound bound);  // "data", "copy", ...

// Measured times of a step, in seconds.
struct StepTimes {
  double step = 0;
  StageSeconds stages;
  StageSeconds fixed_share;       // share of each stage that does not depend on the batch
  double load = 0, transfer = 0;  // waiting for the batch
  // On a GPU, loading and copying overlap with the step: a step whose batch is already in device
  // memory shows how much of them does not overlap. 0 (CPU): nothing overlaps.
  double resident_step = 0;
};

// Shares of the time of a step; they sum to 1.
struct StepShares {
  double data = 0, copy = 0, dense = 0, embedding = 0, launch = 0;
  double of(Bound bound) const;
};

// Dense and embedding are the parts of the stages that depend on the batch; launch is the rest of
// the stages and the time outside of all stages.
StepShares shares_of(const StepTimes& times);

Bound bound_of(const StepShares& shares);  // the largest share

// What the advice depends on.
struct StepCircumstances {
  Device device = Device::kCpu;
  DType precision = DType::kF32;
  bool cached_rows = false;  // rows in host memory, cached on the GPU
};

// "Bound by dense: 71 % of the time is spent in layers ... Narrower layers ... help."
std::string explain_bound(const StepShares& shares, const StepCircumstances& circumstances);

}  // namespace emblem
