#include "train/report/run_log.h"

namespace emblem {

RunLog::RunLog(const std::string& model_dir, const config::TrainConfig& train, int64_t step)
    : evaluations_(model_dir + "/train_eval_result.jsonl", step),
      steps_(model_dir + "/train_log.jsonl", step) {
  if (!train.use_tensorboard()) return;
  events_.emplace(model_dir);
  if (step > 0) events_->restart_at(step + 1);
}

void RunLog::add_step(const StepReport& report) {
  std::map<std::string, double> line = {{"loss", report.loss},
                                        {"samples_per_second", report.samples_per_second},
                                        {"lr_sparse", report.sparse_rate},
                                        {"lr_dense", report.dense_rate}};
  if (report.skipped_steps > 0) line["skipped_steps"] = static_cast<double>(report.skipped_steps);
  for (const auto& [name, value] : report.losses) line["loss/" + name] = value;
  for (const auto& [name, value] : report.metrics) line["train_metric/" + name] = value;
  for (const auto& [name, value] : report.stream) line["stream/" + name] = value;
  for (const auto& [name, value] : report.progressive) line["progressive/" + name] = value;
  steps_.append(report.step, report.epoch, line);
  if (!events_) return;
  const auto add = [&](const std::string& tag, double value) {
    events_->add_scalar(tag, report.step, static_cast<float>(value));
  };
  add("loss/total", report.loss);
  for (const auto& [name, value] : report.losses) add("loss/" + name, value);
  for (const auto& [name, value] : report.metrics) add("train_metric/" + name, value);
  for (const auto& [name, value] : report.stream) add("stream/" + name, value);
  for (const auto& [name, value] : report.progressive) add("progressive/" + name, value);
  add("lr/sparse", report.sparse_rate);
  add("lr/dense", report.dense_rate);
  add("throughput/samples_per_second", report.samples_per_second);
  if (report.skipped_steps > 0) add("skipped_steps", static_cast<double>(report.skipped_steps));
  if (report.gradient_norm > 0) add("global_gradient_norm", report.gradient_norm);
}

void RunLog::add_evaluation(int64_t step, int64_t epoch,
                            const std::map<std::string, double>& metrics) {
  evaluations_.append(step, epoch, metrics);
  if (!events_) return;
  for (const auto& [name, value] : metrics)
    events_->add_scalar("metric/" + name, step, static_cast<float>(value));
}

void RunLog::add_restored(int64_t step, int64_t epoch, int64_t restored_step,
                          const std::map<std::string, double>& metrics) {
  evaluations_.append_restored(step, epoch, restored_step, metrics);
}

}  // namespace emblem
