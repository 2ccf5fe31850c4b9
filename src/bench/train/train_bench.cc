#include "bench/train/train_bench.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bench/train/input.h"
#include "bench/train/measure.h"
#include "bench/train/until.h"
#include "comm/threads/threads.h"
#include "config/feature/features.h"
#include "config/load/load.h"
#include "core/device/gpu.h"
#include "core/device/stream.h"
#include "core/system/interrupt.h"
#include "core/system/log.h"
#include "core/system/process.h"
#include "core/system/seconds_since.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/loader/loader.h"
#include "data/synth/synth.h"
#include "emblem/error.h"
#include "model/lookup/memory_estimate.h"
#include "model/models.h"
#include "train/learner/learner.h"

namespace emblem {
namespace {

constexpr double kMargin =
    0.1;  // share of the available memory that is left to other processes and what is not counted

// Training steps of several ranks, threads of this process that share its device.
struct RankSteps {
  std::vector<double> seconds;  // time of each step
  double total_seconds = 0.0;
  double first_loss = 0.0, last_loss = 0.0;
};

// `input` makes the batches of a rank, each of `rows` rows. Runs at least the steps and seconds of
// the options. One rank runs the same code: its difference to a training without ranks is what
// sharding costs.
using MakeRankInput = std::function<std::unique_ptr<TrainInput>(const Context&, int rank)>;

using Clock = std::chrono::steady_clock;

// A share of the threads and, on a GPU, a stream.
class RankContext {
 public:
  RankContext(const Context& all, int ranks)
      : pool_(std::max(1, (all.threads != nullptr ? all.threads->threads() : 1) / ranks)),
        stream_(dispatch(
            all.device, [] { return std::shared_ptr<cuda::Stream>(); },
            [] { return std::make_shared<cuda::Stream>(); })) {
    context_ = {.device = all.device, .threads = &pool_};
    dispatch(
        all.device, [] {}, [&] { context_.stream = stream_->get(); });
  }
  const Context& get() const { return context_; }

 private:
  ThreadPool pool_;
  std::shared_ptr<cuda::Stream> stream_;
  Context context_;
};

RankSteps measure_ranks(const Context& context, const config::PipelineConfig& config,
                        const FeatureLayout& layout, int ranks, int64_t rows,
                        const TrainBenchOptions& options, const MakeRankInput& input) {
  RankSteps found;
  run_thread_ranks(ranks, [&](Communicator& own) {
    const RankContext of_rank(context, ranks);
    const World world{.ranks = &own, .shards = ranks};
    Learner learner(of_rank.get(), config, layout, rows, world);
    const auto batches = input(of_rank.get(), own.rank());
    const std::vector<int64_t> rows_of_shards(static_cast<size_t>(ranks), rows);
    const auto step = [&] {
      const ModelBatch* batch = batches->next();
      return learner
          .step({&batch, 1}, rows_of_shards, 0, nullptr,
                [&] { return std::vector{batches->look_ahead()}; })
          .loss;
    };
    double loss = 0.0;
    for (int64_t i = 0; i < options.warmup; ++i) {
      loss = step();
      if (i == 0 && own.rank() == 0) found.first_loss = loss;
    }
    of_rank.get().synchronize();
    own.barrier();
    const auto start = Clock::now();
    for (bool more = true; more;) {
      const auto begin = Clock::now();
      loss = step();
      if (own.rank() == 0) {  // which decides for all
        found.seconds.push_back(seconds_since(begin));
        more = !interrupted() && (static_cast<int64_t>(found.seconds.size()) < options.steps ||
                                  seconds_since(start) < options.seconds);
      }
      own.broadcast(Context{}, {&more, sizeof(more)}, 0);
    }
    of_rank.get().synchronize();
    own.barrier();
    if (own.rank() != 0) return;
    found.total_seconds = seconds_since(start);
    found.last_loss = loss;
    learner.model().check(of_rank.get());
  });
  return found;
}

struct Preset {
  DlrmShape shape;
  const char* optimizer;
  std::vector<int64_t> batches;
  const char* reference;  // bench/reference; empty: none

