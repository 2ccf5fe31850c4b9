// cli/columnar_options.h - options of commands that write Parquet, ORC and Arrow IPC.
#pragma once

#include <string>

#include "cli/command.h"
#include "data/format/writer.h"

namespace emblem {

struct ColumnarArguments {
  std::string compression;
  std::string row_group_rows = "65536";
  bool no_dictionary = false;
};

void add_columnar_options(Command& command, ColumnarArguments& arguments);
ColumnarOptions columnar_options(const ColumnarArguments& arguments);

}  // namespace emblem
