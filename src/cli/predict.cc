#include <algorithm>
#include <cstdio>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "cli/rank_options.h"
#include "core/files/output_file.h"
#include "emblem/error.h"
#include "ranks/ranks.h"
#include "train/learner/lookup_report.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

struct PredictArguments : CheckpointOptions {
  std::string input, out;
  std::vector<std::string> keep, outputs, filters;
  RankOptions ranks;
  TransportOptions transport;
};

void check_keep(const std::vector<std::string>& keep) {
  for (auto name = keep.begin(); name != keep.end(); ++name) {
    EMBLEM_REQUIRE(std::find(keep.begin(), name, *name) == name, "--keep names \"", *name,
                   "\" twice; name each column once");
  }
}

std::string lines_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return text;
}

void run(const PredictArguments& options) {
  check_keep(options.keep);
  ModelRanks ranks(options.ranks, options.transport.ranks,
                   cat("predict ", options.checkpoint, " ", options.input, " ", options.out,
                       " --keep ", lines_of(options.keep), " --outputs ", lines_of(options.outputs),
                       " --filter ", lines_of(options.filters)));
  PredictionPass pass;
  ranks.run([&] {
    const Storage storage = open_storage(options.remote);  // holds a copy that is fetched
    const std::string checkpoint = ranks.find_common_checkpoint(options.checkpoint, storage);
    refuse_input_or_checkpoint_as_output("--out", options.out, options, checkpoint, options.input);
    const Workers workers = make_workers(options, 0);
    ranks.open_device(workers.context, options.transport.device);
    RestoredModel restored(workers.context, checkpoint, options.config, overrides_of(options),
                           ranks.world(), RestoredFor::kPrediction);
    pass = restored.predict(options.input, options.out, options.keep, options.outputs,
                            options.filters, watch_pass("predicting"));
  });
  if (!ranks.reports()) return;
  std::printf("wrote %ld predictions to %s\n", static_cast<long>(pass.rows),
              is_standard_output(options.out) ? "standard output" : options.out.c_str());
  if (pass.bad_rows > 0)
    std::printf("skipped %ld bad rows; their predictions are empty\n",
                static_cast<long>(pass.bad_rows));
  log_missing_values(pass.lookups, LookupPass::kEvaluation);
}

}  // namespace

void add_predict(Command& program) {
  auto options = std::make_shared<PredictArguments>();
  Command command = program.add_command("predict", "Write a score for every row of a data set");
  add_checkpoint_options(command, *options);
  command
      .option("--input", options->input, "PATH",
              "Data set, in any format that has the model's columns; labels are not read")
      .required();
  add_filter_option(command, options->filters);
  command
      .output("--out", options->out,
              "File to write, with a row for each row of the input: CSV, .parquet, .orc or .arrow")
      .required();
  command.list("--keep", options->keep, "NAME,...",
               "Columns of the input to write before the prediction, as they are; names with a "
               "comma in quotes: 'a,\"b,c\"'");
  command.list("--outputs", options->outputs, "NAME,...",
               "Outputs of the model to write, as probs_ctr,logits_ctr (default: a probability, "
               "number or class probabilities for each tower); user_tower_emb or item_tower_emb "
               "alone needs the columns of that tower only");
  add_rank_options(command, options->ranks);
  add_transport_options(command, options->transport);
  command.run_interruptible([options] {
    run(*options);
    return 0;
  });
}

}  // namespace emblem
