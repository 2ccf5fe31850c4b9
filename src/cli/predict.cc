#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/text.h"
#include "train/restored.h"

namespace emblem {
namespace {

struct Options : PipelineOptions {
  std::string checkpoint, input, out;
};

void run(const Options& options) {
  const Workers workers = make_workers(options, 0);
  RestoredModel restored(workers.context, options.checkpoint, options.config, options.set);
  const int64_t rows = restored.predict(options.input, options.out);
  std::printf("wrote %ld predictions to %s\n", static_cast<long>(rows), options.out.c_str());
}

}  // namespace

void add_predict(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("predict", "Write a score for every row of a data set");
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Checkpoint folder, or a model dir (its latest one)")
      ->required();
  command->add_option("--input", options->input, "Data set, in the format the model was trained on")
      ->required();
  command->add_option("--out", options->out, "CSV file: label,prediction")->required();
  command->add_option("--config", options->config, "Pipeline file (default: the checkpoint's own)");
  command
      ->add_option("--set", options->set, "Override a field: path.to[0].field=value (repeatable)")
      ->allow_extra_args(false);
  add_device_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
