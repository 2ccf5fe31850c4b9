#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "config/check.h"
#include "config/load.h"
#include "core/file.h"
#include "core/text.h"
#include "train/restored.h"

namespace emblem {
namespace {

struct Options : PipelineOptions {
  std::string checkpoint, input, json;
};

void run(const Options& options) {
  const Workers workers = make_workers(options, 0);
  RestoredModel restored(workers.context, options.checkpoint, options.config, options.set);
  const Evaluation evaluation = restored.evaluate(options.input);
  std::printf("%s\n", to_text(evaluation).c_str());
  std::printf("%ld rows in %s (%s rows/s)\n", static_cast<long>(evaluation.rows),
              format_duration(evaluation.seconds).c_str(),
              format_count(static_cast<double>(evaluation.rows) / evaluation.seconds).c_str());
  if (!options.json.empty()) write_text_file_atomically(options.json, to_json(evaluation) + "\n");
}

}  // namespace

void add_eval(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("eval", "Evaluate a checkpoint on a data set");
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Checkpoint folder, or a model dir (its latest one)")
      ->required();
  command->add_option("--config", options->config, "Pipeline file (default: the checkpoint's own)");
  command
      ->add_option("--set", options->set, "Override a field: path.to[0].field=value (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--input", options->input, "Data set (default: eval_input_path)");
  command->add_option("--json", options->json, "Also write the metrics to this file");
  add_device_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
