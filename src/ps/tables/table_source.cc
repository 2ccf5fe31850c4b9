#include "ps/tables/table_source.h"

#include <algorithm>
#include <cctype>

#include "emblem/error.h"

namespace emblem {

std::string served_table_name(const std::string& model, const std::string& table) {
  const auto is_name = [](const std::string& name) {
    return !name.empty() && name.size() <= 120 &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
             return std::isalnum(c) || c == '_' || c == '-' || c == '.';
           });
  };
  EMBLEM_REQUIRE(is_name(model) && is_name(table), "\"", model, "\", \"", table,
                 "\": names of models and tables are 1 to 120 letters, digits, '_', '-' and '.'");
  return cat("hps_et.", model, ".", table);
}

}  // namespace emblem
