#include "cli/convert.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "core/text.h"
#include "core/thread_pool.h"
#include "data/convert.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Options as text where the library has no type for them.
struct Arguments {
  ConvertOptions options;
  InputHints hints;
  std::string from, max_bad_rows = "0";
  std::string dense_fields, sparse_fields, missing = "error", dense_type = "int32";
  double bundle_gb = 0;
  bool force = false, columns = false;
  int threads = available_cpus();
};

std::vector<std::string> names(const std::string& list) {
  return list.empty() ? std::vector<std::string>{} : split(list, ',');
}

ConvertOptions to_options(const Arguments& arguments) {
  ConvertOptions options = arguments.options;
  InputHints hints = arguments.hints;
  hints.max_bad_rows = parse_size(arguments.max_bad_rows, "--max-bad-rows");
  options.from = describe_input(arguments.from, hints);
  options.writing.bundle_bytes = static_cast<int64_t>(arguments.bundle_gb * 1e9);
  options.writing.overwrite = arguments.force ? Overwrite::kReplace : Overwrite::kRefuse;
  options.writing.missing =
      arguments.missing == "zero" ? MissingValues::kZero : MissingValues::kReject;
  options.writing.split_layout = arguments.columns ? SplitLayout::kColumns : SplitLayout::kRows;
  options.writing.split_dense =
      arguments.dense_type == "float32" ? SplitDense::kFloat32 : SplitDense::kInt32;
  options.writing.dense_fields = names(arguments.dense_fields);
  options.writing.sparse_fields = names(arguments.sparse_fields);
  return options;
}

void run(const Arguments& arguments) {
  const ConvertOptions options = to_options(arguments);
  ThreadPool threads(arguments.threads);
  Context context;
  context.threads = &threads;
  const ConvertResult result = convert(context, options);
  std::cout << options.to << ": " << result.rows << " rows, "
            << format_bytes(static_cast<double>(result.bytes_read)) << " read, "
            << format_bytes(static_cast<double>(result.bytes_written)) << " written";
  if (result.bad_rows > 0)
    std::cout << "; " << result.bad_rows << " rows could not be read and were skipped";
  std::cout << "\n";
}

}  // namespace

void add_convert(CLI::App& program) {
  CLI::App* command = program.add_subcommand("convert", "Turn a data set into another format");
  const auto arguments = std::make_shared<Arguments>();
  ConvertOptions& options = arguments->options;
  InputHints& hints = arguments->hints;
  command->option_defaults()->always_capture_default();
  command->add_option("--from", arguments->from, "Files, folders or globs, comma-separated")
      ->required();
  command->add_option("--from-format", hints.format,
                      "tsv, csv, raw, split or libfm [what the input looks like]");
  command->add_option("--delimiter", hints.delimiter,
                      "csv input: what stands between values [what the first line has]");
  command->add_flag("--with-header", hints.with_header, "csv input: the first line holds names");
  command->add_option("--num-dense", hints.num_dense,
                      "tsv, raw and split input: number of dense columns");
  command->add_option("--num-sparse", hints.num_sparse,
                      "tsv, raw and split input: number of sparse columns");
  command->add_option("--max-bad-rows", arguments->max_bad_rows,
                      "Skip up to so many rows that cannot be read");
  command->add_option("--to", options.to, "Folder to write")->required();
  command->add_option("--format", options.format, "tsv, csv, raw or split")->required();
  command->add_option("--bundle-gb", arguments->bundle_gb, "Files of about this size; 0: one file")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--label-field", options.writing.label_field,
                      "tsv, raw and split output: the label [label, or else the first column]");
  command->add_option(
      "--dense-fields", arguments->dense_fields,
      "tsv, raw and split output: dense columns [I1.., or else those with fractions]");
  command->add_option(
      "--sparse-fields", arguments->sparse_fields,
      "tsv, raw and split output: sparse columns [C1.., or else those of whole numbers]");
  command
      ->add_option("--missing", arguments->missing,
                   "raw and split output: missing values are an error, or zero")
      ->check(CLI::IsMember({"error", "zero"}));
  command->add_option("--dense-type", arguments->dense_type, "split output: type of dense values")
      ->check(CLI::IsMember({"int32", "float32"}));
  command->add_flag("--columns", arguments->columns,
                    "split output: a file a column, dense values as fp16 logarithms");
  command->add_option("--threads", arguments->threads, "Threads")->check(CLI::PositiveNumber);
  command->add_flag("--force", arguments->force, "Replace a data set that is already there");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace emblem
