#include "data/loader/loader.h"

#include <algorithm>
#include <cmath>

#include "core/system/log.h"
#include "core/threads/start_threads.h"
#include "data/format/local_input.h"
#include "data/format/memory/table_file.h"
#include "data/loader/item_sampler.h"
#include "data/loader/pipeline.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"
#include "kafka/address.h"

namespace emblem {
namespace {

// Records a worker decodes at a time: a batch, so that unshuffled batches are pieces as they are,
// unless that would make pieces too small to be worth a hand-over or too large to share among
// workers.
int64_t records_per_piece(int64_t batch_size) {
  constexpr int64_t kFewest = 512, kMost = 65536;
  if (batch_size > kMost) return kMost;
  return batch_size * ((kFewest + batch_size - 1) / batch_size);
}

// What a stream shuffles by, apart from the order of pieces, which all streams have in common.
uint64_t seed_of_stream(const LoaderOptions& options) {
  if (options.streams == 1) return options.seed;
  return random_bits(options.seed, 0x73747265616d0000ull, static_cast<uint64_t>(options.stream));
}

// Epochs in a row without a batch after which one of several streams ends. Without shuffling all
// its epochs are alike. With shuffling each has 1 / streams of the pieces, chosen at random: the
// only row of a data set is in none of these epochs with a probability of exp(-20).
int64_t most_empty_epochs(const LoaderOptions& options) {
  if (options.streams == 1) return 0;
  return options.shuffle ? 20 * options.streams : 1;
}

Storage storage_of(const config::DataConfig& data, const LoaderOptions& options) {
  const bool needs_own = options.storage == nullptr && has_remote_inputs(options.input);
  return needs_own ? open_storage(data) : options.storage;
}

RemoteStatistics statistics_of(const Storage& storage) {
  return storage == nullptr ? RemoteStatistics{} : storage->statistics();
}

// A pass for each epoch.
NextTable epochs_of(const TablePasses& source, const std::string& name) {
  return [source, name, pass = NextTable()]() mutable {
    const bool is_new = pass == nullptr;
    if (is_new) pass = source();
    std::shared_ptr<const ColumnTable> table = pass();
    EMBLEM_REQUIRE(table != nullptr || !is_new, name,
                   " has no rows; it is empty, or it was read before and can be read only once");
    if (table == nullptr) pass = nullptr;
    return table;
  };
}

}  // namespace

Loader::Pipeline::Pipeline(const config::DataConfig& data, const FeatureLayout& features,
                           const LoaderOptions& options)
    : options_(options),
      storage_(storage_of(data, options)),
      sample_{options.sample_ratio, options.seed, options.holdout_ratio,
              options.holdout_fields.empty() ? options.rows : RowPart::kAll},
      shuffle_seed_(seed_of_stream(options)),
      remote_before_(statistics_of(storage_)) {
  EMBLEM_REQUIRE(options.batch_size > 0, "batch_size is ", options.batch_size,
                 "; expected at least 1");
  EMBLEM_REQUIRE(options.sample_ratio > 0 && options.sample_ratio <= 1, "sample_ratio is ",
                 options.sample_ratio, "; expected a share above 0 and at most 1");
  EMBLEM_REQUIRE(options.piece_bytes > 0, "piece_bytes is ", options.piece_bytes,
                 "; expected at least 1");
  EMBLEM_REQUIRE(!options.input.empty(),
                 "no input is given; set train_input_path or eval_input_path");
  EMBLEM_REQUIRE(options.bad_rows == BadRowHandling::kSkip || !options.shuffle,
                 "rows are shuffled; bad rows have a place in data that is read in order only");
  EMBLEM_REQUIRE(options.keep.empty() || options.bad_rows == BadRowHandling::kBlank,
                 "columns are kept together with bad rows only (BadRowHandling::kBlank)");
  EMBLEM_REQUIRE(options.stream >= 0 && options.stream < options.streams, "stream ", options.stream,
                 " of ", options.streams, ": streams count from 0");
  EMBLEM_REQUIRE(options.holdout_ratio >= 0 && options.holdout_ratio < 1, "holdout_ratio is ",
                 options.holdout_ratio, "; expected a share of at least 0 and below 1");
  std::vector<ColumnRequest> requests = columns_needed(data, features, options.label_check);
  if (options.rows != RowPart::kAll && !options.holdout_fields.empty())
    holdout_ = ContentHoldout(options.holdout_fields, options.holdout_ratio, options.seed,
                              options.rows, requests);
  if (options.next_table != nullptr) {
    DataSource source = source_of(data, options.input);
    source.keep = options.keep;
    feed_ = std::make_unique<TableFeed>(source, requests, options.next_table,
                                        records_per_piece(options.batch_size), options.start.piece);
  } else {
    open_files(data, requests);
  }
  transform_ = std::make_unique<FeatureTransform>(data, features, options.label_check, requests,
                                                  columns(), options.bad_rows);
  window_rows_ = options.shuffle && options.shuffle_rows > 1 ? options.shuffle_rows : 0;
  planner_ = std::make_unique<BatchPlanner>(BatchPlanner::Options{
      .batch_size = options.batch_size,
      .window_rows = window_rows_,
      .drop_remainder = options.drop_remainder,
      .seed = shuffle_seed_,
      .filtered = data.filters_size() > 0,
      .most_empty_epochs = most_empty_epochs(options),
      .start = options.start,
  });
  if (order_ != nullptr) check_start();
  epoch_size_ = order_ != nullptr ? order_->size(options.start.epoch) : 1;
  next_epoch_ = options.start.epoch;
  next_piece_ = options.start.piece;

  prefetch_rows_ = window_rows_ + rows_to_prefetch(features, options);
  if (!reads_on()) return;
  const int workers = std::max(options.workers, 1);
  start_threads(
      workers_, workers, cat(workers, " loader threads"), "use a smaller data_config.num_workers",
      [this] { work(); }, [this] { stop(); });
}

// The files of options_.input, or options_.tables, and the order of their pieces.
void Loader::Pipeline::open_files(const config::DataConfig& data,
                                  const std::vector<ColumnRequest>& requests) {
  DataSource source = source_of(data, options_.input, storage_);
  source.threads = std::max(options_.workers, 1);
  source.keep = options_.keep;
  if (options_.tables.empty()) {
    decoder_ = make_decoder(source, &requests);
  } else {
    decoder_ = make_table_decoder(source, &requests, options_.tables);
  }
  if (data.direct_reads()) {
    const std::string refused = decoder_->read_directly();
    if (!refused.empty())
      log_warn(
          cat("the file system of ", refused,
              " refuses data_config.direct_reads (O_DIRECT); it is read through the page cache"));
  }
  const int64_t piece_size = decoder_->unit() == ExtentUnit::kBytes
                                 ? options_.piece_bytes
                                 : records_per_piece(options_.batch_size);
  order_ = std::make_unique<PieceOrder>(
      *decoder_, piece_size_for(*decoder_, piece_size, options_.streams),
      options_.shuffle ? ReadOrder::kShuffled : ReadOrder::kAsStored, options_.seed,
      StreamShare{options_.stream, options_.streams});
  if (has_remote_inputs(options_.input))
    ahead_ = std::make_unique<ReadAhead>(*decoder_, storage_->queue(), *order_, options_.epochs);
  EMBLEM_REQUIRE(!order_->has_no_data(), options_.input, " has no rows",
                 data.filters_size() > 0 ? " that fulfil data_config.filters" : "");
}

void Loader::Pipeline::check_start() const {
  const DataPosition& start = options_.start;
  const int64_t pieces = order_->count(start.epoch);
  EMBLEM_REQUIRE(start.piece >= 0 && (start.piece < pieces || pieces == 0) && start.row >= 0 &&
                     start.emitted >= 0 && start.rows_in_epoch >= start.emitted,
                 "the saved position (piece ", start.piece, ", row ", start.row,
                 ") is not one of this data set, which has ", pieces,
                 " pieces; has the data or the batch size changed?");
}

// Whether there are pieces that no worker has taken yet.
bool Loader::Pipeline::reads_on() const {
  if (options_.epochs > 0 && next_epoch_ >= options_.epochs) return false;
  return epoch_size_ > 0 && !planner_->has_ended();
}

Loader::Pipeline::~Pipeline() {
  stop();
  for (std::thread& worker : workers_) worker.join();
  warn_of_changes(options_.input, statistics_.counts);
}

void Loader::Pipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
}

