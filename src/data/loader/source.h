// data/loader/source.h - what is behind a Loader. Internal to data/loader.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "data/loader/loader.h"

namespace emblem {

// The functions are those of Loader.
class Loader::Source {
 public:
  class Wrapper;

  virtual ~Source() = default;
  virtual bool next(Batch& batch) = 0;
  virtual bool wait(std::chrono::milliseconds) { return true; }
  virtual bool close_batch() { return true; }
  virtual DataPosition start() const = 0;
  virtual LoaderStatistics statistics() const = 0;
  virtual int64_t expected_rows() const = 0;
  virtual std::vector<ColumnSpec> columns() const = 0;
  virtual void sample(const std::function<void(const Block&)>&) const {}

  static std::unique_ptr<Source> open(const config::DataConfig& data, const FeatureLayout& features,
                                      LoaderOptions options);
  // The same with sampled items in each batch, where `features` has items, and with what candidates
  // of a matching model have besides features.
  static std::unique_ptr<Source> with_candidates(const config::DataConfig& data,
                                                 const FeatureLayout& features,
                                                 const LoaderOptions& options);
  // The same with rows for nodes of a tree in each batch, as data_config.tdm_sampler says.
  static std::unique_ptr<Source> with_nodes(const config::DataConfig& data,
                                            const FeatureLayout& features,
                                            const LoaderOptions& options);
  static std::unique_ptr<Source> open_stream(const config::DataConfig& data,
                                             const FeatureLayout& features,
                                             const LoaderOptions& options);

 protected:
  // Throws what a worker threw.
  [[noreturn]] static void rethrow(const std::exception_ptr& error);
  // The bytes of a row of features, where sequences without a limit have a typical length.
  static int64_t bytes_of_row(const FeatureLayout& features);
  // Rows that may wait for next(): `prefetch_batches` of them, unless that is too much memory.
  static int64_t rows_to_prefetch(const FeatureLayout& features, const LoaderOptions& options);
  // Warns of what was changed in the rows of `input`, once for each.
  static void warn_of_changes(const std::string& input, const FeatureCounts& counts);
};

// A source that changes the batches of another one.
class Loader::Source::Wrapper : public Source {
 public:
  explicit Wrapper(std::unique_ptr<Source> rows) : rows_(std::move(rows)) {}

  bool wait(std::chrono::milliseconds timeout) override { return rows_->wait(timeout); }
  bool close_batch() override { return rows_->close_batch(); }
  DataPosition start() const override { return rows_->start(); }
  LoaderStatistics statistics() const override { return rows_->statistics(); }
  int64_t expected_rows() const override { return rows_->expected_rows(); }
  std::vector<ColumnSpec> columns() const override { return rows_->columns(); }
  void sample(const std::function<void(const Block&)>& take) const override {
    rows_->sample(take);
  }

 protected:
  Source& rows() { return *rows_; }
  const Source& rows() const { return *rows_; }

 private:
  std::unique_ptr<Source> rows_;
};

}  // namespace emblem
