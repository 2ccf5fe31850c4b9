// The side of the workers: decoding pieces, planning batches, putting them together.
#include <algorithm>

#include "data/loader/pipeline.h"
#include "emblem/error.h"

namespace emblem {

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
    try {
      if (to_assemble_.empty()) {
        decode_next(scratch, lock);
      } else {
        assemble_next(lock);
      }
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      if (error_ == nullptr) error_ = std::current_exception();
      delivered_.notify_one();
    }
  }
}

// Idle time of all workers together, those that are idle right now included.
double Loader::Pipeline::idle_seconds() const {
  return statistics_.idle_seconds + idle_workers_ * seconds_since(idle_counted_);
}

void Loader::Pipeline::count_idle(int change) {
  statistics_.idle_seconds = idle_seconds();
  idle_counted_ = Clock::now();
  idle_workers_ += change;
}

bool Loader::Pipeline::may_decode() const {
  if (error_ != nullptr || is_asked_ || !reads_on()) return false;
  if (open_runs_ > 2 * std::max(options_.workers, 1)) return false;
  return has_room();
}

bool Loader::Pipeline::has_room() const {
  // When no batch is planned, the planner needs more rows whatever the limit.
  return waiting_rows_ < prefetch_rows_ || deliveries_.empty();
}

// Takes the next pieces that one thread decodes best, usually one. Called with the lock held, which
// is released while they are decoded.
void Loader::Pipeline::decode_next(DecodedPiece& scratch, std::unique_lock<std::mutex>& lock) {
  const std::vector<Job*> jobs = feed_ != nullptr ? take_table(lock) : take_pieces();
  if (jobs.empty()) return;
  decode_one(*jobs[0], scratch, lock);
  for (size_t i = 1; i < jobs.size() && wait_for_room(lock); ++i)
    decode_one(*jobs[i], scratch, lock);
  if (feed_ != nullptr) scratch.cursor.reset();  // the table is not needed any more
}

std::vector<Loader::Pipeline::Job*> Loader::Pipeline::take_pieces() {
  const int64_t count = order_->run_length(next_epoch_, next_piece_);
  std::vector<Job*> jobs;
  for (int64_t i = 0; i < count; ++i) {
    jobs.push_back(jobs_.emplace_back(std::make_unique<Job>()).get());
    jobs.back()->epoch = next_epoch_;
    jobs.back()->index = next_piece_ + i;
    jobs.back()->piece = order_->at(next_epoch_, next_piece_ + i);
  }
  jobs.back()->ends_run = true;
  ++open_runs_;
  next_piece_ += count;
  if (next_piece_ == order_->count(next_epoch_)) {
    jobs.back()->ends_epoch = true;
    next_piece_ = 0;
    ++next_epoch_;
  }
  return jobs;
}

