#include "cli/synth.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "core/text.h"
#include "core/thread_pool.h"
#include "data/synth/synth.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Options as text where the library has no type for them.
struct Arguments {
  SynthOptions options;
  std::string rows = "1M", test_rows, cardinalities;
  double missing_dense = -1, missing_sparse = -1;
  double bundle_gb = 0;
  bool force = false, columns = false;
  int threads = available_cpus();
};

SynthOptions to_options(const Arguments& arguments) {
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
  options.bundle_bytes = static_cast<int64_t>(arguments.bundle_gb * 1e9);
  if (arguments.force) options.overwrite = Overwrite::kReplace;
  if (arguments.columns) options.split_layout = SplitLayout::kColumns;
  return options;
}

void run(const Arguments& arguments) {
  const SynthOptions options = to_options(arguments);
  ThreadPool threads(arguments.threads);
  Context context;
  context.threads = &threads;
  const SynthResult result = synthesize(context, options);
  std::cout << options.out << ": " << result.train.rows << " rows to train, " << result.test.rows
            << " to test, " << format_bytes(static_cast<double>(result.bytes)) << "; mean label "
            << result.train.label_mean << "\nbest possible on test: AUC " << result.test.best_auc
            << ", log loss " << result.test.best_log_loss << "\n";
}

}  // namespace

void add_synth(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "synth",
      "Write a data set whose labels follow a known truth, so that the best possible AUC is known");
  const auto arguments = std::make_shared<Arguments>();
  SynthOptions& options = arguments->options;
  command->option_defaults()->always_capture_default();
  command->add_option("--preset", options.preset, "Shape of the data: criteo");
  command->add_option("--rows", arguments->rows, "Rows to train on (1M, 250k, ...)");
  command->add_option("--test-rows", arguments->test_rows, "Rows to test on [a tenth of --rows]");
  command->add_option("--out", options.out, "Folder to write: train/, test/, metadata.json")
      ->required();
  command->add_option("--format", options.format, "tsv, csv, raw or split");
  command->add_option("--alpha", options.alpha,
                      "Skew of the keys: exponent of their power law, 0 for uniform");
  command->add_option("--seed", options.seed, "The same seed gives the same bytes");
  command->add_option("--tables", options.tables, "Table sizes: kaggle, fl15 or criteo-40m");
  command->add_option("--scale", options.scale,
                      "Multiplies the table sizes (each stays at least 2)");
  command->add_option("--cardinalities", arguments->cardinalities,
                      "Table sizes, comma-separated, instead of --tables and --scale");
  command->add_option("--dense", options.num_dense, "Number of dense columns");
  command->add_option("--sparse", options.num_sparse,
                      "Number of sparse columns; -1: as many as there are table sizes");
  command
      ->add_option("--missing-dense", arguments->missing_dense,
                   "Share of missing counts [0.05 in tsv and csv, 0 in raw and split]")
      ->default_str("")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--missing-sparse", arguments->missing_sparse,
                   "Share of missing keys [0.03 in tsv and csv, 0 in raw and split]")
      ->default_str("")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--bundle-gb", arguments->bundle_gb, "Files of about this size; 0: one file")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--columns", arguments->columns,
                    "split: a file a column, dense values as fp16 logarithms");
  command->add_option("--threads", arguments->threads, "Threads")->check(CLI::PositiveNumber);
  command->add_flag("--force", arguments->force, "Replace a data set that is already there");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace emblem
