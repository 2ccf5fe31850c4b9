// data/loader/stream.h - the threads and queues of a Loader that reads a topic. Internal to
// data/loader.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/feature/transform.h"
#include "data/format/binary/message_decoder.h"
#include "data/loader/source.h"
#include "kafka/reader.h"

namespace emblem {

// A thread collects messages into chunks, as large as they come without waiting. Workers decode
// and transform chunks. next() takes rows in the order in which the messages came, a batch when
// there are enough, or when the oldest row has waited for max_wait_ms. One of several streams reads
// a share of the partitions, which may be none. Threads start with the first call of next() or
// wait(); their exceptions reach next() after the full batches before them.
class Loader::Stream final : public Loader::Source {
 public:
  Stream(const config::DataConfig& data, const FeatureLayout& features,
         const LoaderOptions& options);
  ~Stream() override;

  bool next(Batch& batch) override;
  bool wait(std::chrono::milliseconds timeout) override;
  bool close_batch() override;
  DataPosition start() const override { return start_; }
  LoaderStatistics statistics() const override;
  int64_t expected_rows() const override { return 0; }
  std::vector<ColumnSpec> columns() const override;
  // The oldest messages of the topic that are there, which another reader reads.
  void sample(const std::function<void(const Block&)>& take) const override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Rows {  // rows of a chunk, decoded
    Batch features;
    int64_t count = 0;              // rows that are given out: all, or those before an error
    HostVector<int64_t> positions;  // by row
    int32_t partition = 0;
    int64_t end_offset = 0;  // after the last message
    int64_t unix_ms = 0;
    int64_t taken = 0;           // rows that are in batches
    int64_t bad_rows = 0;        // up to here, those before included
    Clock::time_point received;  // time of its first message
  };
  struct Job {  // a chunk under way
    MessageChunk chunk;
    std::unique_ptr<Rows> rows;
    BadRows bad;
    FeatureCounts counts;
    std::exception_ptr error;
    bool started = false, done = false;
  };
  struct OpenChunk {
    MessageChunk messages;
    Clock::time_point received;
  };

  void start();
  void stop();
  // The thread that reads.
  void read();
  void read_messages();
  bool wait_for_room();
  void take(const KafkaRecord& record);
  void submit(OpenChunk& chunk);
  void submit_all();
  void update_ends();
  void update_problem();
  // Workers.
  void work();
  void decode(Job& job, DecodedPiece& scratch);
  const FeatureTransform& transform_of(const std::vector<ColumnSpec>& columns);
  void commit_jobs();
  void commit(Job& job);
  void count_bad_rows(const Job& job);
  // The caller of next().
  bool is_ready() const;
  std::optional<Clock::time_point> deadline() const;
  bool wait_until_ready(std::unique_lock<std::mutex>& lock, Clock::time_point until);
  void assemble(int64_t rows, std::unique_lock<std::mutex>& lock, Batch& batch);
  void advance(const Rows& rows);

  const LoaderOptions options_;
  const KafkaAddress address_;
  const KafkaShare share_;
  const std::vector<ColumnRequest> requests_;
  std::unique_ptr<MessageDecoder> decoder_;
  const std::function<std::unique_ptr<FeatureTransform>(const std::vector<ColumnSpec>&)>
      make_transform_;
  std::mutex transforms_mutex_;  // guards the map
  std::map<const std::vector<ColumnSpec>*, std::unique_ptr<FeatureTransform>> transforms_;
  RowSample sample_;
  int64_t prefetch_rows_ = 0;
  std::unique_ptr<KafkaReader> reader_;  // used by the reading thread once it runs
  std::vector<OpenChunk> open_;          // by partition of the share; of the thread that reads
  std::string problem_;                  // problem of the reader; used by the reading thread
  DataPosition start_;

  mutable std::mutex mutex_;           // guards all below
  std::condition_variable room_;       // the reader waits: rows were taken, or stop
  std::condition_variable work_;       // workers wait: a chunk, or stop
  std::condition_variable delivered_;  // next() waits: rows, the end or an error
  std::deque<std::unique_ptr<Job>> jobs_;
  std::deque<std::unique_ptr<Rows>> ready_;
  std::vector<std::unique_ptr<Rows>> free_;
  std::vector<StreamPosition> position_;  // by partition of the share
  std::vector<KafkaOffset> ends_;         // by partition of the share
  int64_t ready_rows_ = 0;
  int64_t rows_before_ = 0;  // given out before this loader
  int64_t bad_rows_ = 0;
  std::string first_bad_row_;
  int64_t batches_ = 0;
  bool closed_ = false;    // the rows that are there are a batch
  bool all_read_ = false;  // until=now
  bool stop_ = false;
  std::exception_ptr error_;
  LoaderStatistics statistics_;
  std::vector<std::thread> threads_;
};

}  // namespace emblem
