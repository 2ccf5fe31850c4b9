#include "train/report/run_report.h"

#include "core/system/log.h"
#include "core/text/text.h"
#include "train/learner/lookup_report.h"
#include "train/report/pass_bar.h"

namespace emblem {
namespace {

// "loss 0.5 (a 0.2, b 0.3), auc 0.71, step 12, epoch 1"
std::string note_of(const StepReport& report) {
  std::string text = "loss " + format_metric(report.loss);
  std::string parts;
  for (const auto& [name, value] : report.losses)
    parts += cat(parts.empty() ? "" : ", ", name, " ", format_metric(value));
  if (!parts.empty()) text += " (" + parts + ")";
  for (const auto& [name, value] : report.metrics)
    text += cat(", ", name, " ", format_metric(value));
  return cat(text, ", step ", report.step, ", epoch ", report.epoch + 1);
}

}  // namespace

// ---- files ----

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

// ---- report ----

void RunReport::watch(TrainCallbacks& callbacks) {
  callbacks.step = [this](const StepReport& report) { show(report); };
  callbacks.evaluation = [this](const EvaluationReport& report) { show(report); };
  callbacks.validation = [this](const ValidationReport& report) { show(report); };
  callbacks.warning = [this](const std::string& text) {
    interrupt_bar();
    log_warn(text);
  };
  callbacks.evaluating = [this, bar = pass_bar("evaluating")](const PassProgress& pass) {
    if (!is_evaluating_) interrupt_bar();
    is_evaluating_ = pass.state == PassProgress::State::kRuns;
    bar(pass);
  };
}

void RunReport::begin(const Trainer& trainer) {
  if (!trainer.world().writes()) return;
  log_.emplace(trainer.config().model_dir(), trainer.config().train_config(), trainer.steps());
  label_positive_ = trainer.config().data_config().label_positive();
  bar_.emplace("training", trainer.expected_rows()).update(0);
}

void RunReport::end_steps(const Trainer& trainer) {
  if (!bar_) return;
  bar_->set_total(trainer.expected_rows());
  bar_->finish();
  bar_.reset();
}

void RunReport::interrupt_bar() {
  if (bar_) bar_->interrupt();
}

void RunReport::show(const StepReport& report) {
  if (report.is_due) log_->add_step(report);
  if (!bar_) return;
  bar_->set_total(report.expected_rows);
  bar_->update(report.rows, note_of(report));
}

void RunReport::show(const EvaluationReport& report) {
  const Evaluation& evaluation = report.evaluation;
  if (report.restored_step)
    return log_->add_restored(report.step, report.epoch, *report.restored_step, evaluation.metrics);
  log_->add_evaluation(report.step, report.epoch, evaluation.metrics);
  interrupt_bar();
  std::string line = cat("step ", report.step, ": ", to_text(evaluation));
  if (evaluation.bad_rows > 0) line += cat("  (skipped ", evaluation.bad_rows, " bad rows)");
  log_info(line);
  std::string undefined = undefined_metrics_reason(evaluation, label_positive_);
  if (undefined != undefined_) {
    undefined_ = std::move(undefined);
    if (!undefined_.empty()) log_warn(undefined_);
  }
  std::vector<std::string> reported = features_to_report(evaluation.lookups);
  if (reported == reported_) return;
  reported_ = std::move(reported);
  log_missing_values(evaluation.lookups, LookupPass::kEvaluation);
}

void RunReport::show(const ValidationReport& report) {
  interrupt_bar();
  log_info(cat("step ", report.step, ": ", to_text(Evaluation{.metrics = report.window.metrics}),
               "  (progressive validation of ", report.window.rows, " rows; ", report.lag.messages,
               " messages and ", format_metric(report.lag.seconds), " s behind)"));
}

TrainSummary train(const Context& context, const config::PipelineConfig& config,
                   const TrainOptions& options,
                   const std::function<void(const TrainSummary&)>& saved) {
  RunReport report;
  TrainOptions watched = options;
  report.watch(watched.callbacks);
  Trainer trainer(context, config, watched);
  report.begin(trainer);
  while (trainer.step()) {
  }
  report.end_steps(trainer);
  TrainSummary summary = trainer.close();
  if (saved) saved(summary);
  return summary;
}

}  // namespace emblem
