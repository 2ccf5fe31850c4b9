// init/training_choice.h - how large a first model is and how it is trained.
#pragma once

#include <cstdint>
#include <vector>

#include "init/label_choice.h"

namespace emblem {

struct TrainingChoice {
  int64_t batch = 0, epochs = 0, shuffled_batches = 0;
  int64_t patience = 0;  // evaluations without a gain, one an epoch
  double sparse_lr = 0.02, dense_lr = 0.001;
  double weight_l2 = 0;  // of layers and embeddings
  double dropout = 0;
  double average = 0;  // decay of the moving average of layers that is evaluated; 0: none
  int64_t bins = 0;    // of a number, at most
  int64_t embedding_dim = 8;
  std::vector<int64_t> hidden;
  int64_t ensemble = 1;

  bool operator==(const TrainingChoice&) const = default;
};

// What suits about `rows` rows.
TrainingChoice choose_training(double rows, LabelTask task);

// The metric that decides when to stop: a loss, not AUC or accuracy, which change by chance where
// few rows are evaluated.
const char* stopping_metric(LabelTask task);

}  // namespace emblem
