// data/loader/batch_planner.h - decides which rows of which pieces make which batch. No threads and
// no bytes: the loader feeds it pieces in order and gets plans of batches in order.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "data/batch.h"
#include "data/feature/row_gather.h"

namespace emblem {

// A decoded piece that waits for its rows to be given out.
struct ReadyPiece {
  Batch features;
  int64_t rows_left = 0;    // not yet put into batches; kept by the loader
  bool ends_epoch = false;  // the last one of its epoch
  int64_t run = -1;         // StoredRows::run, where batches have it
};

// runs[i].source is an index into `sources`.
struct BatchPlan {
  std::vector<ReadyPiece*> sources;
  std::vector<RowRun> runs;
  DataPosition next;
  bool last_in_epoch = false;
};

// Rows pass through windows that follow each other. With shuffling, a window holds rows of several
// pieces and gives them out in random turns, each piece's rows in their order: as the rows of each
// piece are decoded in random order, this is a uniform shuffle, and it reads memory forwards. The
// turns depend on the seed, the epoch and the number of rows before the window. Without shuffling,
// every piece is a window. So a position is a window's start and the number of rows taken from it.
class BatchPlanner {
 public:
  struct Options {
    int64_t batch_size = 1024;
    int64_t window_rows = 0;  // 0: no shuffling
    bool drop_remainder = false;
    uint64_t seed = 1;
    bool filtered = false;  // data_config.filters are set, for messages
    // Ends after this number of epochs in a row without a batch. 0: such an epoch is an error.
    int64_t most_empty_epochs = 0;
    DataPosition start;
  };

  explicit BatchPlanner(const Options& options);

  // Takes the next piece in order; its rows must stay until they are in batches. Appends the plans
  // that are certain now to `plans`, and to `dropped` rows that no plan will name. Throws Error
  // when an epoch has no rows, or too few for one batch, and must not be empty.
  void add(ReadyPiece* piece, std::deque<BatchPlan>& plans, BatchPlan& dropped);

  // No batch will follow: add() is not called any more.
  bool has_ended() const {
    return empty_epochs_ > 0 && empty_epochs_ == options_.most_empty_epochs;
  }

 private:
  struct Window {
    std::vector<ReadyPiece*> pieces;
    std::vector<RowRun> runs;  // source: an index into pieces
    int64_t rows = 0;
    int64_t taken_rows = 0;
    size_t taken_runs = 0;     // whole runs taken
    int64_t taken_of_run = 0;  // rows taken of the run after those
    int64_t start_piece = 0;
    int64_t start_row = 0;
  };

  void close_window();
  void take_rows(int64_t rows, BatchPlan& plan);
  void plan_batches(std::deque<BatchPlan>& plans);
  void finish_epoch(std::deque<BatchPlan>& plans, BatchPlan& dropped);
  void require_may_be_empty() const;
  DataPosition position() const;

  Options options_;
  int64_t epoch_;
  int64_t next_piece_;      // index of the piece that add() takes next
  int64_t skip_;            // rows of that piece in front of the first window
  int64_t skip_of_window_;  // rows of the first window that were given out before
  int64_t rows_in_epoch_;
  int64_t empty_epochs_ = 0;   // without a batch, up to the last one that has ended
  int64_t windowed_rows_;      // rows of this epoch in front of the open window
  int64_t available_ = 0;      // rows of closed windows that are in no batch yet
  Window open_;                // fills up
  std::deque<Window> closed_;  // ordered, being taken from
};

}  // namespace emblem
