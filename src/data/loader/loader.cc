#include "data/loader/loader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "core/log.h"
#include "core/start_threads.h"
#include "data/feature/transform.h"
#include "data/format/decoder.h"
#include "data/loader/batch_planner.h"
#include "data/loader/piece_order.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Decoded rows that may wait, whatever prefetch_batches says.
constexpr int64_t kMostPrefetchedBytes = int64_t{128} << 20;

// Records a worker decodes at a time: a batch, so that unshuffled batches are pieces as they are,
// unless that would make pieces too small to be worth a hand-over or too large to share among
// workers.
int64_t records_per_piece(int64_t batch_size) {
  constexpr int64_t kFewest = 512, kMost = 65536;
  if (batch_size > kMost) return kMost;
  return batch_size * ((kFewest + batch_size - 1) / batch_size);
}

}  // namespace

// Workers take the pieces of the stream (all epochs, in order) one by one, decode and transform
// them. Whoever finishes the piece that is next in order hands it, and those that wait behind it,
// to the planner, which tells the batches; workers put these together as well. next() takes them in
// order.
class Loader::Pipeline {
 public:
  Pipeline(const config::DataConfig& data, const FeatureLayout& features,
           const LoaderOptions& options);
  ~Pipeline();

  bool next(Batch& batch);
  LoaderStatistics statistics() const;
  int64_t expected_rows() const;

 private:
  struct Job {  // a piece under way
    int64_t epoch = 0;
    int64_t index = 0;  // in the epoch
    Piece piece;
    ReadyPiece* result = nullptr;
    BadRows bad;
    int64_t bytes = 0;
    std::exception_ptr error;
    bool done = false;
  };
  struct Delivery {  // a batch under way
    BatchPlan plan;
    Batch batch;
    bool assembled = false;
  };

  void work();
  void stop();
  bool may_decode() const;
  void decode(Job& job, DecodedPiece& scratch, std::unique_lock<std::mutex>& lock);
  void assemble(Delivery& delivery, std::unique_lock<std::mutex>& lock);
  void commit_pieces();
  void commit(Job& job);
  void count_bad_rows(const Job& job);
  void release_rows(const BatchPlan& plan);
  ReadyPiece* new_piece();
  void count_idle(int change);
  double idle_seconds() const;

  const LoaderOptions options_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<FeatureTransform> transform_;
  RowSample sample_;
  int64_t window_rows_ = 0;  // rows that are mixed with each other; 0: none are
  int64_t prefetch_rows_ = 0;

  mutable std::mutex mutex_;           // guards all below
  std::condition_variable work_;       // workers wait: something to do, or stop
  std::condition_variable delivered_;  // next() waits: the front batch is ready, or the end
  std::unique_ptr<PieceOrder> order_;
  std::unique_ptr<BatchPlanner> planner_;
  int64_t next_epoch_ = 0, next_piece_ = 0;  // the piece that is handed out next
  std::deque<std::unique_ptr<Job>> jobs_;    // in stream order; the front one is committed next
  std::deque<std::unique_ptr<Delivery>> deliveries_;  // in order; the front one is taken by next()
  std::deque<Delivery*> to_assemble_;
  std::vector<std::unique_ptr<ReadyPiece>> pieces_;  // owns all
  std::vector<ReadyPiece*> free_pieces_;
  std::vector<Batch> free_batches_;
  int64_t waiting_rows_ = 0;  // committed and not yet taken by next()
  int64_t bad_rows_in_epoch_ = 0;
  int64_t bad_rows_epoch_ = -1;
  std::string first_bad_row_;
  std::exception_ptr error_;                   // thrown by next() behind the planned batches
  int64_t parsed_rows_ = 0, parsed_size_ = 0;  // of committed pieces; size in the decoder's unit
  int64_t batches_ = 0;                        // given out
  bool ended_ = false;                         // next() has returned false
  bool stop_ = false;
  LoaderStatistics statistics_;
  int idle_workers_ = 0;
  Clock::time_point idle_counted_ = Clock::now();  // up to here in statistics_.idle_seconds
  std::vector<std::thread> workers_;
};

