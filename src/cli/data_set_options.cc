#include "cli/data_set_options.h"

#include "core/text/text.h"

namespace emblem {

void add_data_set_options(Command& command, DataSetArguments& arguments) {
  command.option(
      "--compression", arguments.compression, "NAME",
      "parquet, orc and arrow: none, snappy, zstd, gzip, lz4 or brotli (default: snappy, "
      "zstd and none)");
  command.option("--row-group-rows", arguments.row_group_rows, "N",
                 "parquet, orc and arrow: rows of a row group, which one thread reads at a time");
  command.flag("--no-dictionary", arguments.no_dictionary,
               "parquet: every value is stored on its own");
  command.option("--bundle-gb", arguments.bundle_gb, "GB", "Size of the files (0: one file)")
      .at_least(0);
  command.flag("--columns", arguments.columns,
               "split output: one file per column, dense values as fp16 logarithms");
  command.flag("--force", arguments.force, "Replace an existing data set");
}

void set_writing(const DataSetArguments& arguments, WriterOptions& writing) {
  writing.columnar.compression = arguments.compression;
  writing.columnar.row_group_rows = parse_size(arguments.row_group_rows, "--row-group-rows");
  writing.columnar.dictionaries = !arguments.no_dictionary;
  writing.bundle_bytes = static_cast<int64_t>(arguments.bundle_gb * 1e9);
  writing.overwrite = arguments.force ? Overwrite::kReplace : Overwrite::kRefuse;
  writing.split_layout = arguments.columns ? SplitLayout::kColumns : SplitLayout::kRows;
}

}  // namespace emblem
