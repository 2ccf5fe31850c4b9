// The threads of a stream: one reads messages, workers decode and transform them.
#include <algorithm>

#include "data/loader/stream.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
constexpr int kPollMs = 20;
constexpr auto kEndsInterval = std::chrono::milliseconds(200);

}  // namespace

// ---- the thread that reads ----

void Loader::Stream::read() {
  try {
    read_messages();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
  delivered_.notify_one();
}

void Loader::Stream::read_messages() {
  auto next_update = Clock::now();
  bool collecting = false;  // there are open chunks
  while (wait_for_room()) {
    const auto polled = reader_->poll(collecting ? 0 : kPollMs,
                                      [this](const KafkaRecord& record) { take(record); });
    collecting = polled == KafkaReader::Polled::kRecord;
    if (!collecting) submit_all();
    update_problem();
    if (polled == KafkaReader::Polled::kEnd) break;
    const auto now = Clock::now();
    if (now >= next_update) {
      update_ends();
      next_update = now + kEndsInterval;
    }
  }
  update_ends();
  const std::lock_guard lock(mutex_);
  all_read_ = true;
}

// False: stop.
bool Loader::Stream::wait_for_room() {
  std::unique_lock lock(mutex_);
  const size_t most_jobs = 2 * static_cast<size_t>(std::max(options_.workers, 1));
  room_.wait(lock, [&] {
    return stop_ || error_ != nullptr || (jobs_.size() < most_jobs && ready_rows_ < prefetch_rows_);
  });
  return !stop_ && error_ == nullptr;
}

void Loader::Stream::take(const KafkaRecord& record) {
  OpenChunk& chunk = open_[share_.index_of(record.partition)];
  MessageChunk& messages = chunk.messages;
  if (messages.ends.empty()) {
    chunk.received = Clock::now();
    messages.partition = record.partition;
    const std::lock_guard lock(mutex_);
    // Rows of a message that a run before has learned.
    const StreamPosition& start = position_[share_.index_of(record.partition)];
    if (start.offset == record.offset) messages.first_row = start.row;
  }
  messages.bytes.append(record.payload);
  messages.ends.push_back(messages.bytes.size());
  messages.offsets.push_back(record.offset);
  messages.newest_unix_ms = std::max(messages.newest_unix_ms, record.unix_ms);
  if (messages.bytes.size() >= kChunkBytes || messages.messages() >= decoder_->most_messages())
    submit(chunk);
}

void Loader::Stream::submit(OpenChunk& chunk) {
  if (chunk.messages.ends.empty()) return;
  auto job = std::make_unique<Job>();
  job->chunk = std::move(chunk.messages);
  chunk.messages.clear();
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      job->rows = std::make_unique<Rows>();
      job->rows->features = batch_in(options_.memory);
    } else {
      job->rows = std::move(free_.back());
      free_.pop_back();
    }
    job->rows->received = chunk.received;
    jobs_.push_back(std::move(job));
  }
  work_.notify_one();
}

void Loader::Stream::submit_all() {
  for (OpenChunk& chunk : open_) submit(chunk);
}

void Loader::Stream::update_ends() {
  std::vector<KafkaOffset> ends = reader_->ends();
  const std::lock_guard lock(mutex_);
  ends_ = std::move(ends);
  statistics_.lag.lost_messages = reader_->lost_messages();
}

void Loader::Stream::update_problem() {
  if (problem_ == reader_->problem()) return;
  problem_ = reader_->problem();
  const std::lock_guard lock(mutex_);
  statistics_.lag.problem = problem_;
}

// ---- workers ----

void Loader::Stream::work() {
  DecodedPiece scratch;
  std::unique_lock lock(mutex_);
  while (true) {
    Job* job = nullptr;
    work_.wait(lock, [&] {
      const auto found =
          std::find_if(jobs_.begin(), jobs_.end(), [](const auto& each) { return !each->started; });
      job = found == jobs_.end() ? nullptr : found->get();
      return stop_ || job != nullptr;
    });
    if (stop_) return;
    job->started = true;
    lock.unlock();
    const auto begin = Clock::now();
    decode(*job, scratch);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    lock.lock();
    statistics_.parse_seconds += seconds;
    job->done = true;
    commit_jobs();
  }
}

void Loader::Stream::decode(Job& job, DecodedPiece& scratch) {
  try {
    const std::vector<ColumnSpec>* columns = decoder_->decode(job.chunk, sample_, scratch);
    Rows& rows = *job.rows;
    rows.features.rows = 0;
    if (columns != nullptr) job.counts = transform_of(*columns).apply(scratch, rows.features);
    std::swap(rows.positions, scratch.positions);
    rows.partition = job.chunk.partition;
    rows.end_offset = job.chunk.offsets.back() + 1;
    rows.unix_ms = job.chunk.newest_unix_ms;
    rows.taken = 0;
    job.bad = std::move(scratch.bad);
  } catch (...) {
    job.error = std::current_exception();
  }
}

void Loader::Stream::commit(Job& job) {
  if (job.error != nullptr) {
    error_ = job.error;
    return;
  }
  Rows& rows = *job.rows;
  rows.count = rows.features.rows;
  try {
    count_bad_rows(job);
  } catch (...) {
    error_ = std::current_exception();
    // Rows before the first bad one are trained on.
    rows.count = std::lower_bound(rows.positions.begin(), rows.positions.end(), job.bad.position) -
                 rows.positions.begin();
  }
  statistics_.bytes += static_cast<int64_t>(job.chunk.bytes.size());
  statistics_.counts.add(job.counts);
  ready_rows_ += rows.count;
  rows.bad_rows = bad_rows_;
  // Without rows, those that follow say where reading continues.
  if (rows.count > 0)
    ready_.push_back(std::move(job.rows));
  else
    free_.push_back(std::move(job.rows));
}

const FeatureTransform& Loader::Stream::transform_of(const std::vector<ColumnSpec>& columns) {
  const std::lock_guard lock(transforms_mutex_);
  auto& transform = transforms_[&columns];
  if (transform == nullptr) transform = make_transform_(columns);
  return *transform;
}

void Loader::Stream::commit_jobs() {
  while (!jobs_.empty() && jobs_.front()->done && error_ == nullptr) {
    commit(*jobs_.front());
    jobs_.pop_front();
  }
  room_.notify_one();
  delivered_.notify_one();
}

void Loader::Stream::count_bad_rows(const Job& job) {
  if (job.bad.count == 0) return;
  if (bad_rows_ == 0)
    first_bad_row_ = cat("topic ", address_.topic, ", partition ", job.chunk.partition, ", offset ",
                         offset_of(job.bad.position), ", row ", row_of(job.bad.position) + 1, ": ",
                         job.bad.what);
  bad_rows_ += job.bad.count;
  if (bad_rows_ > options_.max_bad_rows)
    throw too_many_bad_rows(bad_rows_, options_.max_bad_rows, first_bad_row_);
}

}  // namespace emblem