Loader::Pipeline::Pipeline(const config::DataConfig& data, const FeatureLayout& features,
                           const LoaderOptions& options)
    : options_(options), sample_{options.sample_ratio, options.seed} {
  EMBLEM_REQUIRE(options.batch_size > 0, "batch_size is ", options.batch_size,
                 "; expected at least 1");
  EMBLEM_REQUIRE(options.sample_ratio > 0 && options.sample_ratio <= 1, "sample_ratio is ",
                 options.sample_ratio, "; expected a share above 0 and at most 1");
  EMBLEM_REQUIRE(options.piece_bytes > 0, "piece_bytes is ", options.piece_bytes,
                 "; expected at least 1");
  EMBLEM_REQUIRE(!options.input.empty(),
                 "no input is given; set train_input_path or eval_input_path");
  const std::vector<ColumnRequest> requests = columns_needed(data, features, options.label_check);
  decoder_ = make_decoder(source_of(data, options.input), &requests);
  if (data.direct_reads()) {
    const std::string refused = decoder_->read_directly();
    if (!refused.empty())
      log_warn(
          cat("the file system of ", refused,
              " refuses data_config.direct_reads (O_DIRECT); it is read through the page cache"));
  }
  transform_ = std::make_unique<FeatureTransform>(data, features, options.label_check, requests,
                                                  decoder_->columns());
  const int64_t piece_size = decoder_->unit() == ExtentUnit::kBytes
                                 ? options.piece_bytes
                                 : records_per_piece(options.batch_size);
  const bool shuffled = options.shuffle;
  order_ = std::make_unique<PieceOrder>(
      *decoder_, piece_size, shuffled ? ReadOrder::kShuffled : ReadOrder::kAsStored, options.seed);
  window_rows_ = shuffled && options.shuffle_rows > 1 ? options.shuffle_rows : 0;
  planner_ = std::make_unique<BatchPlanner>(
      BatchPlanner::Options{options.batch_size, window_rows_, options.drop_remainder, options.seed,
                            order_->count(), options.start});
  next_epoch_ = options.start.epoch;
  next_piece_ = options.start.piece;

  const int64_t row_bytes = 4 * features.dense_cols + 8 * features.sparse_count + 4;
  const int64_t affordable = std::max(kMostPrefetchedBytes / row_bytes, 2 * options.batch_size);
  prefetch_rows_ = window_rows_ +
                   std::min(affordable, std::max(options.prefetch_batches, 1) * options.batch_size);
  const int workers = std::max(options.workers, 1);
  start_threads(
      workers_, workers, cat(workers, " loader threads"), "use a smaller data_config.num_workers",
      [this] { work(); }, [this] { stop(); });
}

Loader::Pipeline::~Pipeline() {
  stop();
  for (std::thread& worker : workers_) worker.join();
}

void Loader::Pipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
}

void Loader::Pipeline::work() {
  DecodedPiece scratch;
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_work = [&] { return stop_ || !to_assemble_.empty() || may_decode(); };
    if (!has_work()) {
      count_idle(+1);
      work_.wait(lock, has_work);
      count_idle(-1);
    }
    if (stop_) return;
    if (!to_assemble_.empty()) {
      Delivery* delivery = to_assemble_.front();
      to_assemble_.pop_front();
      assemble(*delivery, lock);
      continue;
    }
    Job& job = *jobs_.emplace_back(std::make_unique<Job>());
    job.epoch = next_epoch_;
    job.index = next_piece_;
    job.piece = order_->at(next_epoch_, next_piece_);
    job.result = new_piece();
    if (++next_piece_ == order_->count()) {
      next_piece_ = 0;
      ++next_epoch_;
    }
    decode(job, scratch, lock);
  }
}

// Of all workers together, those that are idle right now included.
double Loader::Pipeline::idle_seconds() const {
  return statistics_.idle_seconds + idle_workers_ * seconds_since(idle_counted_);
}

void Loader::Pipeline::count_idle(int change) {
  statistics_.idle_seconds = idle_seconds();
  idle_counted_ = Clock::now();
  idle_workers_ += change;
}

