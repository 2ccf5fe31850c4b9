// ps/tables/table_source.h - a table of a model to load, and its name in databases.
#pragma once

#include <cstdint>
#include <string>

#include "embedding/parts.h"
#include "embedding/settings.h"

namespace emblem {

// A checkpoint's folder of the table, or a sparse model of HPS.
struct TableSource {
  std::string name;
  std::string folder;
  int64_t dim = 0;
  // What unknown keys read as: TableSettings::missing and seed, or a constant.
  Initializer missing = {Initializer::Kind::kConstant, 0.0f, 0.0f};
  uint64_t seed = 1;
  // What the files hold, as text that is equal for equal content: a database that has it already is
  // not filled again. Empty: the path, sizes and times of the files.
  std::string content = {};
  // Which of its rows are served here: those of a range of parts, or all.
  PartFilter filter = {};
};

// The name of a table in databases and of its topic in Kafka: hps_et.MODEL.TABLE. Throws
// kInvalidArgument for names that these could not hold.
std::string served_table_name(const std::string& model, const std::string& table);

}  // namespace emblem
