#include "serve/engine/pipeline_engine.h"

#include <algorithm>
#include <cstring>

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

bool uses_shared_memory(const InferRequest& request) {
  return std::any_of(request.inputs.begin(), request.inputs.end(),
                     [](const InputTensor& input) { return input.in_shared_memory; });
}

}  // namespace

PipelineEngine::PipelineEngine(const RequestColumns& columns, const FeatureTransform& transform,
                               std::unique_ptr<Predictor> predictor, int threads)
    : columns_(columns),
      transform_(transform),
      threads_(threads > 1 ? std::make_unique<ThreadPool>(threads) : nullptr),
      context_{.threads = threads_.get()},
      predictor_(std::move(predictor)),
      feed_(context_) {}

bool PipelineEngine::read(std::span<EngineTask> tasks) {
  columns_.clear(piece_);
  for (EngineTask& task : tasks) columns_.append(*task.request, task.rows, piece_);
  columns_.finish(piece_);
  transform_.apply(piece_, batch_);
  return piece_.bad.count == 0;
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

void PipelineEngine::compute(std::span<EngineTask> tasks, EngineTimes& times) {
  try {
    if (!read(tasks)) {
      const bool hides_values = uses_shared_memory(*tasks[0].request);
      throw Error(
          ErrorCode::kInvalidArgument,
          cat("row ", piece_.bad.position, ": ",
              hides_values ? "a value is not valid; values of requests with inputs in shared "
                             "memory are not shown, send the inputs to see which it is"
                           : piece_.bad.what));
    }
    times.input_end = Clock::now();
    probabilities_.resize(static_cast<size_t>(batch_.rows));
    predictor_->run(context_, feed_.set(batch_), probabilities_);
    times.infer_end = Clock::now();
    answer(tasks);
  } catch (...) {
    if (tasks.size() == 1) throw;
    run_one_by_one(tasks, times);
  }
  times.output_end = Clock::now();
}

// One of the requests failed, or they need too much memory together: only those that fail alone
// shall fail.
void PipelineEngine::run_one_by_one(std::span<EngineTask> tasks, EngineTimes& times) {
  const auto start = times.start;
  for (EngineTask& task : tasks) {
    task.outputs.clear();
    run({&task, 1}, times);
  }
  times.start = start;
}

}  // namespace emblem
