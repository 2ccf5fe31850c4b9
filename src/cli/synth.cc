#include "cli/commands.h"

#include <iostream>
#include <memory>

#include "cli/data_set_options.h"
#include "cli/pipeline_options.h"
#include "config/load/load.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/synth/pipeline_synth.h"
#include "data/synth/presets.h"
#include "data/synth/retrieval_synth.h"
#include "data/synth/synth.h"
#include "emblem/error.h"
#include "model/check/check.h"
#include "remote/dataset_upload.h"

namespace emblem {
namespace {

// Options that are parsed after the command line.
struct SynthArguments {
  SynthOptions options;
  std::string preset = "criteo";
  std::string pipeline;  // the file of --for
  std::vector<std::string> set;
  int64_t divide_tables = 1;
  std::string rows = "1M", test_rows, cardinalities;
  double missing_dense = -1, missing_sparse = -1;
  DataSetArguments data_set;
  int threads = available_cpus();
  RemoteArguments remote;
};

SynthOptions to_synth_options(const SynthArguments& arguments) {
  SynthOptions options = arguments.options;
  options.rows = parse_size(arguments.rows, "--rows");
  if (!arguments.test_rows.empty())
    options.test_rows = parse_size(arguments.test_rows, "--test-rows");
  if (!arguments.cardinalities.empty()) {
    for (const std::string& item : split(arguments.cardinalities, ',')) {
      options.cardinalities.push_back(parse_size(trim(item), "--cardinalities"));
    }
  }
  if (arguments.missing_dense >= 0) options.missing_dense = arguments.missing_dense;
  if (arguments.missing_sparse >= 0) options.missing_sparse = arguments.missing_sparse;
  set_writing(arguments.data_set, options.writing);
  return options;
}

PipelineSynthOptions to_pipeline_options(const SynthArguments& arguments) {
  const SynthOptions options = to_synth_options(arguments);
  PipelineSynthOptions result;
  result.name = arguments.pipeline.empty() ? arguments.preset : arguments.pipeline;
  result.out = options.out;
  result.rows = options.rows;
  result.test_rows = options.test_rows;
  result.seed = options.seed;
  result.alpha = options.alpha;
  result.divide_tables = arguments.divide_tables;
  result.writing = options.writing;
  if (options.format != "tsv") result.format = options.format;  // the default of criteo
  return result;
}

// Data for any pipeline.
void run_for_pipeline(const SynthArguments& arguments, const Context& context) {
  const PipelineSynthOptions options = to_pipeline_options(arguments);
  config::PipelineConfig config;
  if (arguments.pipeline.empty()) {
    config = preset_pipeline(arguments.preset);
  } else {
    config = load_pipeline(arguments.pipeline, arguments.set);
    check_pipeline(config);
    const config::DatasetType type = config.data_config().dataset_type();
    const bool is_fixed = type == config::CriteoTsvDataset || type == config::LibfmDataset ||
                          type == config::RawDataset || type == config::SplitDataset;
    EMBLEM_REQUIRE(!is_fixed, arguments.pipeline, " reads ", config::DatasetType_Name(type),
                   ", but --for writes CSV, Parquet, ORC or Arrow; use --preset criteo, or set "
                   "data_config.dataset_type=CsvDataset");
  }
  PipelineSynthResult result;
  write_data_set(options.out, options.writing.overwrite, open_storage(arguments.remote),
                 [&](const std::string& folder) {
                   PipelineSynthOptions local = options;
                   local.out = folder;
                   result = synthesize_for(context, config, local);
                 });
  std::cout << options.out << ": " << result.rows << " rows to train, " << result.test_rows
            << " to test, " << result.columns << " columns, "
            << format_bytes(static_cast<double>(result.bytes)) << "\nbest possible on test:";
  const char* separator = " ";
  for (const auto& [metric, value] : result.best) {
    std::cout << separator << metric << " " << format_metric(value);
    separator = ", ";
  }
  std::cout << "\n";
}

void run_retrieval(const SynthArguments& arguments, const Context& context) {
  const SynthOptions options = to_synth_options(arguments);
  RetrievalSynthOptions retrieval{.rows = options.rows,
                                  .test_rows = options.test_rows,
                                  .seed = options.seed,
                                  .writing = options.writing};
  if (options.format != "tsv") retrieval.format = options.format;  // the default of criteo
  if (!options.cardinalities.empty()) {
    EMBLEM_REQUIRE(options.cardinalities.size() == 3, "--cardinalities has ",
                   options.cardinalities.size(),
                   " numbers; with --preset retrieval they are users, items and categories");
    retrieval.users = options.cardinalities[0];
    retrieval.items = options.cardinalities[1];
    retrieval.categories = options.cardinalities[2];
  }
  RetrievalSynthResult result;
  write_data_set(options.out, options.writing.overwrite, open_storage(arguments.remote),
                 [&](const std::string& folder) {
                   retrieval.out = folder;
                   result = synthesize_retrieval(context, retrieval);
                 });
  std::cout << options.out << ": " << result.rows << " rows to train, " << result.test_rows
            << " to test, " << retrieval.items << " items, "
            << format_bytes(static_cast<double>(result.bytes))
            << "\nbest possible on test: full_recall@50 " << format_metric(result.best_recall)
            << "\n";
}

void run(const SynthArguments& arguments) {
  ThreadPool threads(arguments.threads);
  Context context;
  context.threads = &threads;
  if (arguments.pipeline.empty() && arguments.preset == "retrieval")
    return run_retrieval(arguments, context);
  if (!arguments.pipeline.empty() || arguments.preset != "criteo")
    return run_for_pipeline(arguments, context);
  const SynthOptions options = to_synth_options(arguments);
  SynthResult result;
  write_data_set(options.out, options.writing.overwrite, open_storage(arguments.remote),
                 [&](const std::string& folder) {
                   SynthOptions local = options;
                   local.out = folder;
                   result = synthesize(context, local);
                 });
  std::cout << options.out << ": " << result.train.rows << " rows to train, " << result.test.rows
            << " to test, " << format_bytes(static_cast<double>(result.bytes)) << "; mean label "
            << result.train.label_mean << "\nbest possible on test: AUC " << result.test.best_auc
            << ", log loss " << result.test.best_log_loss << "\n";
}

}  // namespace

void add_synth(Command& program) {
  Command command = program.add_command(
      "synth",
      "Write a synthetic data set whose labels follow a known model, so that the best possible "
      "AUC is known");
  const auto arguments = std::make_shared<SynthArguments>();
  SynthOptions& options = arguments->options;
  command.option("--preset", arguments->preset, "NAME",
                 "Shape of the data: criteo, taobao, ccp, census or retrieval");
  command.option(
      "--for", arguments->pipeline, "FILE",
      "Write the columns and labels that this pipeline reads, as csv or a columnar format");
  command.repeatable("--set", arguments->set, "PATH=VALUE",
                     "With --for: override a setting of the pipeline");
  command
      .option("--divide-tables", arguments->divide_tables, "N",
              "With --for and presets other than criteo: ids are N times fewer than table rows")
      .positive();
  command.option("--rows", arguments->rows, "SIZE", "Training rows (1M, 250k, ...)");
  command.option("--test-rows", arguments->test_rows, "SIZE",
                 "Test rows (default: a tenth of --rows)");
  command
      .option("--out", options.out, "DIR",
              "Folder or address (s3://...) to write: train/, test/, metadata.json")
      .required();
  command.option("--format", options.format, "FORMAT",
                 "tsv, csv, raw, split, parquet, orc or arrow");
  add_data_set_options(command, arguments->data_set);
  command.option("--alpha", options.alpha, "X",
                 "Exponent of the power law of the keys; 0: uniform");
  command.option("--seed", options.seed, "N", "Random seed; the same seed gives the same data");
  command.option("--tables", options.tables, "NAME", "Table sizes: kaggle, fl15 or criteo-40m");
  command.option("--scale", options.scale, "X",
                 "Multiplies the table sizes (each stays at least 2)");
  command.option("--cardinalities", arguments->cardinalities, "N,...",
                 "Table sizes, comma-separated, instead of --tables and --scale; with --preset "
                 "retrieval: users, items, categories");
  command.option("--dense", options.num_dense, "N", "Number of dense columns");
  command.option("--sparse", options.num_sparse, "N",
                 "Number of sparse columns; -1: one per table size");
  command
      .option("--missing-dense", arguments->missing_dense, "SHARE",
              "Share of missing dense values (default: 0.05; 0 in raw and split)")
      .range(0.0, 1.0)
      .hide_default();
  command
      .option("--missing-sparse", arguments->missing_sparse, "SHARE",
              "Share of missing keys (default: 0.03; 0 in raw and split)")
      .range(0.0, 1.0)
      .hide_default();
  command.option("--threads", arguments->threads, "N", "Compute threads").positive();
  add_remote_options(command, arguments->remote);
  command.run([arguments] { run(*arguments); });
}

}  // namespace emblem