  const std::string& name() const { return shape.name; }
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = [] {
    std::vector<Preset> list = {{kaggle_dlrm(16), "sgd", {2048, 8192}, ""},
                                {sok_dlrm(), "sgd", {65536, 55296}, "dlrm-throughput"},
                                {dle_dlrm(), "sgd", {65536}, "dlrm-throughput"},
                                // AdaGrad with a state per weight would take 209 GB.
                                {mlperf_dcnv2(), "rowwise_adagrad", {65536}, "dcnv2-throughput"}};
    for (const std::string& name : criteo_models())
      list.push_back({criteo_model(name), "sgd", {65536}, ""});
    return list;
  }();
  return all;
}

const Preset& find_preset(const std::string& name) {
  for (const Preset& preset : presets())
    if (name == preset.name()) return preset;
  throw Error(ErrorCode::kInvalidArgument, cat("preset \"", name, "\" is unknown; use one of ",
                                               joined(presets(), ", ", &Preset::name)));
}

// One combination of preset, batch and dim.
struct Case {
  DlrmShape shape;
  std::string optimizer;
  int64_t batch = 0;
  std::string reference;
};

std::vector<Case> cases_of(const TrainBenchOptions& options) {
  const Preset& preset = find_preset(options.preset);
  std::vector<DlrmShape> shapes;
  if (options.preset == "dlrm-kaggle") {
    for (const int64_t dim : options.dims) shapes.push_back(kaggle_dlrm(dim));
  } else {
    shapes.push_back(preset.shape);
  }
  std::vector<Case> cases;
  for (const DlrmShape& shape : shapes) {
    for (const int64_t batch : options.batches.empty() ? preset.batches : options.batches) {
      cases.push_back({shape.scaled_down(options.divide_tables),
                       options.optimizer.empty() ? preset.optimizer : options.optimizer, batch,
                       preset.reference});
    }
  }
  return cases;
}

// Settings that differ from the preset are suffixes, so that only equal workloads have equal names.
std::string name_of(const Case& of, const TrainBenchOptions& options, DType precision) {
  std::string name = of.shape.name;
  if (options.preset == "dlrm-kaggle") name += cat("-d", of.shape.dim);
  name += cat("-b", of.batch);
  if (precision != DType::kF32) name += cat("-", emblem::name_of(precision));
  if (options.tables == BenchTables::kDynamic) name += "-dynamic";
  if (of.optimizer != find_preset(options.preset).optimizer) name += "-" + of.optimizer;
  if (options.input == BenchInput::kMemory) name += "-memory";
  if (options.input == BenchInput::kFiles) name += "-files";
  if (options.device_bytes > 0) name += cat("-cache-", options.device_bytes >> 20, "MiB");
  if (options.ranks > 0) name += cat("-ranks", options.ranks);
  return name;
}

config::PipelineConfig config_of(const Case& of, const TrainBenchOptions& options) {
  const DlrmTraining training{.tables = options.tables,
                              .optimizer = of.optimizer,
                              .reserved = options.preset != "dlrm-kaggle",
                              .bounded = options.device_bytes > 0};
  std::vector<std::string> overrides = options.overrides;
  if (options.device_bytes > 0)
    overrides.push_back(cat("train_config.device_bytes=", options.device_bytes));
  return parse_pipeline(dlrm_pipeline(of.shape, of.batch, training), "preset " + of.shape.name,
                        overrides);
}

// The folder with train/ and test/ in it.
std::string data_folder(const Context& context, const Case& of, const TrainBenchOptions& options) {
  EMBLEM_REQUIRE(of.shape.hotness.empty(), of.shape.name,
                 " has several keys per feature, which Raw files of 160-byte records cannot hold; "
                 "use --input device or memory");
  EMBLEM_REQUIRE(
      !options.data.empty(),
      "Raw files (--input files, --until) need --data DIR: the folder to read them from, or to "
      "generate them in");
  if (std::filesystem::exists(options.data + "/train")) return options.data;
  log_info(cat("generating ", options.data_rows, " rows in ", options.data));
  synthesize(context, {.out = options.data,
                       .format = "raw",
                       .rows = options.data_rows,
                       .seed = options.seed,
                       .alpha = options.alpha,
                       .cardinalities = of.shape.table_rows});
  return options.data;
}

int64_t bytes_in(const std::string& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    bytes += static_cast<int64_t>(entry.file_size());
  return bytes;
}

// One epoch over the files; the AUC is computed as in SOK's benchmark.
config::PipelineConfig until_config(const Context& context, const Case& of,
                                    const TrainBenchOptions& options) {
  constexpr int64_t kRecordBytes = 160, kEvaluations = 20;
  config::PipelineConfig config = config_of(of, options);
  const std::string folder = data_folder(context, of, options);
  config.set_train_input_path(folder + "/train");
  config.set_eval_input_path(folder + "/test");
  config::TrainConfig& train = *config.mutable_train_config();
  train.clear_num_steps();
  train.set_num_epochs(1);
  const int64_t steps = bytes_in(folder + "/train") / kRecordBytes / of.batch;
  if (train.eval_steps() == 0)
    train.set_eval_steps(static_cast<uint32_t>(
        options.eval_every > 0 ? options.eval_every : std::max<int64_t>(1, steps / kEvaluations)));
  if (config.model_config().metrics().empty())
    config.mutable_model_config()->add_metrics()->mutable_auc()->set_thresholds(8000);
  return config;
}

int64_t distinct_batches(int64_t batch, const TrainBenchOptions& options) {
  if (options.distinct_batches > 0) return options.distinct_batches;
  return batch > 10000 ? 16 : 32;
}

// Batches in memory at the same time: waiting, being decoded, and in use.
int64_t batches_of_loader(const LoaderOptions& loading) {
  return loading.prefetch_batches + loading.workers + 2;
}

TrainDemand demand_of(const Case& of, const TrainBenchOptions& options,
                      const config::PipelineConfig& config) {
  int64_t keys = 0;
  for (size_t f = 0; f < of.shape.table_rows.size(); ++f) keys += of.shape.hotness_of(f);
  return {of.batch,
          options.input == BenchInput::kFiles ? batches_of_loader(training_loader_options(config))
                                              : distinct_batches(of.batch, options),
          static_cast<double>(keys) / static_cast<double>(of.shape.table_rows.size())};
}

std::unique_ptr<TrainInput> input_of_batches(const Context& context,
                                             const TrainBenchOptions& options,
                                             std::vector<Batch> batches) {
  return options.input == BenchInput::kMemory ? input_in_memory(context, std::move(batches))
                                              : input_on_device(context, std::move(batches));
}

std::unique_ptr<TrainInput> prepare_input(const Context& context, const Case& of,
                                          const TrainBenchOptions& options,
                                          const config::PipelineConfig& config,
                                          const FeatureLayout& layout) {
  if (options.input == BenchInput::kFiles) {
    LoaderOptions loading = training_loader_options(config);
    loading.input = data_folder(context, of, options) + "/train";
    loading.epochs = 0;
    return input_from_files(context, config, layout, loading);
  }
  std::vector<Batch> batches = dlrm_batches(context, of.shape, distinct_batches(of.batch, options),
                                            of.batch, options.alpha, options.seed);
  return input_of_batches(context, options, std::move(batches));
}

// The first batches of a pipeline's files, or all that the loader reads.
std::unique_ptr<TrainInput> pipeline_input(const Context& context,
                                           const config::PipelineConfig& config,
                                           const FeatureLayout& layout, LoaderOptions loading,
                                           const TrainBenchOptions& options) {
  if (options.input == BenchInput::kFiles)
    return input_from_files(context, config, layout, loading);
  loading.max_batches = distinct_batches(loading.batch_size, options);
  Loader loader(config.data_config(), layout, loading);
  std::vector<Batch> batches;
  for (Batch batch; loader.next(batch); batch = {}) batches.push_back(std::move(batch));
  EMBLEM_REQUIRE(!batches.empty(), "the data have fewer than ", loading.batch_size,
                 " rows, less than one batch");
  return input_of_batches(context, options, std::move(batches));
}

void add_reference(const std::string& reference, Named<Setting>& settings) {
  if (!reference.empty()) settings.push_back({"references", std::vector<std::string>{reference}});
}

// The work on tables of the next batch of the input, which is then not used for steps.
std::vector<TableWork> work_of_next(Learner& learner, TrainInput& input) {
  const ModelBatch* batch = input.next();
  return batch == nullptr ? std::vector<TableWork>()
                          : table_work(learner.context(), learner.model(), *batch);
}

// Ranks that share the device, each with its part of the batch.
BenchResult bench_ranks(const Context& context, const Case& of, const TrainBenchOptions& options,
                        const std::string& name, const config::PipelineConfig& config,
                        const FeatureLayout& layout) {
  EMBLEM_REQUIRE(options.input == BenchInput::kDevice, "--ranks needs --input device");
  EMBLEM_REQUIRE(of.batch % options.ranks == 0, "a batch of ", of.batch,
                 " rows cannot be cut into ", options.ranks, " equal parts");
  const int64_t rows = of.batch / options.ranks;
  const RankSteps found = measure_ranks(
      context, config, layout, options.ranks, rows, options, [&](const Context& own, int rank) {
        return input_on_device(
            own, dlrm_batches(own, of.shape, distinct_batches(of.batch, options), rows,
                              options.alpha, options.seed + static_cast<uint64_t>(rank)));
      });
  BenchResult result = begin_result("train", name);
  dispatch(
      context.device, [] {}, [&] { result.machine.gpu = cuda::describe_gpu(); });
  const auto steps = static_cast<double>(found.seconds.size());
  result.settings = {{"batch", of.batch},
                     {"dim", of.shape.dim},
                     {"rows", of.shape.rows()},
                     {"ranks", int64_t{options.ranks}},
                     {"first_loss", found.first_loss},
                     {"last_loss", found.last_loss}};
  result.metrics = {
      {"samples_per_second",
       {static_cast<double>(of.batch) * steps / found.total_seconds, "samples/s", Better::kHigher}},
      {"step_seconds", {found.total_seconds / steps, "s", Better::kLower}}};
  add_step_percentiles(found.seconds, result);
  return result;
}

BenchResult bench_case(const Context& context, const Case& of, const TrainBenchOptions& options) {
  const config::PipelineConfig config = config_of(of, options);
  const DType precision = compute_type_of(context, config.train_config());
  const std::string name = name_of(of, options, precision);
  if (options.until) {
    BenchResult result = bench_until(context, name, until_config(context, of, options),
                                     *options.until, options.trace);
    add_reference(of.reference, result.settings);
    return result;
  }
  const FeatureLayout layout = layout_of(config);
  require_host_memory(context, config, layout, demand_of(of, options, config), options.host_bytes);
  if (options.ranks > 0) return bench_ranks(context, of, options, name, config, layout);
  const Named<double> ceilings = measure_training_ceilings(context, of.shape.dim, precision);
  const auto input = prepare_input(context, of, options, config, layout);
  Learner learner(context, config, layout, of.batch);
  const std::vector<TableWork> work = work_of_next(learner, *input);
  const MeasuredTraining found = measure_training(learner, options, name, *input);
  BenchResult result = training_result(name, learner, precision, found, ceilings, work);
  Named<Setting> settings = {
      {"batch", of.batch},
      {"dim", of.shape.dim},
      {"rows", of.shape.rows()},
      {"tables", std::string(options.tables == BenchTables::kDynamic ? "dynamic" : "static")},
      {"alpha", options.alpha},
      {"optimizer", of.optimizer}};
  add_reference(of.reference, settings);
  if (options.device_bytes > 0) settings.push_back({"device_bytes", options.device_bytes});
  settings.push_back({"unique_rows", unique_rows(work)});
  result.settings.insert(result.settings.begin(), settings.begin(), settings.end());
  return result;
}

void one_step(const Context& context, const config::PipelineConfig& config,
              const FeatureLayout& layout, int64_t rows, TrainInput& input) {
  Learner learner(context, config, layout, rows);
  const ModelBatch* batch = input.next();
  if (batch == nullptr || batch->rows < rows)
    throw Error(ErrorCode::kOutOfMemory,
                cat("the data have fewer than ", rows, " rows, less than one batch"));
  learner.step(*batch, 0);
  learner.model().check(context);
}

}  // namespace

void require_host_memory(const Context& context, const config::PipelineConfig& config,
                         const FeatureLayout& layout, const TrainDemand& demand, int64_t limit) {
  if (context.device != Device::kCpu) return;
  const double room = limit > 0 ? static_cast<double>(limit)
                                : (1 - kMargin) * static_cast<double>(available_memory_bytes());
  const auto wanted =
      static_cast<double>(estimate_training_bytes(config, layout, demand.keys_per_feature)
                              .of(demand.rows, demand.batches));
  if (wanted <= room) return;
  throw Error(ErrorCode::kOutOfMemory,
              cat("out of host memory: training with batches of ", demand.rows,
                  " rows needs about ", format_bytes(wanted), ", but only ", format_bytes(room),
                  " are available; lower the batch size, the sizes of tables or embedding_dim"));
}

const std::vector<int64_t>& preset_batches(const std::string& preset) {
  return find_preset(preset).batches;
}

void try_train(const Context& context, const TrainBenchOptions& options) {
  TrainBenchOptions brief = options;
  brief.distinct_batches = 1;
  const Case of = cases_of(brief).front();
  const config::PipelineConfig config = config_of(of, brief);
  const FeatureLayout layout = layout_of(config);
  require_host_memory(context, config, layout, demand_of(of, brief, config), brief.host_bytes);
  const auto input = prepare_input(context, of, brief, config, layout);
  one_step(context, config, layout, of.batch, *input);
}

void try_pipeline(const Context& context, const config::PipelineConfig& config,
                  const TrainBenchOptions& options) {
  const FeatureLayout layout = layout_of(config);
  LoaderOptions loading = training_loader_options(config);
  loading.epochs = 0;
  require_host_memory(context, config, layout, {loading.batch_size, batches_of_loader(loading)},
                      options.host_bytes);
  const auto input = input_from_files(context, config, layout, loading);
  one_step(context, config, layout, loading.batch_size, *input);
}

const std::vector<std::string>& train_presets() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Preset& preset : presets()) all.push_back(preset.name());
    return all;
  }();
  return names;
}

