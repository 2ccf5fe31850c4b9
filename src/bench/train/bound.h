// bench/train/bound.h - what a training step waits for most, and what to do about it.
#pragma once

#include <string>

#include "core/device.h"
#include "core/half.h"
#include "model/model.h"

namespace emblem {

enum class Bound {
  kData,       // reading and decoding
  kCopy,       // to the GPU
  kDense,      // layers
  kEmbedding,  // lookups, and the update of their rows
  kLaunch,     // what a step costs whatever its batch
};
const char* name_of(Bound bound);  // "data", "copy", ...

// A step as it was measured; seconds.
struct StepTimes {
  double step = 0;
  StageSeconds stages;
  StageSeconds fixed_share;       // of each stage, what does not depend on the batch
  double load = 0, transfer = 0;  // waiting for the batch
  // A GPU loads and copies beside its other work: a step whose batch was there already shows how
  // much of that is in the way. 0, on a CPU: all of it is.
  double resident_step = 0;
};

// Where the time goes, in shares of the step that sum to 1.
struct StepShares {
  double data = 0, copy = 0, dense = 0, embedding = 0, launch = 0;
  double of(Bound bound) const;
};

// What depends on the batch in the stages is dense and embedding; what does not, and time that no
// stage accounts for, is launch.
StepShares shares_of(const StepTimes& times);

Bound bound_of(const StepShares& shares);  // the largest share

// What matters to the advice.
struct StepCircumstances {
  Device device = Device::kCpu;
  DType precision = DType::kF32;
  bool cached_rows = false;  // rows in host memory, cached on the GPU
};

// "Bound by dense: 71 % of a step are layers ... Narrower layers ... help."
std::string explain_bound(const StepShares& shares, const StepCircumstances& circumstances);

}  // namespace emblem
