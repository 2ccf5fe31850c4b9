#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/files/output_file.h"
#include "core/system/interrupt.h"
#include "core/system/log.h"
#include "core/system/progress.h"
#include "emblem/error.h"
#include "init/feature_names.h"
#include "init/starter.h"
#include "tune/tune.h"

namespace emblem {
namespace {

struct InitArguments : StarterOptions {
  std::string out = "pipeline.config";
  std::string model = "auto";
  std::string task_name = "auto";
  bool header = false, no_header = false, force = false;
  TuneOptions tuning;
  PipelineOptions compute;  // device and threads of the search
};

// Beside the pipeline, so that several in one folder have their own.
std::string model_dir_for(const std::string& out) {
  if (is_standard_output(out)) return "model";
  const std::filesystem::path path(out);
  return (path.parent_path() / (path.stem().string() + "_model")).string();
}

StarterOptions to_starter(const InitArguments& options) {
  StarterOptions starter = options;
  starter.storage = open_storage(RemoteArguments{});
  if (starter.csv.delimiter == "\\t") starter.csv.delimiter = "\t";
  EMBLEM_REQUIRE(starter.csv.delimiter.size() <= 1, "--delimiter is \"", starter.csv.delimiter,
                 "\"; expected one character, or \\t for a tab");
  if (options.header || options.no_header) starter.csv.with_header = options.header;
  if (options.model != "auto") starter.pipeline.model = options.model;
  if (options.task_name != "auto") starter.task = options.task_name;
  starter.pipeline.train_input = options.input;
  if (starter.pipeline.model_dir.empty()) starter.pipeline.model_dir = model_dir_for(options.out);
  return starter;
}

void print_next_steps(const std::string& out, const std::string& model_dir) {
  if (is_standard_output(out)) return;
  const std::string model = shell_word(model_dir);
  std::printf(
      "wrote %s; next:\n"
      "  emblem train --config %s\n"
      "  emblem eval --checkpoint %s\n"
      "  emblem predict --checkpoint %s --input FILE --out predictions.csv\n",
      out.c_str(), shell_word(out).c_str(), model.c_str(), model.c_str());
}

// Trials write no lines of their own beside the bar.
class QuietTrials {
 public:
  QuietTrials() : before_(log_settings()) {
    LogSettings quiet = before_;
    quiet.info = quiet.warning = false;
    set_log_settings(quiet);
  }
  ~QuietTrials() { set_log_settings(before_); }
  QuietTrials(const QuietTrials&) = delete;
  QuietTrials& operator=(const QuietTrials&) = delete;

 private:
  const LogSettings before_;
};

Starter make_tuned(const StarterDraft& draft, const InitArguments& options) {
  TuneOptions tuning = options.tuning;
  tuning.cancel = CancelToken(interrupted);
  Progress bar("tuning", tuning.steps, "steps");
  tuning.on_step = [&](int64_t steps, const std::string& trial) { bar.update(steps, trial); };
  const Workers workers = make_workers(options.compute, 0);
  const Tuned tuned = [&] {
    const QuietTrials quiet;
    return tune(workers.context, draft, tuning);
  }();
  bar.finish();
  Starter starter = draft.finish(tuned.settings);
  starter.summary += tuned.summary();
  return starter;
}

int run(const InitArguments& options) {
  refuse_input_as_output("--out", options.out, options.input);
  const StarterDraft draft(to_starter(options));
  const bool to_file = !is_standard_output(options.out);
  EMBLEM_REQUIRE(options.force || !to_file || !std::filesystem::is_regular_file(options.out),
                 options.out,
                 " exists; choose another name with --out, or replace it with --force");
  const Starter starter =
      options.tuning.steps == 0 ? draft.finish(draft.settings()) : make_tuned(draft, options);
  OutputFile file(options.out);
  file.write(starter.pipeline);
  file.finish();
  std::printf("%s", starter.summary.c_str());
  for (const std::string& warning : starter.warnings) log_warn(warning);
  print_next_steps(options.out, draft.settings().model_dir);
  return 0;
}

}  // namespace

void add_init(Command& program) {
  auto options = std::make_shared<InitArguments>();
  Command command = program.add_command(
      "init", "Write a first pipeline for a data set: features, model and training settings");
  command
      .argument(
          "data", options->input,
          "Files, folders or globs, comma-separated; Parquet, ORC, Arrow IPC, CSV, Criteo TSV, "
          "libfm, text also .gz and .zst")
      .required();
  command.option("--label", options->columns.label, "NAME",
                 "Column to predict (without a header: column1, column2, ... or a number)");
  command.option("--label-positive", options->label_positive, "VALUE",
                 "Value of the label that is 1; all others are 0 (default: chosen)");
  command.choice("--task", options->task_name, {"auto", "binary", "classes", "number"},
                 "What the label is (auto: by its values)");
  command.option("--weight", options->columns.weight, "NAME", "Column with the weights of rows");
  command.output("--out", options->out, "Pipeline to write");
  command.flag("--force", options->force, "Replace an existing file");
  command.option("--eval", options->pipeline.eval_input, "PATH",
                 "Data to evaluate on (default: rows held out of the data)");
  command
      .option("--holdout", options->pipeline.holdout_ratio, "SHARE",
              "Share of rows to hold out for evaluations; 0: none (default: 0.1; 0.3 of less than "
              "200 rows)")
      .range(0, 0.9)
      .hide_default();
  std::vector<std::string> models = starter_models();
  models.insert(models.begin(), "auto");
  command.choice(
      "--model", options->model, models,
      "Model (auto: wide_and_deep; deepfm from 50,000 rows on; dcn_v2 for several classes)");
  command.option("--model-dir", options->pipeline.model_dir, "DIR",
                 "Checkpoints (default: the name of the pipeline with _model)");
  command.option("--delimiter", options->csv.delimiter, "CHAR",
                 "CSV: separator of fields (default: detected)");
  const Option header =
      command.flag("--header", options->header, "CSV: the first line has the column names");
  command.flag("--no-header", options->no_header, "CSV: the first line is a row").excludes(header);
  command
      .list("--names", options->csv.names, "NAME,...",
            "CSV without a header: names of all columns (default: column1, column2, ...)")
      .excludes(header);
  command.list("--categories", options->columns.categories, "NAME,...",
               "Columns that are categories; names with a comma in quotes: 'a,\"b,c\"'");
  command.list("--numbers", options->columns.numbers, "NAME,...", "Columns that are numbers");
  command.list("--skip", options->columns.skipped, "NAME,...", "Columns to skip");
  command.size("--rows", options->sampled_rows, "Rows to look at, spread over the files; 0: all",
               "200k");
  command.size("--max-bad-rows", options->max_bad_rows, "Skip up to N unreadable rows", "0");
  const Option tune = command.size(
      "--tune", options->tuning.steps,
      "Search width, rates, regularization and the like by this many training steps, on "
      "rows that are kept from the data (100k suits most); not by those of --eval",
      "no search");
  command
      .option("--tune-seed", options->tuning.seed, "N",
              "Decides which rows the search keeps, and what its trainings draw")
      .needs(tune);
  add_device_option(command, options->compute);
  command
      .option("--threads", options->compute.threads, "N",
              "Compute threads of the search (0: EMBLEM_THREADS, or all CPUs)")
      .range(0, 1024);
  command.run_interruptible([options] { return run(*options); });
}

}  // namespace emblem
