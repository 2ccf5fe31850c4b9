#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "cli/rank_options.h"
#include "config/load/evaluation_input.h"
#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "ranks/ranks.h"
#include "train/learner/lookup_report.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

struct EvalArguments : CheckpointOptions {
  std::string input, json;
  std::vector<std::string> filters;
  RankOptions ranks;
  TransportOptions transport;
};

void print(const Evaluation& evaluation) {
  std::printf("%s\n", to_text(evaluation).c_str());
  std::printf("%ld rows in %s (%s rows/s)\n", static_cast<long>(evaluation.rows),
              format_duration(evaluation.seconds).c_str(),
              format_count(static_cast<double>(evaluation.rows) / evaluation.seconds).c_str());
  if (evaluation.bad_rows > 0)
    std::printf("skipped %ld bad rows\n", static_cast<long>(evaluation.bad_rows));
}

void run_as_rank(const EvalArguments& options, JobRanks& ranks) {
  const Storage storage = open_storage(options.remote);  // holds a copy that is fetched
  const std::string checkpoint = ranks.find_common_checkpoint(options.checkpoint, storage);
  if (options.input.empty() && options.eval_input.empty())
    refuse_two_endpoints(options, checkpoint);
  const Workers workers = make_workers(options, 0);
  ranks.open_device(workers.context, options.transport.device);
  RestoredModel restored(workers.context, checkpoint, options.config, overrides_of(options),
                         ranks.world());
  refuse_input_or_checkpoint_as_output(
      "--json", options.json, options, restored.checkpoint(),
      options.input.empty() ? evaluation_input(restored.config()) : options.input);
  const Evaluation evaluation =
      restored.evaluate(options.input, options.filters, watch_pass("evaluating"));
  if (!ranks.reports()) return;
  print(evaluation);
  const std::string undefined =
      undefined_metrics_reason(evaluation, restored.config().data_config().label_positive());
  if (!undefined.empty()) log_warn(undefined);
  log_missing_values(evaluation.lookups, LookupPass::kEvaluation);
  if (!options.json.empty())
    write_text_file_atomically(options.json,
                               to_json(evaluation, restored.checkpoint(), restored.step()) + "\n");
}

void run(const EvalArguments& options) {
  std::string command = cat("eval ", options.checkpoint, " ", options.input);
  for (const std::string& filter : options.filters) command += cat(" --filter ", filter);
  ModelRanks ranks(options.ranks, options.transport.ranks, command);
  ranks.run([&] { run_as_rank(options, ranks); });
}

}  // namespace

void add_eval(Command& program) {
  auto options = std::make_shared<EvalArguments>();
  Command command = program.add_command("eval", "Evaluate a checkpoint on a data set");
  add_checkpoint_options(command, *options);
  command.option("--input", options->input, "PATH",
                 "Data set (default: eval_input_path, or the rows held out of training)");
  add_filter_option(command, options->filters);
  command.output("--json", options->json, "Also write the metrics to this file");
  add_rank_options(command, options->ranks);
  add_transport_options(command, options->transport);
  command.run([options] { run(*options); });
}

}  // namespace emblem