bool Loader::Pipeline::may_decode() const {
  if (error_ != nullptr || (options_.epochs > 0 && next_epoch_ >= options_.epochs)) return false;
  if (static_cast<int64_t>(jobs_.size()) > 2 * std::max(options_.workers, 1)) return false;
  // When no batch is planned, the planner needs more rows whatever the limit.
  return waiting_rows_ < prefetch_rows_ || deliveries_.empty();
}

void Loader::Pipeline::decode(Job& job, DecodedPiece& scratch, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto start = Clock::now();
  try {
    // The order of a piece's rows depends on the seed and on the piece's place in the stream.
    const Random shuffle{options_.seed,
                         random_bits(0x726f777300000000ull, static_cast<uint64_t>(job.epoch),
                                     static_cast<uint64_t>(job.index))};
    decoder_->decode(job.piece.file, job.piece.range, sample_,
                     window_rows_ > 0 ? &shuffle : nullptr, scratch);
    transform_->apply(scratch, job.result->features);
    job.bad = std::move(scratch.bad);
    job.bytes = scratch.bytes;
  } catch (...) {
    job.error = std::current_exception();
  }
  const double seconds = seconds_since(start);
  lock.lock();
  statistics_.parse_seconds += seconds;
  job.done = true;
  commit_pieces();
}

void Loader::Pipeline::commit_pieces() {
  while (!jobs_.empty() && jobs_.front()->done && error_ == nullptr) {
    try {
      commit(*jobs_.front());
    } catch (...) {
      error_ = std::current_exception();
    }
    jobs_.pop_front();
  }
  work_.notify_all();
  delivered_.notify_one();
}

void Loader::Pipeline::commit(Job& job) {
  if (job.error != nullptr) std::rethrow_exception(job.error);
  count_bad_rows(job);
  statistics_.bytes += job.bytes;
  ReadyPiece& piece = *job.result;
  piece.rows_left = piece.features.rows;
  parsed_rows_ += piece.features.rows;
  parsed_size_ += job.piece.range.end - job.piece.range.begin;
  if (piece.rows_left == 0) free_pieces_.push_back(&piece);
  waiting_rows_ += piece.rows_left;

  std::deque<BatchPlan> plans;
  BatchPlan dropped;
  std::exception_ptr problem;
  try {
    planner_->add(&piece, plans, dropped);
  } catch (...) {
    problem = std::current_exception();
  }
  release_rows(dropped);
  for (const RowRun& run : dropped.runs) waiting_rows_ -= run.count;
  for (BatchPlan& plan : plans) {
    Delivery& delivery = *deliveries_.emplace_back(std::make_unique<Delivery>());
    delivery.plan = std::move(plan);
    to_assemble_.push_back(&delivery);
  }
  if (problem != nullptr) std::rethrow_exception(problem);
}

void Loader::Pipeline::count_bad_rows(const Job& job) {
  if (bad_rows_epoch_ != job.epoch) {
    bad_rows_epoch_ = job.epoch;
    bad_rows_in_epoch_ = 0;
    first_bad_row_.clear();
  }
  if (job.bad.count == 0) return;
  if (bad_rows_in_epoch_ == 0) first_bad_row_ = decoder_->describe(job.piece.file, job.bad);
  bad_rows_in_epoch_ += job.bad.count;
  statistics_.bad_rows += job.bad.count;
  if (bad_rows_in_epoch_ <= options_.max_bad_rows) return;
  throw too_many_bad_rows(bad_rows_in_epoch_, options_.max_bad_rows, first_bad_row_);
}

void Loader::Pipeline::assemble(Delivery& delivery, std::unique_lock<std::mutex>& lock) {
  Batch batch = batch_in(options_.memory);
  if (!free_batches_.empty()) {
    batch = std::move(free_batches_.back());
    free_batches_.pop_back();
  }
  const BatchPlan& plan = delivery.plan;
  ReadyPiece* const first = plan.sources[plan.runs[0].source];
  const bool whole_piece = plan.runs.size() == 1 && plan.runs[0].count == first->features.rows;
  lock.unlock();
  const auto start = Clock::now();
  if (whole_piece) {
    std::swap(batch, first->features);
  } else {
    std::vector<const Batch*> sources;
    for (const ReadyPiece* piece : plan.sources) sources.push_back(&piece->features);
    gather_rows(sources, plan.runs, batch);
  }
  batch.next = plan.next;
  batch.last_in_epoch = plan.last_in_epoch;
  const double seconds = seconds_since(start);
  lock.lock();
  statistics_.parse_seconds += seconds;
  delivery.batch = std::move(batch);
  delivery.assembled = true;
  release_rows(plan);
  if (deliveries_.front().get() == &delivery) delivered_.notify_one();
}

