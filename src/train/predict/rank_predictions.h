// train/predict/rank_predictions.h - predictions of several ranks as one file, in the order of the
// data set.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/feature/heads.h"
#include "core/files/byte_io.h"
#include "train/predict/prediction_file.h"

namespace emblem {

// Rank r predicts stream r of as many as there are ranks. Rank 0 writes; it holds what comes before
// its turn: the runs (StoredRows) of one round of all ranks. A single rank writes its batches as
// they come. One thread uses it.
class RankPredictions {
 public:
  // `file` is that of rank 0, null on the others; it outlives this.
  RankPredictions(Communicator& ranks, std::vector<HeadSpec> heads, std::vector<OutputSpec> outputs,
                  PredictionFile* file);

  // Adds a batch of this rank's stream; of several ranks with Batch::stored.
  void add(const Batch& batch, const std::vector<View<const float>>& logits);
  // Sends to rank 0 what was added since the last call. Collective.
  void send();
  // Called after the last send(). On rank 0: writes the rest.
  void finish();

 private:
  // Rows of a run.
  struct Part {
    int64_t run = 0;
    Batch batch;  // rows, bad, kept
    std::vector<std::vector<float>> values;
  };

  void read_parts(std::string_view bytes, std::deque<Part>& parts) const;
  void write_in_order();

  Communicator& ranks_;
  const std::vector<HeadSpec> heads_;
  const std::vector<OutputSpec> outputs_;
  PredictionFile* const file_;
  ByteWriter unsent_;
  // Rank 0.
  std::vector<std::deque<Part>> waiting_;  // by rank, in the order of runs
  int64_t next_run_ = 0;                   // that is written, or whose rest is waited for
};

}  // namespace emblem
