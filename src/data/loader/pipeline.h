// data/loader/pipeline.h - the threads and queues of a Loader. Internal to data/loader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/system/seconds_since.h"
#include "data/feature/transform.h"
#include "data/format/decoder.h"
#include "data/loader/batch_planner.h"
#include "data/loader/content_holdout.h"
#include "data/loader/loader.h"
#include "data/loader/piece_order.h"
#include "data/loader/read_ahead.h"
#include "data/loader/source.h"
#include "data/loader/table_feed.h"

namespace emblem {

// Workers take the pieces of the stream (all epochs, in order) one by one, decode and transform
// them. The worker that finishes the piece that is next in order hands it, and finished ones that
// follow, to the planner, which plans the batches; workers put these together as well. next() takes
// them in order. Exceptions of workers reach next() at the batch they concern.
class Loader::Pipeline final : public Loader::Source {
 public:
  Pipeline(const config::DataConfig& data, const FeatureLayout& features,
           const LoaderOptions& options);
  ~Pipeline() override;

  bool next(Batch& batch) override;
  bool wait(std::chrono::milliseconds timeout) override;
  LoaderStatistics statistics() const override;
  int64_t expected_rows() const override;
  DataPosition start() const override { return options_.start; }
  std::vector<ColumnSpec> columns() const override {
    return feed_ != nullptr ? feed_->columns() : decoder_->columns();
  }
  void sample(const std::function<void(const Block&)>& take) const override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Job {  // a piece under way
    int64_t epoch = 0;
    int64_t index = 0;  // in the epoch
    FilePiece piece;
    std::shared_ptr<const Decoder> decoder;  // decoder of a given table; null: decoder_
    ReadyPiece* result = nullptr;
    BadRows bad;
    FeatureCounts counts;
    int64_t bytes = 0;
    std::exception_ptr error;
    bool ends_epoch = false;
    bool ends_run = false;  // the last of the pieces that one worker decodes one after the other
    bool done = false;
  };
  struct Delivery {  // a batch under way
    BatchPlan plan;
    Batch batch;
    int64_t bad_rows = 0;      // in the pieces committed up to its own last one
    std::exception_ptr error;  // in place of the batch
    bool done = false;
  };

  void check_start() const;
  void stop();
  bool reads_on() const;
  bool has_next() const;
  void work();
  bool may_decode() const;
  bool has_room() const;
  bool wait_for_room(std::unique_lock<std::mutex>& lock);
  void decode_next(DecodedPiece& scratch, std::unique_lock<std::mutex>& lock);
  std::vector<Job*> take_pieces();
  std::vector<Job*> take_table(std::unique_lock<std::mutex>& lock);
  const Decoder& decoder_of(const Job& job) const;
  void open_files(const config::DataConfig& data, const std::vector<ColumnRequest>& requests);
  void decode_one(Job& job, DecodedPiece& scratch, std::unique_lock<std::mutex>& lock);
  void decode(Job& job, DecodedPiece& scratch);
  void assemble_next(std::unique_lock<std::mutex>& lock);
  static void assemble(const BatchPlan& plan, Batch& batch);
  void commit_pieces();
  void commit(Job& job);
  void count_bad_rows(const Job& job);
  void release_rows(const BatchPlan& plan);
  ReadyPiece* new_piece();
  void count_idle(int change);
  double idle_seconds() const;

  const LoaderOptions options_;
  const Storage storage_;             // null where nothing remote is read
  std::unique_ptr<Decoder> decoder_;  // null with feed_
  std::unique_ptr<FeatureTransform> transform_;
  RowSample sample_;
  ContentHoldout holdout_;
  int64_t window_rows_ = 0;  // rows that are mixed with each other; 0: none are
  int64_t prefetch_rows_ = 0;
  int64_t epoch_size_ = 0;  // size of the stream's pieces in the first epoch, in the decoder's unit
  uint64_t shuffle_seed_ = 0;
  const RemoteStatistics remote_before_;

  mutable std::mutex mutex_;           // guards all below
  std::condition_variable work_;       // workers wait: something to do, or stop
  std::condition_variable delivered_;  // next() waits: the front batch is ready, or the end
  std::unique_ptr<TableFeed> feed_;    // LoaderOptions::next_table, in place of order_
  bool is_asked_ = false;              // a worker waits for feed_, without the lock; or it failed
  std::unique_ptr<PieceOrder> order_;
  std::unique_ptr<ReadAhead> ahead_;  // read-ahead of remote inputs
  std::unique_ptr<BatchPlanner> planner_;
  int64_t next_epoch_ = 0, next_piece_ = 0;  // the piece that is handed out next
  std::deque<std::unique_ptr<Job>> jobs_;    // in stream order; the front one is committed next
  int64_t open_runs_ = 0;                    // runs of jobs_ that are not committed as a whole
  std::deque<std::unique_ptr<Delivery>> deliveries_;  // in order; the front one is taken by next()
  std::deque<Delivery*> to_assemble_;
  std::vector<std::unique_ptr<ReadyPiece>> pieces_;  // owns all
  std::vector<ReadyPiece*> free_pieces_;
  std::vector<Batch> free_batches_;
  int64_t waiting_rows_ = 0;  // committed and not yet taken by next()
  int64_t bad_rows_ = 0;      // in committed pieces
  int64_t bad_rows_in_epoch_ = 0;
  int64_t bad_rows_epoch_ = -1;
  std::string first_bad_row_;
  std::exception_ptr error_;  // thrown by next() after the planned batches
  // Rows and size (in the decoder's unit) of committed pieces.
  int64_t parsed_rows_ = 0, parsed_size_ = 0;
  int64_t batches_ = 0;  // given out
  bool ended_ = false;   // next() has returned false
  bool stop_ = false;
  LoaderStatistics statistics_;
  int idle_workers_ = 0;
  Clock::time_point idle_counted_ = Clock::now();  // up to here in statistics_.idle_seconds
  std::vector<std::thread> workers_;
};

}  // namespace emblem