// Whether next() does not have to wait.
bool Loader::Pipeline::has_next() const {
  if (!deliveries_.empty()) return deliveries_.front()->done;
  return error_ != nullptr || batches_ == options_.max_batches || (!reads_on() && jobs_.empty());
}

bool Loader::Pipeline::wait(std::chrono::milliseconds timeout) {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  const bool is_there = delivered_.wait_for(lock, timeout, [this] { return has_next(); });
  statistics_.wait_seconds += seconds_since(start);
  return is_there;
}

bool Loader::Pipeline::next(Batch& batch) {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  if (batches_ == options_.max_batches) {
    ended_ = true;
    return false;
  }
  delivered_.wait(lock, [this] { return has_next(); });
  statistics_.wait_seconds += seconds_since(start);
  if (deliveries_.empty()) {
    if (error_ != nullptr) rethrow(error_);
    statistics_.bad_rows = bad_rows_;
    ended_ = true;
    return false;
  }
  if (deliveries_.front()->error != nullptr) rethrow(deliveries_.front()->error);
  ++batches_;
  if (feed_ != nullptr) feed_->drop_sample();
  statistics_.bad_rows = deliveries_.front()->bad_rows;
  std::swap(batch, deliveries_.front()->batch);
  if (deliveries_.front()->batch.memory() == options_.memory)
    free_batches_.push_back(std::move(deliveries_.front()->batch));
  deliveries_.pop_front();
  waiting_rows_ -= batch.rows;
  statistics_.rows += batch.rows;
  if (has_room()) work_.notify_all();
  return true;
}

