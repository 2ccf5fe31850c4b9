#include "init/training_choice.h"

#include <algorithm>
#include <bit>

namespace emblem {

TrainingChoice choose_training(double rows, LabelTask task) {
  TrainingChoice made;
  const auto steps_of_200 = static_cast<uint64_t>(std::max(1.0, rows / 200));
  made.batch = static_cast<int64_t>(std::clamp<uint64_t>(std::bit_floor(steps_of_200), 32, 4096));
  made.epochs = rows < 2e3   ? 200
                : rows < 2e4 ? 100
                : rows < 2e5 ? 50
                : rows < 2e6 ? 20
                : rows < 2e7 ? 5
                             : 1;
  made.patience = rows < 2e4 ? 10 : rows < 2e5 ? 4 : 2;
  // Few rows are few steps an epoch; what is learned of them by heart must not count much.
  if (rows < 5e4) {
    made.sparse_lr = 0.03;
    made.weight_l2 = 1e-4;
    // Numbers may be learned to many digits, which noise does not allow.
    made.dropout = task == LabelTask::kNumber ? 0 : 0.2;
  }
  // Over about two epochs, of which the last batches count less by chance. Of few rows the first
  // epochs are the best, and averages come too late.
  const double steps = rows / static_cast<double>(made.batch);
  if (rows >= 3e3 && rows < 2e6) made.average = 1 - 1 / std::min(2 * steps, 1000.0);
  made.bins = rows < 5e3 ? 0 : 32;  // of few rows, bins learn what is noise
  made.shuffled_batches = rows < 1e6 ? 256 : 64;
  made.ensemble = rows < 2e4 ? 4 : 1;
  made.embedding_dim = rows < 1e4 ? 4 : rows < 1e6 ? 8 : 16;
  if (rows < 5e3)
    made.hidden = {32, 16};
  else if (rows < 5e4)
    made.hidden = {64, 32};
  else if (rows < 2e6)
    made.hidden = {128, 64};
  else
    made.hidden = {256, 128, 64};
  return made;
}

const char* stopping_metric(LabelTask task) {
  return task == LabelTask::kNumber ? "mean_squared_error" : "log_loss";
}

}  // namespace emblem
