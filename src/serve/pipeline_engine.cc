#include "serve/pipeline_engine.h"

#include <algorithm>
#include <cstring>

#include "model/probability.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

// Rows [begin, begin + rows) of a feature. `offsets` takes those of the piece where it has any.
FeatureKeys rows_of(const SparseColumn& column, int64_t begin, int64_t rows,
                    HostVector<int32_t>& offsets) {
  int64_t first = begin, count = rows;
  View<const int32_t> piece_offsets;
  if (!column.offsets.empty()) {
    first = column.offsets[static_cast<size_t>(begin)];
    count = column.offsets[static_cast<size_t>(begin + rows)] - first;
    offsets.resize(static_cast<size_t>(rows + 1));
    for (int64_t row = 0; row <= rows; ++row) {
      offsets[static_cast<size_t>(row)] =
          column.offsets[static_cast<size_t>(begin + row)] - static_cast<int32_t>(first);
    }
    piece_offsets = {offsets.data(), rows + 1, 1};
  }
  View<const float> weights;
  if (!column.weights.empty()) weights = {column.weights.data() + first, count, 1};
  return {{column.keys.data() + first, count, 1}, piece_offsets, weights};
}

}  // namespace

PipelineEngine::PipelineEngine(const RequestColumns& columns, const FeatureTransform& transform,
                               std::unique_ptr<Model> model, int threads)
    : columns_(columns),
      transform_(transform),
      threads_(threads > 1 ? std::make_unique<ThreadPool>(threads) : nullptr),
      context_{.threads = threads_.get()},
      model_(std::move(model)) {}

bool PipelineEngine::read(std::span<EngineTask> tasks) {
  columns_.clear(piece_);
  for (EngineTask& task : tasks) columns_.append(*task.request, task.rows, piece_);
  columns_.finish(piece_);
  transform_.apply(piece_, batch_);
  return piece_.bad.count == 0;
}

void PipelineEngine::compute() {
  probabilities_.resize(static_cast<size_t>(batch_.rows));
  const int64_t dense_cols =
      batch_.rows == 0 ? 0 : static_cast<int64_t>(batch_.dense.size()) / batch_.rows;
  for (int64_t begin = 0; begin < batch_.rows; begin += kPieceRows) {
    const int64_t rows = std::min(kPieceRows, batch_.rows - begin);
    keys_.clear();
    offsets_.resize(batch_.sparse.size());
    for (size_t f = 0; f < batch_.sparse.size(); ++f)
      keys_.push_back(rows_of(batch_.sparse[f], begin, rows, offsets_[f]));
    ModelBatch view{.rows = rows, .sparse = keys_};
    view.dense = {batch_.dense.data() + begin * dense_cols, rows, dense_cols};
    model_->forward(context_, view, Phase::kEval, 0);
    const View<const float> logits = model_->logits();
    for (int64_t row = 0; row < rows; ++row)
      probabilities_[static_cast<size_t>(begin + row)] = probability_of(logits.data[row]);
  }
}

void PipelineEngine::answer(std::span<EngineTask> tasks) {
  const float* next = probabilities_.data();
  for (EngineTask& task : tasks) {
    const auto* bytes = reinterpret_cast<const std::byte*>(next);
    task.outputs.push_back({kProbability,
                            DataType::kFp32,
                            {task.rows, 1},
                            {bytes, bytes + static_cast<size_t>(task.rows) * sizeof(float)}});
    next += task.rows;
  }
}

void PipelineEngine::run(std::span<EngineTask> tasks, EngineTimes& times) {
  times.start = times.input_end = times.infer_end = Clock::now();
  try {
    if (!read(tasks)) {
      if (tasks.size() > 1) return run_one_by_one(tasks, times);
      throw Error(ErrorCode::kInvalidArgument,
                  cat("row ", piece_.bad.position, ": ", piece_.bad.what));
    }
    times.input_end = Clock::now();
    compute();
    times.infer_end = Clock::now();
    answer(tasks);
  } catch (const Error& error) {
    if (tasks.size() > 1) return run_one_by_one(tasks, times);
    tasks[0].error = error;
  } catch (const std::exception& error) {
    for (EngineTask& task : tasks) task.error = Error(ErrorCode::kInternal, error.what());
  }
  times.output_end = Clock::now();
}

// Something in the batch is no good: only its own request shall fail.
void PipelineEngine::run_one_by_one(std::span<EngineTask> tasks, EngineTimes& times) {
  const auto start = times.start;
  for (EngineTask& task : tasks) {
    task.outputs.clear();
    run({&task, 1}, times);
  }
  times.start = start;
}

}  // namespace emblem