void Loader::Pipeline::sample(const std::function<void(const Block&)>& take) const {
  if (feed_ != nullptr) return feed_->sample(sample_, take);
  constexpr int64_t kMost = 8;  // remote or not: what is found must not depend on the place
  DecodedPiece decoded;
  int64_t before = -1;
  for (int64_t i = 0; i < kMost; ++i) {
    std::unique_lock lock(mutex_);
    const int64_t at = i * (order_->count(0) - 1) / (kMost - 1);
    if (at < 0 || at == std::exchange(before, at)) continue;
    const FilePiece piece = order_->at(0, at);
    lock.unlock();
    decoder_->decode(piece.file, piece.range, sample_, nullptr, decoded);
    take(decoded.block);
  }
}

LoaderStatistics Loader::Pipeline::statistics() const {
  const std::lock_guard lock(mutex_);
  LoaderStatistics statistics = statistics_;
  statistics.idle_seconds = idle_seconds();
  statistics.remote = statistics_of(storage_) - remote_before_;
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
  if (options_.epochs > 0 && parsed_size_ > 0 && feed_ == nullptr) {
    double in_epoch = static_cast<double>(parsed_rows_) * static_cast<double>(epoch_size_) /
                      static_cast<double>(parsed_size_);
    if (options_.drop_remainder) in_epoch = std::floor(in_epoch / batch_size) * batch_size;
    const DataPosition& start = options_.start;
    rows = std::min(rows, static_cast<double>(options_.epochs - start.epoch) * in_epoch -
                              static_cast<double>(start.rows_in_epoch));
  }
  return rows == kUnknown ? 0 : std::max<int64_t>(0, std::llround(rows));
}

std::unique_ptr<Loader::Source> Loader::Source::with_candidates(const config::DataConfig& data,
                                                                const FeatureLayout& features,
                                                                const LoaderOptions& options) {
  class WithCandidates : public Wrapper {
   public:
    WithCandidates(const config::DataConfig& data, const FeatureLayout& features,
                   const LoaderOptions& options)
        : Wrapper(open(data, layout_of_rows(features), options)) {
      if (items_in(features) >= 0)
        sampler_.emplace(data, features, options);
      else if (options.label_check != LabelCheck::kIgnore)
        draws_.emplace(data, features, options.storage);
    }

    bool next(Batch& batch) override {
      if (!rows().next(batch)) return false;
      if (sampler_) sampler_->add_items(batch);
      if (draws_) draws_->add_logs(batch);
      return true;
    }

   private:
    std::optional<ItemSampler> sampler_;
    std::optional<CandidateDraws> draws_;  // of the items of rows, where none are sampled
  };
  return std::make_unique<WithCandidates>(data, features, options);
}

std::unique_ptr<Loader::Source> Loader::Source::open(const config::DataConfig& data,
                                                     const FeatureLayout& features,
                                                     LoaderOptions options) {
  if (is_memory_address(options.input)) {
    if (const TablePasses source = table_passes(options.storage, options.input)) {
      EMBLEM_REQUIRE(options.streams == 1, options.input,
                     " is read table by table, by one process and in one stream; give ",
                     options.streams, " of them files, or tables in memory");
      options.next_table = epochs_of(source, options.input);
    } else {
      options.tables = memory_tables(options.storage, options.input);
    }
  }
  const bool is_in_memory = !options.tables.empty() || options.next_table != nullptr;
  EMBLEM_REQUIRE(options.tables.empty() || options.next_table == nullptr,
                 "tables and a source of tables are given; expected one of them");
  if (is_in_memory) {
    config::DataConfig tables = data;
    tables.set_dataset_type(config::ArrowDataset);  // columns with types
    if (options.input.empty()) options.input = "the table in memory";
    return std::make_unique<Pipeline>(tables, features, options);
  }
  if (is_kafka_address(options.input)) return Source::open_stream(data, features, options);
  if (data.dataset_type() == config::KafkaDataset && !options.input.empty()) {
    config::DataConfig files = data;  // evaluations of a model that is trained on a stream
    follow_files(options.input, &files, options.storage);
    return std::make_unique<Pipeline>(files, features, options);
  }
  return std::make_unique<Pipeline>(data, features, options);
}

Loader::Loader(const config::DataConfig& data, const FeatureLayout& features, LoaderOptions options)
    : source_(items_in(features) >= 0 || features.candidates.have_frequency
                  ? Source::with_candidates(data, features, options)
              : data.has_tdm_sampler() && options.label_check != LabelCheck::kIgnore
                  ? Source::with_nodes(data, features, options)
                  : Source::open(data, features, std::move(options))) {}

Loader::~Loader() = default;

bool Loader::next(Batch& batch) { return source_->next(batch); }

bool Loader::wait(std::chrono::milliseconds timeout) { return source_->wait(timeout); }

bool Loader::close_batch() { return source_->close_batch(); }

DataPosition Loader::start() const { return source_->start(); }

LoaderStatistics Loader::statistics() const { return source_->statistics(); }

std::vector<ColumnSpec> Loader::columns() const { return source_->columns(); }

void Loader::sample(const std::function<void(const Block&)>& take) const { source_->sample(take); }

int64_t Loader::expected_rows() const { return source_->expected_rows(); }

}  // namespace emblem
