#include "bench/train/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <vector>

#include "bench/machine/ceilings.h"
#include "bench/machine/gpu_timer.h"
#include "bench/result/sample_statistics.h"
#include "bench/train/bound.h"
#include "core/device/gpu.h"
#include "core/memory/host_copy.h"
#include "core/system/process.h"
#include "core/system/progress.h"
#include "core/system/seconds_since.h"
#include "core/system/trace.h"
#include "core/threads/thread_pool.h"
#include "nn/graph_state.h"

namespace emblem {
namespace {

double least_bytes(const TableWork& work, DType precision) {
  const auto weights = static_cast<double>(4 * work.dim);
  const auto state = static_cast<double>(4 * work.state_floats);
  const auto vector = static_cast<double>(work.dim * size_of(precision));
  return work.unique_rows * weights + 2 * work.bags * vector +
         2 * work.unique_rows * (weights + state) + work.lookups * sizeof(int64_t);
}

using Clock = std::chrono::steady_clock;

constexpr int kWarmup = 2, kSteps = 11;
constexpr int kFewest = kWarmup + 3;  // steps, if more would take longer than
constexpr double kLongest = 1.0;      // seconds
constexpr float kLossScale = 128.0f;  // so that gradients do not underflow in fp16

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
              .sequences = sequences_,
              .candidate_logs = first(of.candidate_logs, 1),
              .candidate_of = first(of.candidate_of, 1)};
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
  double bytes = size(batch.dense) + size(batch.labels) + size(batch.weights) +
                 size(batch.candidate_logs) + size(batch.candidate_of);
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
  return median_of(std::move(seconds)).value;
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
  return median_of(std::move(seconds)).value;
}

using Clock = std::chrono::steady_clock;

// Training computes three matrix products where inference computes one: forward, gradient of the
// input, gradient of the weights.
constexpr double kTrainingFlops = 3.0;
constexpr int64_t kStagedSteps = 20;

// The interquartile range of step times relative to their median: how much other load disturbs
// them.
double spread(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  return (seconds[3 * n / 4] - seconds[n / 4]) / seconds[n / 2];
}

StepResult learn(Learner& learner, const ModelBatch& batch, TrainInput& input) {
  return learner.step(batch, 0, [&] { return std::vector{input.look_ahead()}; });
}

// Stages on a GPU are timed in separate steps, because timing them slows the step down.
void measure_stages_on_gpu(Learner& learner, TrainInput& input, MeasuredTraining& found) {
  const Context& context = learner.context();
  Model& model = learner.model();
  model.stage_clock().switch_on(context);
  while (found.staged_steps < kStagedSteps) {
    const ModelBatch* batch = input.next();
    if (batch == nullptr) break;
    learn(learner, *batch, input);
    if (++found.staged_steps == 2) {  // the first ones create events
      model.stage_clock().collect();
      model.stages() = {};
    }
  }
  model.stage_clock().collect();
  found.stages = model.stages();
  found.staged_steps = std::max<int64_t>(1, found.staged_steps - 2);
}

double staged(const StageSeconds& stages) {
  return stages.lookup + stages.forward + stages.backward + stages.update + stages.dense_update;
}

StageSeconds per_step(const MeasuredTraining& found) {
  const double steps = static_cast<double>(found.staged_steps);
  const StageSeconds& all = found.stages;
  return {all.lookup / steps, all.forward / steps, all.backward / steps, all.update / steps,
          all.dense_update / steps};
}

// Copies to a GPU are asynchronous: their time is estimated from the bytes.
double transfer_of(const MeasuredTraining& found, const Named<double>& ceilings) {
  const double waited = found.transfer_seconds / static_cast<double>(found.step_seconds.size());
  const double* rate = find_named(ceilings, "host_to_device_bytes_per_second");
  return rate == nullptr || waited <= 0 ? waited
                                        : std::max(waited, found.probe.batch_bytes / *rate);
}

