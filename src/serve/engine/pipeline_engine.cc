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

ServedOutputs::ServedOutputs(const std::vector<HeadSpec>& heads) : all(all_outputs(heads)) {
  for (const OutputSpec& output : default_outputs(heads))
    defaults.push_back(static_cast<size_t>(find(output.name)));
}

int64_t ServedOutputs::find(const std::string& name) const {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const OutputSpec& output) { return output.name == name; });
  return found == all.end() ? -1 : found - all.begin();
}

PipelineEngine::PipelineEngine(const RequestColumns& columns, const FeatureTransform& transform,
                               const RequestChanges& changes, const AttentionLimit& limit,
                               const ServedOutputs& outputs, std::unique_ptr<Predictor> predictor,
                               int threads, MakePredictor renew)
    : columns_(columns),
      transform_(transform),
      changes_(changes),
      limit_(limit),
      outputs_(outputs),
      threads_(threads > 1 ? std::make_unique<ThreadPool>(threads) : nullptr),
      context_{.threads = threads_.get()},
      predictor_(std::move(predictor)),
      renew_(std::move(renew)),
      feed_(context_) {}

bool PipelineEngine::read(std::span<EngineTask> tasks) {
  columns_.clear(piece_);
  for (EngineTask& task : tasks) columns_.append(*task.request, task.rows, piece_);
  columns_.finish(piece_);
  changes_.note(transform_.apply(piece_, batch_));
  limit_.check(batch_);
  return piece_.bad.count == 0;
}

void PipelineEngine::predict(std::span<EngineTask> tasks) {
  values_.resize(outputs_.all.size());
  for (auto& values : values_) values.clear();
  for (const EngineTask& task : tasks) {
    outputs_.for_each_of(*task.request, [&](size_t i) {
      values_[i].resize(static_cast<size_t>(batch_.rows * outputs_.all[i].cols));
    });
  }
  wanted_.clear();
  for (size_t i = 0; i < values_.size(); ++i) {
    const OutputSpec& output = outputs_.all[i];
    if (!values_[i].empty())
      wanted_.push_back({output, {values_[i].data(), batch_.rows, output.cols}});
  }
  predictor_->run(context_, feed_.set(batch_), wanted_);
}

void PipelineEngine::release() {
  piece_ = {};
  batch_ = {};
  values_ = {};
  feed_ = Feed(context_);
  if (renew_) predictor_ = renew_();
}

void PipelineEngine::answer(std::span<EngineTask> tasks) {
  const HeapAccount::Scope paused(nullptr);  // answers are taken from the budget beforehand
  int64_t row = 0;
  for (EngineTask& task : tasks) {
    outputs_.for_each_of(*task.request, [&](size_t i) {
      const OutputSpec& output = outputs_.all[i];
      const auto* bytes = reinterpret_cast<const std::byte*>(values_[i].data() + row * output.cols);
      const size_t size = static_cast<size_t>(task.rows * output.cols) * sizeof(float);
      task.outputs.push_back(
          {output.name, DataType::kFp32, {task.rows, output.cols}, {bytes, bytes + size}});
    });
    row += task.rows;
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
    predict(tasks);
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
