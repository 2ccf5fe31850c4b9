// The caller's side of a stream: opening it, batches, statistics.
#include "data/loader/stream.h"

#include <algorithm>

#include "core/threads/start_threads.h"
#include "data/feature/row_gather.h"
#include "emblem/error.h"

namespace emblem {
namespace {

double seconds_since_unix_ms(int64_t unix_ms) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count() - static_cast<double>(unix_ms) / 1e3;
}

}  // namespace

std::unique_ptr<Loader::Source> Loader::Source::open_stream(const config::DataConfig& data,
                                                            const FeatureLayout& features,
                                                            const LoaderOptions& options) {
  return std::make_unique<Stream>(data, features, options);
}

Loader::Stream::Stream(const config::DataConfig& data, const FeatureLayout& features,
                       const LoaderOptions& options)
    : options_(options),
      address_(parse_kafka_address(options.input)),
      share_{static_cast<int32_t>(options.stream), static_cast<int32_t>(options.streams)},
      requests_(columns_needed(data, features, options.label_check)),
      make_transform_([=, this](const std::vector<ColumnSpec>& columns) {
        return std::make_unique<FeatureTransform>(data, features, options_.label_check, requests_,
                                                  columns, options_.bad_rows);
      }),
      sample_{options.sample_ratio, options.seed, 0.0, RowPart::kAll} {
  EMBLEM_REQUIRE(options.batch_size > 0, "batch_size is ", options.batch_size,
                 "; expected at least 1");
  EMBLEM_REQUIRE(options.stream >= 0 && options.stream < options.streams, "stream ", options.stream,
                 " of ", options.streams, ": streams count from 0");
  EMBLEM_REQUIRE(options.rows == RowPart::kAll,
                 "data_config.holdout_ratio is incompatible with a stream; remove it: "
                 "train_config.progressive_eval_rows evaluates rows before they are trained on");
  EMBLEM_REQUIRE(options.bad_rows == BadRowHandling::kSkip && options.keep.empty(),
                 "a stream can be trained on only; give files for evaluations and predictions");
  decoder_ = make_message_decoder(data, requests_);
  if (decoder_->columns() != nullptr) transform_of(*decoder_->columns());  // features fit them
  prefetch_rows_ = std::max(rows_to_prefetch(features, options), options.batch_size);

  std::vector<KafkaOffset> resume;
  for (const StreamPosition& each : options.start.stream)
    resume.push_back({each.partition, each.offset});
  reader_ = std::make_unique<KafkaReader>(address_, resume, share_);
  ends_ = reader_->ends();
  rows_before_ = options.start.rows_in_epoch;
  for (const KafkaOffset& each : reader_->start())
    position_.push_back({each.partition, each.offset, 0});
  for (const StreamPosition& each : options.start.stream) {
    if (!share_.has(each.partition)) continue;
    StreamPosition& at = position_[share_.index_of(each.partition)];
    if (at.offset == each.offset) at.row = each.row;
  }
  start_ = {.rows_in_epoch = rows_before_, .stream = position_};
  open_.resize(position_.size());
}

Loader::Stream::~Stream() {
  stop();
  for (std::thread& thread : threads_) thread.join();
  warn_of_changes(options_.input.substr(0, options_.input.find('?')), statistics_.counts);
}

void Loader::Stream::start() {
  if (!threads_.empty()) return;
  const int workers = std::max(options_.workers, 1);
  start_threads(
      threads_, 1, "a thread that reads a stream", "close other programs", [this] { read(); },
      [this] { stop(); });
  start_threads(
      threads_, workers, cat(workers, " loader threads"), "use a smaller data_config.num_workers",
      [this] { work(); }, [this] { stop(); });
}

void Loader::Stream::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
  work_.notify_all();
}

// ---- batches ----

bool Loader::Stream::is_ready() const {
  if (batches_ == options_.max_batches || ready_rows_ >= options_.batch_size) return true;
  if (closed_ || error_ != nullptr || (all_read_ && jobs_.empty())) return true;
  const auto due = deadline();
  return due && Clock::now() >= *due;
}

// When rows are given out though they do not fill a batch.
std::optional<Loader::Stream::Clock::time_point> Loader::Stream::deadline() const {
  if (ready_.empty() || address_.max_wait_ms == 0) return std::nullopt;
  return ready_.front()->received + std::chrono::milliseconds(address_.max_wait_ms);
}

bool Loader::Stream::wait_until_ready(std::unique_lock<std::mutex>& lock, Clock::time_point until) {
  while (!is_ready()) {
    if (Clock::now() >= until) return false;
    delivered_.wait_until(lock, std::min(until, deadline().value_or(until)));
  }
  return true;
}

bool Loader::Stream::wait(std::chrono::milliseconds timeout) {
  start();
  std::unique_lock lock(mutex_);
  return wait_until_ready(lock, Clock::now() + timeout);
}

