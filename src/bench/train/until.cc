#include "bench/train/until.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "bench/result/result_table.h"
#include "config/feature/metrics.h"
#include "config/load/evaluation_input.h"
#include "core/device/gpu.h"
#include "core/system/interrupt.h"
#include "core/threads/thread_pool.h"
#include "model/model.h"
#include "train/report/run_report.h"

namespace emblem {
namespace {

// A temporary model folder for logs.
class ScratchFolder {
 public:
  ScratchFolder()
      : path_(
            (std::filesystem::temp_directory_path() / cat("emblem-until-", ::getpid())).string()) {
    std::filesystem::remove_all(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string interval_of(const config::TrainConfig& train) {
  if (train.eval_steps() > 0) return cat(train.eval_steps(), " steps");
  if (train.eval_epochs() > 0) return cat(train.eval_epochs(), " epochs");
  return "at the end";
}

std::string criterion_of(const StopAt& goal) {
  return cat(goal.metric,
             lower_is_better(goal.metric) ? " <= " : " >= ", fmt::format("{:g}", goal.value));
}

std::string setting_of(const BenchResult& result, const char* name) {
  const Setting* found = find_named(result.settings, name);
  return found == nullptr ? "" : format_setting(*found);
}

std::string metric_of(const BenchResult& result, const char* name) {
  const Measure* found = find_named(result.metrics, name);
  if (found == nullptr) return "";
  return found->unit == "min" ? fmt::format("{:.2f}", found->value)
                              : format_metric(found->value, found->unit);
}

}  // namespace

BenchResult bench_until(const Context& context, const std::string& name,
                        config::PipelineConfig config, const StopAt& goal, Trace* trace) {
  EMBLEM_REQUIRE(!evaluation_input(config).empty(),
                 "--until needs evaluation data; set eval_input_path or data_config.holdout_ratio");
  const ScratchFolder folder;
  config.set_model_dir(folder.path());
  config::TrainConfig& train_config = *config.mutable_train_config();
  train_config.set_save_checkpoints_steps(0);
  train_config.clear_save_checkpoints_epochs();
  const TrainSummary run = train(context, config,
                                 {.stop_at = goal,
                                  .trace = trace,
                                  .last_checkpoint = LastCheckpoint::kNone,
                                  .cancel = CancelToken(interrupted)});
  const bool reached = run.evaluation && goal.reached(run.evaluation->at(goal.metric));

  BenchResult result = begin_result("train-until", name);
  dispatch(
      context.device, [] {}, [&] { result.machine.gpu = cuda::describe_gpu(); });
  const DType precision = compute_type_of(context, train_config);
  result.settings = {{"batch", static_cast<int64_t>(config.data_config().batch_size())},
                     {"exit_criterion", criterion_of(goal)},
                     {"reached", reached},
                     {"evaluation_interval", interval_of(train_config)},
                     {"evaluations", run.evaluations},
                     {"steps", run.steps},
                     {"threads", int64_t{context.threads ? context.threads->threads() : 1}},
                     {"precision", std::string(name_of(precision))}};
  const double training = run.training_seconds;
  const double rate = static_cast<double>(run.rows) / training;
  result.metrics = {
      {"training_minutes", {training / 60, "min", Better::kLower}},
      {"evaluation_minutes", {run.evaluation_seconds / 60, "min", Better::kLower}},
      {"total_minutes", {run.seconds / 60, "min", Better::kLower}},
      {"step_seconds", {training / static_cast<double>(run.steps), "s", Better::kLower}},
      {"samples_per_second", {rate, "samples/s", Better::kHigher}}};
  if (run.evaluation)
    result.metrics.push_back({goal.metric,
                              {run.evaluation->at(goal.metric), "",
                               lower_is_better(goal.metric) ? Better::kLower : Better::kHigher}});
  return result;
}

std::string until_table(const std::vector<BenchResult>& results) {
  std::string text;
  for (const BenchResult& result : results) {
    text += result.name + "\n";
    const std::pair<const char*, std::string> lines[] = {
        {"batch", setting_of(result, "batch")},
        {"exit criterion", setting_of(result, "exit_criterion")},
        {"reached", setting_of(result, "reached")},
        {"evaluation every", setting_of(result, "evaluation_interval")},
        {"training min", metric_of(result, "training_minutes")},
        {"evaluation min", metric_of(result, "evaluation_minutes")},
        {"total min", metric_of(result, "total_minutes")},
        {"average iteration", metric_of(result, "step_seconds")},
        {"throughput", metric_of(result, "samples_per_second")}};
    for (const auto& [name, value] : lines) text += fmt::format("  {:<18} {}\n", name, value);
  }
  return text;
}

}  // namespace emblem