void add_stages(const MeasuredTraining& found, Device device, BenchResult& result) {
  const auto steps = static_cast<double>(found.step_seconds.size());
  const StageSeconds stages = per_step(found);
  const double load = found.load_seconds / steps;
  const double transfer = transfer_of(found, result.ceilings);
  const double loss = std::min(found.probe.loss_seconds, stages.forward);
  result.stages = {{"load", load},
                   {"transfer", transfer},
                   {"lookup", stages.lookup},
                   {"dense forward", stages.forward - loss},
                   {"loss", loss},
                   {"dense backward", stages.backward},
                   {"update", stages.update},
                   {"dense update", stages.dense_update}};
  // On a GPU, loading overlaps with the other stages.
  const double known = staged(stages) + (device == Device::kCpu ? load + transfer : 0);
  result.stages.push_back({"other", std::max(0.0, found.total_seconds / steps - known)});
}

void add_bound(Learner& learner, DType precision, const MeasuredTraining& found,
               BenchResult& result) {
  const auto steps = static_cast<double>(found.step_seconds.size());
  const StepShares shares = shares_of({.step = found.total_seconds / steps,
                                       .stages = per_step(found),
                                       .fixed_share = found.probe.fixed_share,
                                       .load = found.load_seconds / steps,
                                       .transfer = transfer_of(found, result.ceilings),
                                       .resident_step = found.probe.resident_step});
  const auto& tables = learner.model().tables();
  const bool cached = std::any_of(tables.begin(), tables.end(), [](const Table* table) {
    return table->settings().placement == Placement::kCache;
  });
  result.settings.push_back({"bound", std::string(name_of(bound_of(shares)))});
  result.settings.push_back(
      {"bound_text", explain_bound(shares, {learner.context().device, precision, cached})});
  for (const Bound bound :
       {Bound::kData, Bound::kCopy, Bound::kDense, Bound::kEmbedding, Bound::kLaunch})
    result.settings.push_back({cat("time_share_", name_of(bound)), shares.of(bound)});
}

// The lower bound of a step: matrix products and row traffic at the measured ceilings.
void add_shares(DType precision, const MeasuredTraining& found, std::span<const TableWork> work,
                BenchResult& result) {
  const auto steps = static_cast<double>(found.step_seconds.size());
  const double flops = kTrainingFlops * found.forward_flops / steps;
  const double step = found.total_seconds / steps;
  const double products = flops / *find_named(result.ceilings, "gemm_flops_per_second");
  const double dense =
      (found.stages.forward + found.stages.backward) / static_cast<double>(found.staged_steps);
  result.shares = {{"dense at gemm ceiling", products / dense},
                   {"step at gemm ceiling", products / step}};
  if (const double* limit = find_named(result.ceilings, "arithmetic_flops_per_second"))
    result.shares.push_back({"dense at arithmetic ceiling", flops / *limit / dense});
  if (work.empty()) return;
  const double rows =
      least_table_bytes(work, precision) / *find_named(result.ceilings, "copy_bytes_per_second");
  result.settings.push_back({"floor_seconds_products", products});
  result.settings.push_back({"floor_seconds_tables", rows});
  result.shares.push_back(
      {"tables at copy ceiling", rows * static_cast<double>(found.staged_steps) /
                                     (found.stages.lookup + found.stages.update)});
  result.shares.push_back({"step at floor", (products + rows) / step});
}

void add_gpu(const MeasuredTraining& found, BenchResult& result) {
  result.metrics.push_back(
      {"gpu_memory", {static_cast<double>(found.gpu_bytes), "B", Better::kLower}});
  if (!found.gpu) return;
  result.metrics.push_back(
      {"gpu_utilisation", {100 * found.gpu->utilisation, "%", Better::kHigher}});
  result.settings.push_back({"gpu_memory_utilisation", found.gpu->memory_utilisation});
  result.settings.push_back({"gpu_power_watts", found.gpu->power_watts});
  result.settings.push_back({"gpu_sm_clock_hz", found.gpu->sm_clock_hz});
}

}  // namespace