// Counts rows that are copied (or never will be) off their pieces; those with none left are free
// again.
void Loader::Pipeline::release_rows(const BatchPlan& plan) {
  for (const RowRun& run : plan.runs) {
    ReadyPiece* piece = plan.sources[run.source];
    piece->rows_left -= run.count;
    if (piece->rows_left == 0) free_pieces_.push_back(piece);
  }
}

ReadyPiece* Loader::Pipeline::new_piece() {
  if (free_pieces_.empty()) {
    pieces_.push_back(std::make_unique<ReadyPiece>(ReadyPiece{batch_in(options_.memory)}));
    return pieces_.back().get();
  }
  ReadyPiece* piece = free_pieces_.back();
  free_pieces_.pop_back();
  return piece;
}

bool Loader::Pipeline::next(Batch& batch) {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  if (batches_ == options_.max_batches) {
    ended_ = true;
    return false;
  }
  const auto ended = [&] {
    return error_ != nullptr ||
           (options_.epochs > 0 && next_epoch_ >= options_.epochs && jobs_.empty());
  };
  delivered_.wait(lock,
                  [&] { return deliveries_.empty() ? ended() : deliveries_.front()->assembled; });
  statistics_.wait_seconds += seconds_since(start);
  if (deliveries_.empty()) {
    if (error_ != nullptr) std::rethrow_exception(error_);
    ended_ = true;
    return false;
  }
  ++batches_;
  std::swap(batch, deliveries_.front()->batch);
  if (deliveries_.front()->batch.memory() == options_.memory)
    free_batches_.push_back(std::move(deliveries_.front()->batch));
  deliveries_.pop_front();
  waiting_rows_ -= batch.rows;
  statistics_.rows += batch.rows;
  if (may_decode()) work_.notify_all();
  return true;
}

LoaderStatistics Loader::Pipeline::statistics() const {
  const std::lock_guard lock(mutex_);
  LoaderStatistics statistics = statistics_;
  statistics.idle_seconds = idle_seconds();
  return statistics;
}

int64_t Loader::Pipeline::expected_rows() const {
  const std::lock_guard lock(mutex_);
  if (ended_) return statistics_.rows;
  constexpr double kUnknown = 1e18;
  const auto batch_size = static_cast<double>(options_.batch_size);
  double rows = kUnknown;
  if (options_.max_batches >= 0)
    rows = std::min(rows, static_cast<double>(options_.max_batches) * batch_size);
  if (options_.epochs > 0 && parsed_size_ > 0) {
    double in_epoch = static_cast<double>(parsed_rows_) * static_cast<double>(order_->size()) /
                      static_cast<double>(parsed_size_);
    if (options_.drop_remainder) in_epoch = std::floor(in_epoch / batch_size) * batch_size;
    const DataPosition& start = options_.start;
    rows = std::min(rows, static_cast<double>(options_.epochs - start.epoch) * in_epoch -
                              static_cast<double>(start.rows_in_epoch));
  }
  return rows == kUnknown ? 0 : std::max<int64_t>(0, std::llround(rows));
}

Loader::Loader(const config::DataConfig& data, const FeatureLayout& features, LoaderOptions options)
    : pipeline_(std::make_unique<Pipeline>(data, features, options)) {}

Loader::~Loader() = default;

bool Loader::next(Batch& batch) { return pipeline_->next(batch); }

LoaderStatistics Loader::statistics() const { return pipeline_->statistics(); }

int64_t Loader::expected_rows() const { return pipeline_->expected_rows(); }

}  // namespace emblem
