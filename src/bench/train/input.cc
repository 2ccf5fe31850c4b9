#include "bench/train/input.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/memory/buffer.h"
#include "core/system/seconds_since.h"
#include "data/feature/row_gather.h"
#include "train/run/batch_stream.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

// A copy of a batch.
class ResidentBatch {
 public:
  ResidentBatch(const Context& context, const Batch& batch) {
    for (const SparseColumn& column : batch.sparse)
      keys_.push_back(
          {put(context, column.keys), put(context, column.offsets), put(context, column.weights)});
    for (const SequenceColumn& column : batch.sequences)
      sequences_.push_back(
          {column.elements(), put(context, column.offsets),
           put(context, column.numbers, columns_of(column.numbers, column.elements()))});
    batch_ = {
        .rows = batch.rows,
        .dense = put(context, batch.dense, columns_of(batch.dense, batch.rows)),
        .labels = put(context, batch.labels, columns_of(batch.labels, batch.rows)),
        .weights = put(context, batch.sample_weights, columns_of(batch.sample_weights, batch.rows)),
        .sparse = keys_,
        .sequences = sequences_,
        .candidate_logs = put(context, batch.candidate_logs),
        .candidate_of = put(context, batch.candidate_of)};
    context.synchronize();  // `batch` may be destroyed now
  }
  const ModelBatch& batch() const { return batch_; }

 private:
  static int64_t columns_of(const HostVector<float>& values, int64_t rows) {
    return rows > 0 ? std::max<int64_t>(1, static_cast<int64_t>(values.size()) / rows) : 1;
  }
  template <class T>
  View<const T> put(const Context& context, const HostVector<T>& values, int64_t cols = 1) {
    if (values.empty()) return {nullptr, 0, cols, context.device};
    const size_t bytes = values.size() * sizeof(T);
    Buffer<char>& memory = memory_.emplace_back(context.device, static_cast<int64_t>(bytes));
    detail::copy(context, memory.data(), values.data(), bytes);
    return {reinterpret_cast<const T*>(memory.data()), static_cast<int64_t>(values.size()) / cols,
            cols, context.device};
  }

  std::vector<Buffer<char>> memory_;
  std::vector<FeatureKeys> keys_;
  std::vector<SequenceView> sequences_;
  ModelBatch batch_;
};

class DeviceInput final : public TrainInput {
 public:
  DeviceInput(const Context& context, std::vector<Batch> batches) {
    for (Batch& batch : batches) {
      batches_.push_back(std::make_unique<ResidentBatch>(context, batch));
      batch = {};
    }
  }
  const ModelBatch* next() override { return &batches_[next_++ % batches_.size()]->batch(); }
  const ModelBatch* look_ahead() override { return &batches_[next_ % batches_.size()]->batch(); }

 private:
  std::vector<std::unique_ptr<ResidentBatch>> batches_;
  size_t next_ = 0;
};

// A copy of the batch in another memory resource.
Batch moved_to(std::pmr::memory_resource* memory, Batch batch) {
  if (batch.memory() == memory) return batch;
  const RowRun all{0, 0, static_cast<uint32_t>(batch.rows)};
  const Batch* const source = &batch;
  Batch copy = batch_in(memory);
  gather_rows({&source, 1}, {&all, 1}, copy);
  copy.candidate_logs = batch.candidate_logs;
  copy.candidate_of = batch.candidate_of;
  return copy;
}

// Batches from host memory or from a loader, copied to the device as in training.
class StreamInput final : public TrainInput {
 public:
  StreamInput(const Context& context, std::vector<Batch> batches)
      : memory_(batch_memory(context)), given_(std::move(batches)) {
    for (Batch& batch : given_) batch = moved_to(memory_.get(), std::move(batch));
    batches_.emplace(context, [this] { return &given_[next_++ % given_.size()]; });
  }
  StreamInput(const Context& context, const config::PipelineConfig& config,
              const FeatureLayout& layout, LoaderOptions options)
      : memory_(batch_memory(context)) {
    options.memory = memory_.get();
    loader_ = std::make_unique<Loader>(config.data_config(), layout, options);
    batches_.emplace(context, [this, load = batches_of(*loader_)] {
      const auto start = Clock::now();
      const Batch* batch = load();
      loaded_seconds_ += seconds_since(start);
      return batch;
    });
  }

  const ModelBatch* next() override {
    return waiting_for([&] { return batches_->next() ? &batches_->batch() : nullptr; });
  }
  const ModelBatch* look_ahead() override {
    return waiting_for([&] { return batches_->look_ahead(); });
  }

 private:
  template <class Take>
  const ModelBatch* waiting_for(Take take) {
    const auto start = Clock::now();
    const ModelBatch* batch = take();
    waited_seconds_ += seconds_since(start);
    return batch;
  }

  std::shared_ptr<std::pmr::memory_resource> memory_;  // memory of the batches
  std::vector<Batch> given_;                           // used round-robin, or
  size_t next_ = 0;
  std::unique_ptr<Loader> loader_;  // the source of batches
  std::optional<BatchStream> batches_;
};

}  // namespace

std::unique_ptr<TrainInput> input_on_device(const Context& context, std::vector<Batch> batches) {
  return std::make_unique<DeviceInput>(context, std::move(batches));
}

std::unique_ptr<TrainInput> input_in_memory(const Context& context, std::vector<Batch> batches) {
  return std::make_unique<StreamInput>(context, std::move(batches));
}

std::unique_ptr<TrainInput> input_from_files(const Context& context,
                                             const config::PipelineConfig& config,
                                             const FeatureLayout& layout,
                                             const LoaderOptions& options) {
  return std::make_unique<StreamInput>(context, config, layout, options);
}

}  // namespace emblem