std::vector<TableWork> table_work(const Context& context, const Model& model,
                                  const ModelBatch& batch) {
  struct Use {
    double bags = 0;
    std::vector<int64_t> keys;
  };
  std::map<const Table*, Use> uses;  // features may share a table
  for (const Model::LookupInput& input : model.lookup_inputs()) {
    for (size_t f = 0; f < input.tables.size(); ++f) {
      Use& use = uses[input.tables[f]];
      const auto sparse = static_cast<size_t>(input.sparse_index[f]);
      const std::vector<int64_t> keys = to_host(context, batch.sparse[sparse].keys);
      use.keys.insert(use.keys.end(), keys.begin(), keys.end());
      use.bags += static_cast<double>(bags_of(batch.sparse[sparse]));
    }
  }
  std::vector<TableWork> all;
  for (auto& [table, use] : uses) {
    TableWork& work = all.emplace_back();
    work.dim = table->dim();
    work.state_floats = table->state_floats();
    work.bags = use.bags;
    work.lookups = static_cast<double>(use.keys.size());
    std::sort(use.keys.begin(), use.keys.end());
    const auto end = std::unique(use.keys.begin(), use.keys.end());
    work.unique_rows = static_cast<double>(end - use.keys.begin());
  }
  return all;
}

double unique_rows(std::span<const TableWork> work) {
  double sum = 0;
  for (const TableWork& of : work) sum += of.unique_rows;
  return sum;
}

double least_table_bytes(std::span<const TableWork> work, DType precision) {
  double sum = 0;
  for (const TableWork& of : work) sum += least_bytes(of, precision);
  return sum;
}

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

MeasuredTraining measure_training(Learner& learner, const TrainBenchOptions& options,
                                  const std::string& name, TrainInput& input) {
  const Context& context = learner.context();
  const bool on_gpu = context.device == Device::kCuda;
  MeasuredTraining found;
  Progress progress(name, 0);
  for (int64_t i = 0; i < options.warmup; ++i) {
    const ModelBatch* batch = input.next();
    if (batch == nullptr) break;
    const double loss = learn(learner, *batch, input).loss;
    if (i == 0) found.first_loss = loss;
  }
  context.synchronize();
  learner.model().stages() = {};
  std::optional<GpuMonitor> monitor;
  dispatch(
      context.device, [] {}, [&] { monitor.emplace(cuda::gpu_bus_id()); });
  learner.model().stage_clock().trace_to(options.trace);
  const double waited = input.waited_seconds(), loaded = input.loaded_seconds();
  const double cpu_before = cpu_seconds();
  const auto start = Clock::now();
  while (static_cast<int64_t>(found.step_seconds.size()) < options.steps ||
         seconds_since(start) < options.seconds) {
    const auto before = Clock::now();
    const int64_t begin_ns = trace_now();
    const ModelBatch* batch = input.next();
    if (options.trace != nullptr) options.trace->add("load", begin_ns, trace_now());
    if (batch == nullptr) break;
    found.last_loss = learn(learner, *batch, input).loss;
    found.step_seconds.push_back(seconds_since(before));
    found.rows += batch->rows;
    found.forward_flops +=
        learner.model().graph().batch_flops_per_row() * static_cast<double>(batch->rows);
    progress.update(found.rows);
  }
  context.synchronize();
  found.total_seconds = seconds_since(start);
  found.cpu_seconds = cpu_seconds() - cpu_before;
  found.load_seconds = input.loaded_seconds() - loaded;
  found.transfer_seconds = input.waited_seconds() - waited - found.load_seconds;
  learner.model().stage_clock().trace_to(nullptr);
  EMBLEM_REQUIRE(!found.step_seconds.empty(),
                 "bench train: the data ended before the first timed step; use more rows or fewer "
                 "--warmup steps");
  found.stages = learner.model().stages();
  found.staged_steps = static_cast<int64_t>(found.step_seconds.size());
  if (on_gpu) {
    found.gpu = monitor->stop();
    found.staged_steps = 0;
    measure_stages_on_gpu(learner, input, found);
  }
  if (const ModelBatch* batch = input.next()) found.probe = probe_step(learner, *batch);
  dispatch(
      context.device, [] {},
      [&] {
        const cuda::GpuMemory memory = cuda::gpu_memory();
        found.gpu_bytes = memory.total_bytes - memory.free_bytes;
      });
  learner.model().check(context);
  found.peak_bytes = peak_resident_bytes();
  return found;
}

