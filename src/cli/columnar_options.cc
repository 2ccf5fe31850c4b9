#include "cli/columnar_options.h"

#include "core/text/text.h"

namespace emblem {

void add_columnar_options(Command& command, ColumnarArguments& arguments) {
  command.option(
      "--compression", arguments.compression, "NAME",
      "parquet, orc and arrow: none, snappy, zstd, gzip, lz4 or brotli (default: snappy, "
      "zstd and none)");
  command.option("--row-group-rows", arguments.row_group_rows, "N",
                 "parquet, orc and arrow: rows of a row group, which one thread reads at a time");
  command.flag("--no-dictionary", arguments.no_dictionary,
               "parquet: every value is stored on its own");
}

ColumnarOptions columnar_options(const ColumnarArguments& arguments) {
  ColumnarOptions options;
  options.compression = arguments.compression;
  options.row_group_rows = parse_size(arguments.row_group_rows, "--row-group-rows");
  options.dictionaries = !arguments.no_dictionary;
  return options;
}

}  // namespace emblem
