#include "init/column_wishes.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/text.h"
#include "data/format/decoder.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::vector<std::string> names_of(const DataProfile& profile) {
  std::vector<std::string> names;
  for (const ColumnProfile& column : profile.columns) names.push_back(column.name);
  return names;
}

std::string no_such_column(const DataProfile& profile, const std::string& name) {
  const std::vector<std::string> names = names_of(profile);
  const std::string problem = cat(profile.source.input, " has no column ", in_quotes(name));
  const bool is_number =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (is_number && profile.source.with_header)
    return cat(problem,
               "; numbers are for files without a header, but its first line is read as one: give "
               "the name, one of ",
               column_list(profile), " (or --no-header if that line is a row)");
  if (const auto near = nearest_name(name, names))
    return cat(problem, "; did you mean ", in_quotes(*near), "?");
  const bool is_numbered = names[0] == "column1" && !profile.source.with_header;
  if (is_numbered)
    return cat(problem, "; it has no header, and its columns are called column1 to ", names.back(),
               " (--header if its first line has the names; --names gives other names)");
  return cat(problem, "; its columns are ", column_list(profile));
}

}  // namespace

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool ColumnWishes::names(const std::string& column) const {
  return contains(categories, column) || contains(numbers, column);
}

std::string column_list(const DataProfile& profile) {
  std::string text;
  for (const std::string& name : names_of(profile)) {
    if (text.size() > 300) return text + ", ...";
    text += cat(text.empty() ? "" : ", ", in_quotes(name));
  }
  return text;
}

void check_wishes(const DataProfile& profile, const ColumnWishes& wishes) {
  const std::vector<std::string> names = names_of(profile);
  std::set<std::string> seen;
  const auto check = [&](const char* option, const std::string& name) {
    if (name.empty()) return;
    if (!contains(names, name))
      throw Error(ErrorCode::kInvalidArgument, cat(option, ": ", no_such_column(profile, name)));
    EMBLEM_REQUIRE(seen.insert(name).second, option, ": column ", in_quotes(name),
                   " is named by another option, or twice; name it once");
  };
  check("--label", wishes.label);
  check("--weight", wishes.weight);
  for (const std::string& name : wishes.categories) check("--categories", name);
  for (const std::string& name : wishes.numbers) check("--numbers", name);
  for (const std::string& name : wishes.skipped) check("--skip", name);
}

}  // namespace emblem
