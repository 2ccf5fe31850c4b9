// train/run/intervals.h - what is due after a training step.
#pragma once

#include <cstdint>

#include "config/proto/pipeline.pb.h"
#include "data/batch.h"

namespace emblem {

// Where a step leaves the data.
struct StepEnd {
  bool last_in_epoch = false;
  int64_t next_epoch = 0;  // epoch of the next batch
  int64_t unix_ms = 0;     // Batch::unix_ms
};
StepEnd end_of(const Batch& batch);

struct Due {
  bool log = false, evaluation = false, checkpoint = false, delta = false;
};

class Intervals {
 public:
  // `max_steps` 0: as long as the configuration says.
  Intervals(const config::PipelineConfig& config, int64_t max_steps);

  // What is due after step number `step` (from 1), which ended so. `stream_unix_ms` is the
  // newest Batch::unix_ms before it; 0: there was none.
  Due after(int64_t step, const StepEnd& end, int64_t stream_unix_ms = 0) const;
  // Whether that was the last step of the run, unless a metric ends it earlier.
  bool ends_after(int64_t step, const StepEnd& end) const;

  // Steps that are left after `step`; -1: as many as the data have.
  int64_t steps_left(int64_t step) const;

 private:
  config::TrainConfig train_;
  bool evaluates_;
  int64_t max_steps_;  // 0: no limit
};

}  // namespace emblem
