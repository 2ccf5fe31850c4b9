#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "train/restored.h"

namespace emblem {
namespace {

struct Options : CheckpointOptions {
  std::string input, out;
};

void run(const Options& options) {
  const Workers workers = make_workers(options, 0);
  RestoredModel restored(workers.context, options.checkpoint, options.config,
                         overrides_of(options));
  const int64_t rows = restored.predict(options.input, options.out);
  std::printf("wrote %ld predictions to %s\n", static_cast<long>(rows), options.out.c_str());
}

}  // namespace

void add_predict(Command& program) {
  auto options = std::make_shared<Options>();
  Command command = program.add_command("predict", "Write a score for every row of a data set");
  add_checkpoint_options(command, *options);
  command
      .option("--input", options->input, "PATH",
              "Data set, in the format the model was trained on; labels are not read")
      .required();
  command.output("--out", options->out, "CSV file to write: a prediction for each row").required();
  command.run_interruptible([options] {
    run(*options);
    return 0;
  });
}

}  // namespace emblem
