#include "cli/commands.h"

#include <iostream>
#include <memory>

#include "cli/data_set_options.h"
#include "cli/pipeline_options.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/convert.h"
#include "emblem/error.h"
#include "remote/dataset_upload.h"

namespace emblem {
namespace {

// Options that are parsed after the command line.
struct ConvertArguments {
  ConvertOptions options;
  InputHints hints;
  std::string from, max_bad_rows = "0";
  std::string separator;
  std::string dense_fields, sparse_fields, missing = "error", dense_type = "int32";
  DataSetArguments data_set;
  int threads = available_cpus();
  RemoteArguments remote;
};

std::vector<std::string> names(const std::string& list) {
  return list.empty() ? std::vector<std::string>{} : split(list, ',');
}

ConvertOptions to_options(const ConvertArguments& arguments) {
  ConvertOptions options = arguments.options;
  InputHints hints = arguments.hints;
  hints.storage = open_storage(arguments.remote);
  hints.max_bad_rows = parse_size(arguments.max_bad_rows, "--max-bad-rows");
  options.from = describe_input(arguments.from, hints);
  set_writing(arguments.data_set, options.writing);
  options.writing.missing =
      arguments.missing == "zero" ? MissingValues::kZero : MissingValues::kReject;
  options.writing.split_dense =
      arguments.dense_type == "float32" ? SplitDense::kFloat32 : SplitDense::kInt32;
  EMBLEM_REQUIRE(arguments.separator.size() <= 1, "--separator is \"", arguments.separator,
                 "\"; expected one character");
  if (!arguments.separator.empty()) options.writing.separator = arguments.separator[0];
  options.writing.dense_fields = names(arguments.dense_fields);
  options.writing.sparse_fields = names(arguments.sparse_fields);
  return options;
}

void run(const ConvertArguments& arguments) {
  const ConvertOptions options = to_options(arguments);
  const Storage& storage = options.from.storage;
  ThreadPool threads(arguments.threads);
  Context context;
  context.threads = &threads;
  refuse_inputs_in(options.from.input, options.to, storage);
  ConvertResult result;
  write_data_set(options.to, options.writing.overwrite, storage, [&](const std::string& folder) {
    ConvertOptions local = options;
    local.to = folder;
    result = convert(context, local);
  });
  std::cout << options.to << ": " << result.rows << " rows, "
            << format_bytes(static_cast<double>(result.bytes_read)) << " read, "
            << format_bytes(static_cast<double>(result.bytes_written)) << " written";
  if (result.bad_rows > 0)
    std::cout << "; " << result.bad_rows << " rows could not be read and were skipped";
  std::cout << "\n";
}

}  // namespace

void add_convert(Command& program) {
  Command command = program.add_command("convert", "Convert a data set to another format");
  const auto arguments = std::make_shared<ConvertArguments>();
  ConvertOptions& options = arguments->options;
  InputHints& hints = arguments->hints;
  command.option("--from", arguments->from, "PATH,...", "Files, folders or globs, comma-separated")
      .required();
  command.option("--from-format", hints.format, "FORMAT",
                 "tsv, csv, raw, split, libfm, parquet, orc or arrow (default: detected)");
  command.option("--delimiter", hints.delimiter, "CHAR",
                 "csv input: separator of fields (default: detected)");
  command.flag("--with-header", hints.with_header,
               "csv input: the first line has the column names");
  command.option("--num-dense", hints.num_dense, "N",
                 "tsv, raw and split input: number of dense columns");
  command.option("--num-sparse", hints.num_sparse, "N",
                 "tsv, raw and split input: number of sparse columns");
  command.option("--max-bad-rows", arguments->max_bad_rows, "N", "Skip up to N unreadable rows");
  command.option("--to", options.to, "DIR", "Folder or address (s3://...) to write").required();
  command
      .option("--format", options.format, "FORMAT", "tsv, csv, raw, split, parquet, orc or arrow")
      .required();
  add_data_set_options(command, arguments->data_set);
  command.option("--separator", arguments->separator, "CHAR",
                 "csv output: between the values of a list, as separator of its feature "
                 "(default: \\x1d)");
  command.list("--sequences", options.writing.sequences, "NAME,...",
               "csv output: columns of lists that features of sequences read (their values are "
               "separated by --sequence-delim)");
  command.option(
      "--sequence-delim", options.writing.sequence_delim, "DELIM",
      "csv output: between the elements of a sequence, as sequence_delim of its feature");
  command.option("--label-field", options.writing.label_field, "NAME",
                 "tsv, raw and split output: label column (default: label, or else the first)");
  command.option(
      "--dense-fields", arguments->dense_fields, "NAME,...",
      "tsv, raw and split output: dense columns (default: I1.., or else those with fractions)");
  command.option(
      "--sparse-fields", arguments->sparse_fields, "NAME,...",
      "tsv, raw and split output: sparse columns (default: C1.., or else those of integers)");
  command.choice("--missing", arguments->missing, {"error", "zero"},
                 "raw and split output: what a missing value becomes");
  command.choice("--dense-type", arguments->dense_type, {"int32", "float32"},
                 "split output: type of dense values");
  command.option("--threads", arguments->threads, "N", "Compute threads").positive();
  add_remote_options(command, arguments->remote);
  command.run([arguments] { run(*arguments); });
}

}  // namespace emblem
