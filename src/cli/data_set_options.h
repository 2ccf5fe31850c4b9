// cli/data_set_options.h - options of commands that write data sets.
#pragma once

#include <string>

#include "cli/command.h"
#include "data/format/writer.h"

namespace emblem {

struct DataSetArguments {
  std::string compression;
  std::string row_group_rows = "65536";
  bool no_dictionary = false;
  double bundle_gb = 0;
  bool columns = false, force = false;
};

void add_data_set_options(Command& command, DataSetArguments& arguments);
void set_writing(const DataSetArguments& arguments, WriterOptions& writing);

}  // namespace emblem