bool Loader::Stream::close_batch() {
  const std::lock_guard lock(mutex_);
  closed_ = ready_rows_ > 0 && address_.max_wait_ms > 0;
  return is_ready();
}

bool Loader::Stream::next(Batch& batch) {
  start();
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  while (!wait_until_ready(lock, Clock::now() + std::chrono::hours(1))) {
  }
  statistics_.wait_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  closed_ = false;
  if (batches_ == options_.max_batches) return false;
  const bool full = ready_rows_ >= options_.batch_size;
  if (!full && error_ != nullptr) rethrow(error_);
  if (!full && all_read_ && jobs_.empty() && (ready_rows_ == 0 || options_.drop_remainder)) {
    statistics_.bad_rows = bad_rows_;
    return false;
  }
  ++batches_;
  assemble(std::min(ready_rows_, options_.batch_size), lock, batch);
  statistics_.rows += batch.rows;
  if (batch.unix_ms > 0) statistics_.lag.seconds = seconds_since_unix_ms(batch.unix_ms);
  batch.next = {.rows_in_epoch = rows_before_ + statistics_.rows, .stream = position_};
  batch.last_in_epoch = false;
  return true;
}

// Called with the lock held, which is released while rows are copied.
void Loader::Stream::assemble(int64_t rows, std::unique_lock<std::mutex>& lock, Batch& batch) {
  std::vector<Rows*> from;
  std::vector<const Batch*> sources;
  std::vector<RowRun> runs;
  int64_t unix_ms = 0;
  ready_rows_ -= rows;
  for (size_t i = 0; rows > 0; ++i) {
    Rows& piece = *ready_[i];
    const int64_t count = std::min(rows, piece.count - piece.taken);
    runs.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(piece.taken),
                    static_cast<uint32_t>(count)});
    from.push_back(&piece);
    sources.push_back(&piece.features);
    unix_ms = std::max(unix_ms, piece.unix_ms);
    rows -= count;
  }
  lock.unlock();
  const bool whole_piece =
      runs.size() == 1 && static_cast<int64_t>(runs[0].count) == from[0]->features.rows;
  if (whole_piece) {
    const int64_t count = from[0]->features.rows;
    std::swap(batch, from[0]->features);
    from[0]->features.rows = count;
  } else {
    gather_rows(sources, runs, batch);
  }
  batch.unix_ms = unix_ms;
  lock.lock();
  for (const RowRun& run : runs) {
    Rows& piece = *ready_.front();
    piece.taken += run.count;
    statistics_.bad_rows = piece.bad_rows;
    advance(piece);
    if (piece.taken < piece.count) break;
    if (piece.features.memory() != options_.memory) piece.features = batch_in(options_.memory);
    free_.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  room_.notify_one();
}

// Moves the position after the rows of a piece that were taken.
void Loader::Stream::advance(const Rows& rows) {
  StreamPosition& at = position_[share_.index_of(rows.partition)];
  if (rows.taken == rows.features.rows) {
    at = {rows.partition, rows.end_offset, 0};
  } else {
    const int64_t last = rows.positions[static_cast<size_t>(rows.taken - 1)];
    at = {rows.partition, offset_of(last), row_of(last) + 1};
  }
}

void Loader::Stream::sample(const std::function<void(const Block&)>& take) const {
  constexpr size_t kMostMessages = 4096, kMostBytes = 1 << 20;
  constexpr auto kLongest = std::chrono::seconds(10);
  if (decoder_->columns() == nullptr) return;
  KafkaAddress address = address_;
  address.start = KafkaAddress::Start::kEarliest;
  address.start_unix_ms.reset();
  address.until_now = true;
  address.gap = KafkaAddress::Gap::kSkip;
  KafkaReader reader(address, {});  // all partitions, so that all ranks see the same
  MessageChunk chunk;
  const auto add = [&](const KafkaRecord& record) {
    chunk.bytes.append(record.payload);
    chunk.ends.push_back(chunk.bytes.size());
    chunk.offsets.push_back(static_cast<int64_t>(chunk.offsets.size()));
  };
  for (const auto until = Clock::now() + kLongest; Clock::now() < until;) {
    if (chunk.messages() >= kMostMessages || chunk.bytes.size() >= kMostBytes) break;
    if (reader.poll(20, add) == KafkaReader::Polled::kEnd) break;
  }
  DecodedPiece decoded;
  decoder_->decode(chunk, {}, decoded);
  if (decoded.block.rows > 0) take(decoded.block);
}

std::vector<ColumnSpec> Loader::Stream::columns() const {
  if (decoder_->columns() == nullptr) return {};
  return *decoder_->columns();
}

LoaderStatistics Loader::Stream::statistics() const {
  const std::lock_guard lock(mutex_);
  LoaderStatistics statistics = statistics_;
  for (size_t i = 0; i < ends_.size(); ++i)
    statistics.lag.messages += std::max<int64_t>(0, ends_[i].offset - position_[i].offset);
  return statistics;
}

}  // namespace emblem
