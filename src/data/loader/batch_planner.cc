#include "data/loader/batch_planner.h"

#include <algorithm>

#include "data/format/decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr uint32_t kNoSource = 0xffffffffu;

}  // namespace

BatchPlanner::BatchPlanner(const Options& options)
    : options_(options),
      epoch_(options.start.epoch),
      next_piece_(options.start.piece),
      skip_(options.start.row),
      skip_of_window_(options.start.emitted),
      rows_in_epoch_(options.start.rows_in_epoch),
      windowed_rows_(options.start.rows_in_epoch - options.start.emitted) {
  open_.start_piece = next_piece_;
  open_.start_row = skip_;
}

void BatchPlanner::add(ReadyPiece* piece, std::deque<BatchPlan>& plans, BatchPlan& dropped) {
  const int64_t index = next_piece_++;
  const int64_t rows = piece->features.rows;
  int64_t row = std::min(skip_, rows);
  if (row > 0) {
    EMBLEM_REQUIRE(skip_ <= rows, "the saved position (row ", skip_, " of piece ", index,
                   ") is beyond the piece's ", rows, " rows; has the data changed?");
    dropped.sources.push_back(piece);
    dropped.runs.push_back(
        {static_cast<uint32_t>(dropped.sources.size() - 1), 0, static_cast<uint32_t>(row)});
    skip_ = 0;
  }
  const bool shuffled = options_.window_rows > 0;
  while (row < rows) {
    const int64_t room = shuffled ? options_.window_rows - open_.rows : rows;
    const int64_t count = std::min(room, rows - row);
    open_.pieces.push_back(piece);
    open_.runs.push_back({static_cast<uint32_t>(open_.pieces.size() - 1),
                          static_cast<uint32_t>(row), static_cast<uint32_t>(count)});
    open_.rows += count;
    row += count;
    if (shuffled && open_.rows < options_.window_rows) continue;
    close_window();
    open_.start_piece = row < rows ? index : index + 1;
    open_.start_row = row < rows ? row : 0;
  }
  if (rows == 0 && open_.rows == 0) open_.start_piece = index + 1;
  if (piece->ends_epoch && open_.rows > 0) close_window();
  if (skip_of_window_ > 0 && !closed_.empty()) {
    EMBLEM_REQUIRE(skip_of_window_ < closed_.front().rows, "the saved position (row ",
                   skip_of_window_, " of a window) is beyond the window's ", closed_.front().rows,
                   " rows; has the data changed?");
    take_rows(skip_of_window_, dropped);
    skip_of_window_ = 0;
  }
  plan_batches(plans);
  if (piece->ends_epoch) finish_epoch(plans, dropped);
}

void BatchPlanner::close_window() {
  if (options_.window_rows > 0) {
    std::vector<uint32_t> turns;
    turns.reserve(static_cast<size_t>(open_.rows));
    for (const RowRun& run : open_.runs) turns.insert(turns.end(), run.count, run.source);
    const uint64_t stream = random_bits(0x77696e646f770000ull, static_cast<uint64_t>(epoch_),
                                        static_cast<uint64_t>(windowed_rows_));
    shuffle_items(turns, Random{options_.seed, stream});
    std::vector<RowRun> rows;
    rows.reserve(turns.size());
    for (const uint32_t source : turns) rows.push_back({source, open_.runs[source].begin++, 1});
    open_.runs = std::move(rows);
  }
  windowed_rows_ += open_.rows;
  available_ += open_.rows;
  closed_.push_back(std::move(open_));
  open_ = {};
}

// Moves `rows` rows from the front of the closed windows into `plan`.
void BatchPlanner::take_rows(int64_t rows, BatchPlan& plan) {
  available_ -= rows;
  while (rows > 0) {
    Window& window = closed_.front();
    // Only pieces that rows are taken from: others may be free already, and being filled again.
    std::vector<uint32_t> source_of(window.pieces.size(), kNoSource);
    while (rows > 0 && window.taken_runs < window.runs.size()) {
      const RowRun& run = window.runs[window.taken_runs];
      const int64_t count = std::min(rows, run.count - window.taken_of_run);
      uint32_t& source = source_of[run.source];
      if (source == kNoSource) {
        source = static_cast<uint32_t>(plan.sources.size());
        plan.sources.push_back(window.pieces[run.source]);
      }
      plan.runs.push_back({source, static_cast<uint32_t>(run.begin + window.taken_of_run),
                           static_cast<uint32_t>(count)});
      rows -= count;
      window.taken_rows += count;
      window.taken_of_run += count;
      if (window.taken_of_run == run.count) {
        ++window.taken_runs;
        window.taken_of_run = 0;
      }
    }
    if (window.taken_rows == window.rows) closed_.pop_front();
  }
}

DataPosition BatchPlanner::position() const {
  const Window& window = closed_.empty() ? open_ : closed_.front();
  return {epoch_, window.start_piece, window.start_row, window.taken_rows, rows_in_epoch_};
}

void BatchPlanner::plan_batches(std::deque<BatchPlan>& plans) {
  // A batch is planned when it is certain whether it is its epoch's last.
  const int64_t following = options_.drop_remainder ? options_.batch_size : 1;
  while (available_ >= options_.batch_size + following) {
    BatchPlan& plan = plans.emplace_back();
    take_rows(options_.batch_size, plan);
    rows_in_epoch_ += options_.batch_size;
    plan.next = position();
  }
}

// Checks an epoch that has no further batch.
void BatchPlanner::require_may_be_empty() const {
  EMBLEM_REQUIRE(rows_in_epoch_ == 0,
                 "the saved position is at the end of the data; has the data changed?");
  if (options_.most_empty_epochs > 0) return;
  EMBLEM_REQUIRE(available_ > 0, "the data set has no rows",
                 options_.filtered ? " that fulfil data_config.filters" : "",
                 " (after sampling, holdout_ratio and bad rows)");
  throw Error(ErrorCode::kInvalidArgument,
              cat("the data set has ", available_, " rows, fewer than one batch of ",
                  options_.batch_size, "; use a smaller batch_size or drop_remainder: false"));
}

void BatchPlanner::finish_epoch(std::deque<BatchPlan>& plans, BatchPlan& dropped) {
  const bool has_batch = available_ >= (options_.drop_remainder ? options_.batch_size : 1);
  if (!has_batch) require_may_be_empty();
  // What is left here is at most one full batch and a remainder.
  const auto plan = [&](int64_t rows) {
    take_rows(rows, plans.emplace_back());
    rows_in_epoch_ += rows;
    plans.back().next = position();
  };
  if (available_ >= options_.batch_size) plan(options_.batch_size);
  if (available_ > 0 && options_.drop_remainder) take_rows(available_, dropped);
  if (available_ > 0) plan(available_);
  ++epoch_;
  if (has_batch) {
    plans.back().last_in_epoch = true;
    plans.back().next = {.epoch = epoch_};
    empty_epochs_ = 0;
  } else {
    ++empty_epochs_;
  }
  next_piece_ = 0;
  rows_in_epoch_ = 0;
  windowed_rows_ = 0;
  open_ = {};
}

}  // namespace emblem