// The pieces of the next table of a source, which is asked without the lock; one without rows at
// the end of an epoch. What the source throws is thrown after the rows before it.
std::vector<Loader::Pipeline::Job*> Loader::Pipeline::take_table(
    std::unique_lock<std::mutex>& lock) {
  TableFeed::Pieces pieces;
  std::exception_ptr error;
  is_asked_ = true;
  lock.unlock();
  try {
    pieces = feed_->next();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  is_asked_ = error != nullptr;  // a source that failed is not asked again
  std::vector<Job*> jobs;
  for (const FilePiece& piece : pieces.pieces) {
    jobs.push_back(jobs_.emplace_back(std::make_unique<Job>()).get());
    *jobs.back() = {.epoch = next_epoch_, .index = next_piece_++, .piece = piece};
    jobs.back()->decoder = pieces.decoder;
  }
  ++open_runs_;
  if (!jobs.empty()) {
    jobs.back()->ends_run = true;
    work_.notify_one();  // another worker may ask for the next table
    return jobs;
  }
  Job& end = *jobs_.emplace_back(std::make_unique<Job>());
  end.epoch = next_epoch_;
  end.error = error;
  end.ends_epoch = end.ends_run = end.done = true;
  end.result = new_piece();
  end.result->features.rows = 0;
  next_piece_ = 0;
  ++next_epoch_;
  commit_pieces();
  return jobs;
}

const Decoder& Loader::Pipeline::decoder_of(const Job& job) const {
  return job.decoder != nullptr ? *job.decoder : *decoder_;
}

// Between the pieces of a run: puts batches together that are ready for it, and waits until rows
// are wanted. False when no piece is wanted any more.
bool Loader::Pipeline::wait_for_room(std::unique_lock<std::mutex>& lock) {
  const auto has_ended = [&] { return stop_ || error_ != nullptr; };
  while (!has_ended()) {
    if (!to_assemble_.empty()) {
      assemble_next(lock);
    } else if (has_room()) {
      return true;
    } else {
      count_idle(+1);
      work_.wait(lock, [&] { return has_ended() || !to_assemble_.empty() || has_room(); });
      count_idle(-1);
    }
  }
  return false;
}

void Loader::Pipeline::decode_one(Job& job, DecodedPiece& scratch,
                                  std::unique_lock<std::mutex>& lock) {
  try {
    if (ahead_ != nullptr) ahead_->advance(job.epoch, job.index);
    job.result = new_piece();
    const bool has_runs = options_.streams > 1 && !options_.shuffle && feed_ == nullptr;
    job.result->run = has_runs ? order_->run_number(job.epoch, job.index) : -1;
  } catch (...) {
    job.error = std::current_exception();
  }
  lock.unlock();
  const auto start = Clock::now();
  if (job.error == nullptr) decode(job, scratch);
  const double seconds = seconds_since(start);
  lock.lock();
  statistics_.parse_seconds += seconds;
  job.done = true;
  commit_pieces();
}

void Loader::Pipeline::decode(Job& job, DecodedPiece& scratch) {
  try {
    // The order of a piece's rows depends on the seed and on the piece's place in the stream.
    const Random shuffle{shuffle_seed_,
                         random_bits(0x726f777300000000ull, static_cast<uint64_t>(job.epoch),
                                     static_cast<uint64_t>(job.index))};
    decoder_of(job).decode(job.piece.file, job.piece.range, sample_,
                           window_rows_ > 0 ? &shuffle : nullptr, scratch);
    holdout_.select(scratch);
    job.counts = transform_->apply(scratch, job.result->features);
    job.bad = std::move(scratch.bad);
    job.bytes = scratch.bytes;
  } catch (...) {
    job.error = std::current_exception();
  }
}

void Loader::Pipeline::commit_pieces() {
  while (!jobs_.empty() && jobs_.front()->done && error_ == nullptr) {
    try {
      commit(*jobs_.front());
    } catch (...) {
      error_ = std::current_exception();
    }
    if (jobs_.front()->ends_run) --open_runs_;
    jobs_.pop_front();
  }
  work_.notify_all();
  delivered_.notify_one();
}

void Loader::Pipeline::commit(Job& job) {
  if (job.error != nullptr) std::rethrow_exception(job.error);
  ReadyPiece& piece = *job.result;
  if (planner_->has_ended()) {  // it was read ahead
    free_pieces_.push_back(&piece);
    return;
  }
  count_bad_rows(job);
  statistics_.bytes += job.bytes;
  statistics_.counts.add(job.counts);
  piece.ends_epoch = job.ends_epoch;
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
    delivery.bad_rows = bad_rows_;
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
  if (bad_rows_in_epoch_ == 0) first_bad_row_ = decoder_of(job).describe(job.piece.file, job.bad);
  bad_rows_in_epoch_ += job.bad.count;
  bad_rows_ += job.bad.count;
  if (bad_rows_in_epoch_ <= options_.max_bad_rows) return;
  throw too_many_bad_rows(bad_rows_in_epoch_, options_.max_bad_rows, first_bad_row_);
}

// Called with the lock held, which is released while the batch is put together.
void Loader::Pipeline::assemble_next(std::unique_lock<std::mutex>& lock) {
  Delivery& delivery = *to_assemble_.front();
  to_assemble_.pop_front();
  Batch batch = batch_in(options_.memory);
  if (!free_batches_.empty()) {
    batch = std::move(free_batches_.back());
    free_batches_.pop_back();
  }
  lock.unlock();
  const auto start = Clock::now();
  try {
    assemble(delivery.plan, batch);
  } catch (...) {
    delivery.error = std::current_exception();
  }
  const double seconds = seconds_since(start);
  lock.lock();
  statistics_.parse_seconds += seconds;
  delivery.batch = std::move(batch);
  delivery.done = true;
  if (deliveries_.front().get() == &delivery) delivered_.notify_one();
  if (delivery.error == nullptr) release_rows(delivery.plan);
}

void Loader::Pipeline::assemble(const BatchPlan& plan, Batch& batch) {
  ReadyPiece* const first = plan.sources[plan.runs[0].source];
  const bool whole_piece = plan.runs.size() == 1 && plan.runs[0].count == first->features.rows;
  if (whole_piece) {
    std::swap(batch, first->features);
  } else {
    std::vector<const Batch*> sources;
    for (const ReadyPiece* piece : plan.sources) sources.push_back(&piece->features);
    gather_rows(sources, plan.runs, batch);
  }
  batch.stored.clear();
  for (const RowRun& run : plan.runs) {
    const int64_t number = plan.sources[run.source]->run;
    if (number < 0) break;
    if (batch.stored.empty() || batch.stored.back().run != number)
      batch.stored.push_back({number, 0});
    batch.stored.back().rows += run.count;
  }
  batch.next = plan.next;
  batch.last_in_epoch = plan.last_in_epoch;
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

}  // namespace emblem