Named<double> measure_training_ceilings(const Context& context, int64_t dim, DType precision) {
  const Named<double> limits = dispatch(
      context.device,
      [&]() -> Named<double> {
        const Ceilings found = measure_ceilings(context, std::max<int64_t>(dim, 4), precision);
        return {{"copy_bytes_per_second", found.copy_bytes_per_second},
                {"gather_bytes_per_second", found.gather_bytes_per_second},
                {"gemm_flops_per_second", found.gemm_flops_per_second},
                {"arithmetic_flops_per_second", found.arithmetic_flops_per_second}};
      },
      [&]() -> Named<double> {
        return {{"copy_bytes_per_second", cuda::measure_device_copy(context)},
                {"host_to_device_bytes_per_second", cuda::measure_host_to_device(context)},
                {"gemm_flops_per_second", cuda::measure_device_gemm(context, precision)}};
      });
  reset_peak_resident_bytes();
  return limits;
}

// Other processes only add time: the fastest steps are the least disturbed.
void add_step_percentiles(const std::vector<double>& seconds, BenchResult& result) {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [name, share] : {std::pair{"p10", 0.1}, {"p50", 0.5}, {"p99", 0.99}})
    result.metrics.push_back(
        {cat("step_seconds_", name), {percentile(sorted, share), "s", Better::kLower}});
}

BenchResult training_result(const std::string& name, Learner& learner, DType precision,
                            const MeasuredTraining& found, const Named<double>& ceilings,
                            std::span<const TableWork> work) {
  const Context& context = learner.context();
  const auto steps = static_cast<double>(found.step_seconds.size());
  const double rate = static_cast<double>(found.rows) / found.total_seconds;
  BenchResult result = begin_result("train", name);
  dispatch(
      context.device, [] {}, [&] { result.machine.gpu = cuda::describe_gpu(); });
  result.settings = {{"threads", int64_t{context.threads ? context.threads->threads() : 1}},
                     {"precision", std::string(name_of(precision))},
                     {"steps", static_cast<int64_t>(found.step_seconds.size())},
                     {"first_loss", found.first_loss},
                     {"last_loss", found.last_loss},
                     {"gradient_norm", found.probe.gradient_norm}};
  result.metrics = {{"samples_per_second",
                     {rate, "samples/s", Better::kHigher, rate * spread(found.step_seconds)}},
                    {"step_seconds", {found.total_seconds / steps, "s", Better::kLower}}};
  add_step_percentiles(found.step_seconds, result);
  result.metrics.push_back(
      {"cpu_seconds_per_step", {found.cpu_seconds / steps, "s", Better::kLower}});
  result.metrics.push_back(
      {"peak_memory", {static_cast<double>(found.peak_bytes), "B", Better::kLower}});
  if (context.device == Device::kCuda) add_gpu(found, result);
  result.ceilings = ceilings;
  add_stages(found, context.device, result);
  // On a CPU, vectors of tables are in fp32.
  add_shares(context.device == Device::kCpu ? DType::kF32 : precision, found, work, result);
  add_bound(learner, precision, found, result);
  return result;
}

}  // namespace emblem
