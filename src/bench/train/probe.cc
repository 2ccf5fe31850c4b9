#include "bench/train/probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "core/host_copy.h"
#include "nn/graph_state.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmup = 2, kSteps = 11;
constexpr int kFewest = kWarmup + 3;  // steps, if more would take longer than
constexpr double kLongest = 1.0;      // seconds
constexpr float kLossScale = 128.0f;  // so that gradients do not underflow in fp16

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The first row of a batch, in the same memory.
class FirstRow {
 public:
  FirstRow(const Context& context, const Model& model, const ModelBatch& of) {
    for (const SequenceView& sequence : of.sequences) {
      const View<const int32_t> offsets = first(sequence.offsets, 2);
      const int64_t elements = to_host(context, offsets)[1];
      sequences_.push_back({elements, offsets, first(sequence.numbers, elements)});
    }
    for (size_t f = 0; f < of.sparse.size(); ++f) {
      const int64_t sequence = model.sequence_of_feature()[f];
      const int64_t bags = sequence < 0 ? 1 : sequences_[static_cast<size_t>(sequence)].elements;
      keys_.push_back(first_bags(context, of.sparse[f], bags));
    }
    batch_ = {.rows = 1,
              .dense = first(of.dense, 1),
              .labels = first(of.labels, 1),
              .weights = first(of.weights, 1),
              .sparse = keys_,
              .sequences = sequences_};
  }
  const ModelBatch& batch() const { return batch_; }

 private:
  template <class T>
  static View<const T> first(View<const T> values, int64_t rows) {
    values.rows = std::min(values.rows, rows);
    return values;
  }

  static FeatureKeys first_bags(const Context& context, const FeatureKeys& feature, int64_t bags) {
    const View<const int32_t> offsets = first(feature.offsets, bags + 1);
    const int64_t keys = offsets.rows == 0 ? bags : to_host(context, offsets).back();
    return {first(feature.keys, keys), offsets, first(feature.weights, keys)};
  }

  std::vector<SequenceView> sequences_;
  std::vector<FeatureKeys> keys_;
  ModelBatch batch_;
};

double bytes_of(const ModelBatch& batch) {
  const auto size = [](const auto& view) {
    return static_cast<double>(view.size()) * sizeof(*view.data);
  };
  double bytes = size(batch.dense) + size(batch.labels) + size(batch.weights);
  for (const FeatureKeys& feature : batch.sparse)
    bytes += size(feature.keys) + size(feature.offsets) + size(feature.weights);
  for (const SequenceView& sequence : batch.sequences)
    bytes += size(sequence.offsets) + size(sequence.numbers);
  return bytes;
}

constexpr double StageSeconds::*kStages[] = {&StageSeconds::lookup, &StageSeconds::forward,
                                             &StageSeconds::backward, &StageSeconds::update,
                                             &StageSeconds::dense_update};

StageSeconds stages_of_step(Learner& learner, const ModelBatch& batch) {
  Model& model = learner.model();
  model.stages() = {};
  learner.step(batch, 0);
  model.stage_clock().collect();
  return model.stages();
}

double median(const std::vector<StageSeconds>& steps, double StageSeconds::*stage) {
  std::vector<double> seconds;
  for (const StageSeconds& step : steps) seconds.push_back(step.*stage);
  return median(std::move(seconds));
}

// Alternates steps of the whole batch and of one row, so that other load affects both equally.
StageSeconds fixed_share(Learner& learner, const ModelBatch& batch) {
  const FirstRow row(learner.context(), learner.model(), batch);
  std::vector<StageSeconds> whole, first;
  const auto start = Clock::now();
  for (int i = 0; i < kWarmup + kSteps && (i < kFewest || seconds_since(start) < kLongest); ++i) {
    const StageSeconds of_batch = stages_of_step(learner, batch);
    const StageSeconds of_row = stages_of_step(learner, row.batch());
    if (i < kWarmup) continue;
    whole.push_back(of_batch);
    first.push_back(of_row);
  }
  StageSeconds share;
  for (const auto stage : kStages) {
    const double all = median(whole, stage);
    share.*stage = all > 0 ? std::min(1.0, median(first, stage) / all) : 0.0;
  }
  return share;
}

double resident_step(Learner& learner, const ModelBatch& batch) {
  for (int i = 0; i < kWarmup; ++i) learner.step(batch, 0);
  learner.context().synchronize();
  const auto start = Clock::now();
  for (int i = 0; i < kSteps; ++i) learner.step(batch, 0);
  learner.context().synchronize();
  return seconds_since(start) / kSteps;
}

double gradient_norm(Learner& learner, const ModelBatch& batch) {
  const Context& context = learner.context();
  Model& model = learner.model();
  model.graph().set_loss_scale(kLossScale);  // the next step sets its own
  model.forward(context, batch, Phase::kTrain, static_cast<uint64_t>(learner.steps()));
  model.backward(context);
  const double dense = SquaredNorm(context)(context, model.graph().parameter_gradients());
  return std::sqrt(dense + model.squared_embedding_gradient_norm(context)) / kLossScale;
}

double loss_seconds(Learner& learner) {
  const Context& context = learner.context();
  GraphState& state = graph_state(learner.model().graph());
  std::vector<double> seconds;
  for (int i = 0; i < kWarmup + kSteps; ++i) {
    context.synchronize();
    const auto start = Clock::now();
    for (const auto& op : state.ops)
      if (op->output() == nullptr) op->forward(state.op_context(context, *op));
    context.synchronize();
    seconds.push_back(seconds_since(start));
  }
  return median(std::move(seconds));
}

}  // namespace

StepProbe probe_step(Learner& learner, const ModelBatch& batch) {
  StepProbe found;
  found.batch_bytes = bytes_of(batch);
  found.gradient_norm = gradient_norm(learner, batch);
  found.loss_seconds = loss_seconds(learner);
  if (learner.context().device == Device::kCuda)
    found.resident_step = resident_step(learner, batch);
  found.fixed_share = fixed_share(learner, batch);
  return found;
}

}  // namespace emblem