std::vector<BenchResult> bench_train(const Context& context, const TrainBenchOptions& options) {
  std::vector<BenchResult> results;
  for (const Case& of : cases_of(options)) results.push_back(bench_case(context, of, options));
  return results;
}

BenchResult bench_pipeline(const Context& context, const config::PipelineConfig& config,
                           const TrainBenchOptions& options) {
  if (options.until) {
    config::PipelineConfig until = config;
    if (options.eval_every > 0)
      until.mutable_train_config()->set_eval_steps(static_cast<uint32_t>(options.eval_every));
    return bench_until(context, model_name(config.model_config()) + "-pipeline", until,
                       *options.until, options.trace);
  }
  const FeatureLayout layout = layout_of(config);
  LoaderOptions loading = training_loader_options(config);
  loading.epochs = 0;
  loading.drop_remainder = true;  // so that all steps have the same shape
  const int64_t waiting = options.input == BenchInput::kFiles
                              ? batches_of_loader(loading)
                              : distinct_batches(loading.batch_size, options);
  require_host_memory(context, config, layout, {loading.batch_size, waiting}, options.host_bytes);
  const DType precision = compute_type_of(context, config.train_config());
  int64_t width = 0;
  Learner learner(context, config, layout, loading.batch_size);
  for (const Table* table : learner.model().tables()) width = std::max(width, table->dim());
  const auto input = pipeline_input(context, config, layout, loading, options);
  const std::vector<TableWork> work = work_of_next(learner, *input);
  const MeasuredTraining found = measure_training(learner, options, "benchmarking", *input);
  const Named<double> ceilings = measure_training_ceilings(context, width, precision);
  BenchResult result = training_result(learner.model().name() + "-pipeline", learner, precision,
                                       found, ceilings, work);
  Named<Setting> settings = {{"batch", loading.batch_size}};
  if (options.input == BenchInput::kFiles)
    settings.push_back({"workers", int64_t{loading.workers}});
  result.settings.insert(result.settings.begin(), settings.begin(), settings.end());
  return result;
}

}  // namespace emblem
