#include "bench/train_input.h"

#include <chrono>

#include "core/buffer.h"
#include "train/feed.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

// A batch in memory of its own.
class ResidentBatch {
 public:
  ResidentBatch(const Context& context, const Batch& batch) {
    for (const SparseColumn& column : batch.sparse)
      keys_.push_back(
          {put(context, column.keys), put(context, column.offsets), put(context, column.weights)});
    const int64_t dense_cols =
        batch.rows > 0 ? static_cast<int64_t>(batch.dense.size()) / batch.rows : 0;
    batch_ = {.rows = batch.rows,
              .dense = put(context, batch.dense, dense_cols),
              .labels = put(context, batch.labels),
              .weights = put(context, batch.sample_weights),
              .sparse = keys_};
    context.synchronize();  // `batch` may go now
  }
  const ModelBatch& batch() const { return batch_; }

 private:
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

 private:
  std::vector<std::unique_ptr<ResidentBatch>> batches_;
  size_t next_ = 0;
};

class MemoryInput final : public TrainInput {
 public:
  MemoryInput(const Context& context, std::vector<Batch> batches)
      : feed_(context), batches_(std::move(batches)) {}
  const ModelBatch* next() override {
    const auto start = Clock::now();
    const ModelBatch* batch = &feed_.set(batches_[next_++ % batches_.size()]);
    waited_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    return batch;
  }

 private:
  Feed feed_;
  std::vector<Batch> batches_;
  size_t next_ = 0;
};

class FileInput final : public TrainInput {
 public:
  FileInput(const Context& context, const config::PipelineConfig& config,
            const FeatureLayout& layout, const LoaderOptions& options)
      : feed_(context), loader_(config.data_config(), layout, options) {}
  const ModelBatch* next() override {
    const auto start = Clock::now();
    const bool there = loader_.next(batch_);
    loaded_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    const ModelBatch* batch = there ? &feed_.set(batch_) : nullptr;
    waited_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    return batch;
  }

 private:
  Feed feed_;
  Loader loader_;
  Batch batch_;
};

}  // namespace

std::unique_ptr<TrainInput> input_on_device(const Context& context, std::vector<Batch> batches) {
  return std::make_unique<DeviceInput>(context, std::move(batches));
}

std::unique_ptr<TrainInput> input_in_memory(const Context& context, std::vector<Batch> batches) {
  return std::make_unique<MemoryInput>(context, std::move(batches));
}

std::unique_ptr<TrainInput> input_from_files(const Context& context,
                                             const config::PipelineConfig& config,
                                             const FeatureLayout& layout,
                                             const LoaderOptions& options) {
  return std::make_unique<FileInput>(context, config, layout, options);
}

}  // namespace emblem
