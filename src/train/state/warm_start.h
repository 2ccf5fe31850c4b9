// train/state/warm_start.h - the weights of a checkpoint as the beginning of another run.
#pragma once

#include <string>
#include <vector>

#include "train/learner/learner.h"

namespace emblem {

// kAll: every table and dense parameter of either side must match one of the other by name and
// shape. kPartial: those that do not match keep their initial values.
enum class WarmStart { kAll, kPartial };

struct WarmStartSummary {
  std::string checkpoint;
  int64_t step = 0;                              // step of the checkpoint
  int64_t tables = 0, rows = 0, parameters = 0;  // that were loaded
  std::vector<std::string> fresh;                // parts of the model: "table user", with a reason
  std::vector<std::string> unused;               // parts of the checkpoint
};

// Loads table rows, dense parameters and running statistics, but no optimizer state, schedules or
// steps, from a checkpoint or the latest one of a model dir. The models need not be of one type.
// Verifies and compares everything before anything is loaded; throws Error when the checkpoint is
// damaged or, with kAll, something does not match.
WarmStartSummary load_weights(const std::string& checkpoint, Learner& learner, WarmStart mode);

// "initialized from m/model.ckpt-100: 26 tables with 5.35 k rows and 8 dense tensors", and what
// did not match, in one line.
std::string to_text(const WarmStartSummary& summary);

}  // namespace emblem
