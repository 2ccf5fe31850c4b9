// bench/train/probe.h - additional measurements of a training step.
#pragma once

#include "train/learner.h"

namespace emblem {

struct StepProbe {
  // Of each stage, the share that does not depend on the batch, 0 to 1: its time for one row.
  StageSeconds fixed_share;
  double resident_step = 0;  // on a GPU: seconds of a step whose batch is in device memory
  double batch_bytes = 0;
  double loss_seconds = 0;   // of a forward pass
  double gradient_norm = 0;  // of dense weights and embeddings together, before clipping
};

// Runs further training steps on `batch` and on its first row.
StepProbe probe_step(Learner& learner, const ModelBatch& batch);

}  // namespace emblem
