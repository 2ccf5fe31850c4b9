#include "ps/tables/table_source.h"

#include "config/load/name.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

std::string served_table_name(const std::string& model, const std::string& table) {
  const auto check = [](const char* what, const std::string& name, size_t longest) {
    const std::string problem = name_problem(name, longest);
    EMBLEM_REQUIRE(problem.empty(), "the name of the ", what, " \"", printable(name), "\" ",
                   problem, "; expected up to ", longest,
                   " bytes without \"/\", \"\\\" and control characters");
  };
  check("model", model, kLongestName);
  check("table", table, kLongestTableName);
  return cat("hps_et.", model, ".", table);
}

}  // namespace emblem
