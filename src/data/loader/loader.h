// data/loader/loader.h - batches from files, memory or a stream: parsing on worker threads, bounded
// prefetch. Files are read in an order that depends on the seed alone, the partitions of a stream
// in theirs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "data/batch.h"
#include "data/feature/transform.h"
#include "data/format/memory/table.h"
#include "data/source/remote_statistics.h"
#include "data/source/storage.h"

namespace emblem {

struct LoaderOptions {
  std::string input;  // files, folders or globs, comma-separated; or a topic (kafka/address.h)
  // In place of files: tables, which are read as a file with their rows would be, in any number of
  // epochs; or a source that is asked for one table after the other, whose order shuffling keeps
  // but for rows within windows. One of several streams is given a source of its own. `input` may
  // then name the data in messages; dataset_type, which says how files are read, has no meaning.
  std::vector<std::shared_ptr<const ColumnTable>> tables;
  NextTable next_table;
  int64_t batch_size = 1024;
  int workers = 1;
  int prefetch_batches = 8;
  uint64_t seed = 1;
  int64_t epochs = 1;        // 0: without end
  int64_t max_batches = -1;  // -1: as many as there are
  bool shuffle = false;      // order of files and pieces, and rows within windows
  int64_t shuffle_rows = 0;  // rows that are mixed with each other; up to 1: only pieces are
  double sample_ratio = 1.0;
  double holdout_ratio = 0.0;  // the share of rows that is RowPart::kHoldout
  // Columns that decide to which part a row belongs.
  std::vector<std::string> holdout_fields;
  RowPart rows = RowPart::kAll;                     // sample_ratio applies to these
  int64_t max_bad_rows = 0;                         // tolerated in each epoch of a stream
  BadRowHandling bad_rows = BadRowHandling::kSkip;  // kBlank: without shuffling
  std::vector<std::string> keep;  // columns that Batch::kept has as CSV text; with kBlank
  bool drop_remainder = false;
  LabelCheck label_check = LabelCheck::kByKind;
  int64_t piece_bytes = int64_t{1} << 20;  // text that a worker parses at a time
  // One of `streams` streams that have every row of an epoch once together, for training in
  // parallel: pieces of the data are dealt out among them. Each has batches and positions of its
  // own. Where there are few pieces, files are read in smaller ones. A stream may have no rows, in
  // some epochs or in all. Of a topic, the partitions are dealt out; `start` may have the positions
  // of all of them, whatever the number of streams was.
  int64_t stream = 0;
  int64_t streams = 1;
  DataPosition start;  // a Batch::next of a loader of the same data, options and seed
  // Storage of addresses in `input`. Null: one of its own with the settings of the data's
  // configuration.
  Storage storage;
  // Where batches take their memory from, by all workers at once; outlives them. Null: the heap.
  std::pmr::memory_resource* memory = nullptr;
};

// How far a stream is ahead of what next() has given out.
struct StreamLag {
  int64_t messages = 0;       // that are in the topic and were not given out
  double seconds = 0;         // the age of the newest row, when it was given out
  int64_t lost_messages = 0;  // deleted before they were read
  std::string problem;        // why nothing can be read at the moment; empty: none is known
};

// What the loader did since it was made. Times are summed over worker threads.
struct LoaderStatistics {
  int64_t rows = 0;
  int64_t bytes = 0;         // bytes of input
  int64_t bad_rows = 0;      // skipped up to the last batch, not in what was read ahead of it
  FeatureCounts counts;      // counts over all rows that were parsed
  double parse_seconds = 0;  // workers decoding and transforming
  double idle_seconds = 0;   // workers without work: enough is parsed ahead
  double wait_seconds = 0;   // next() waiting for a batch
  RemoteStatistics remote;   // statistics over all users of the storage meanwhile
  StreamLag lag;
};

// Used by one thread. Its workers stop when it is destroyed, which also warns of sequences that
// were cut and ids that were replaced, once for each input.
class Loader {
 public:
  // Opens the data set; throws Error when files are missing, empty or do not fit the schema.
  Loader(const config::DataConfig& data, const FeatureLayout& features, LoaderOptions options);
  ~Loader();

  // Moves the next batch into `batch` (whose old buffers are reused) and returns true; false at the
  // end of the last epoch, after max_batches, or when one of several streams has no rows. Throws
  // Error for unreadable rows: file, line, what was expected.
  bool next(Batch& batch);

  // Waits up to `timeout` for next() not to have to wait; whether it does not.
  bool wait(std::chrono::milliseconds timeout);

  // For a stream: the rows that are there become the next batch, though they do not fill it,
  // except with max_wait_ms=0. Returns whether next() does not have to wait, and then is to be
  // called. For files: true.
  bool close_batch();

  // Where the first batch begins: LoaderOptions::start, of a topic with the partitions that this
  // loader reads.
  DataPosition start() const;

  LoaderStatistics statistics() const;

  // Columns of columns_needed as they are read; empty where the messages of a stream have types.
  std::vector<ColumnSpec> columns() const;

  // Calls `take` with columns() of a few pieces from the start to the end of the files; not at all
  // of a stream.
  void sample(const std::function<void(const Block&)>& take) const;

  // How many rows next() gives out in all: estimated from the share of the files that was parsed so
  // far, exact once next() has returned false. 0: not known yet, or without end.
  int64_t expected_rows() const;

 private:
  class Source;
  class Pipeline;  // files and memory
  class Stream;
  std::unique_ptr<Source> source_;
};

// Options for training and for evaluation (one epoch, no shuffling, all rows) from the
// configuration.
LoaderOptions training_loader_options(const config::PipelineConfig& config);
LoaderOptions evaluation_loader_options(const config::PipelineConfig& config);

}  // namespace emblem
