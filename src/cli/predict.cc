#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "emblem/error.h"
#include "train/restored.h"

namespace emblem {
namespace {

struct Options : CheckpointOptions {
  std::string input, out;
};

int run(const Options& options) {
  const InterruptHandler handler;
  const Workers workers = make_workers(options, 0);
  RestoredModel restored(workers.context, options.checkpoint, options.config,
                         overrides_of(options));
  try {
    const int64_t rows = restored.predict(options.input, options.out);
    std::printf("wrote %ld predictions to %s\n", static_cast<long>(rows), options.out.c_str());
    return 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled) throw;
    log_info(error.what());
    return interrupted_status();
  }
}

}  // namespace

void add_predict(CLI::App& program, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("predict", "Write a score for every row of a data set");
  add_checkpoint_options(*command, *options);
  command
      ->add_option("--input", options->input,
                   "Data set, in the format the model was trained on; labels are not read")
      ->required();
  command->add_option("--out", options->out, "CSV file to write: a prediction for each row")
      ->required();
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace emblem
