#include "config/input_fields.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr const char* kExpected =
    "expected INT, BIGINT, FLOAT, DOUBLE, STRING, ARRAY<TYPE> or MAP<TYPE,TYPE>";

// What is between the brackets of "NAME<...>".
std::optional<std::string> inside(const std::string& type, const std::string& name) {
  if (!type.starts_with(name + "<") || !type.ends_with(">")) return std::nullopt;
  return type.substr(name.size() + 1, type.size() - name.size() - 2);
}

// "ARRAY<BIGINT>" -> "ARRAY_INT64", the name of a FieldType.
std::string name_of(const std::string& type) {
  if (type == "INT") return "INT32";
  if (type == "BIGINT") return "INT64";
  if (const auto element = inside(type, "ARRAY")) return "ARRAY_" + name_of(*element);
  if (const auto entry = inside(type, "MAP")) {
    const size_t comma = entry->find(',');
    if (comma != std::string::npos)
      return "MAP_" + name_of(entry->substr(0, comma)) + "_" + name_of(entry->substr(comma + 1));
  }
  return type;
}

config::FieldType type_of(std::string text, const std::string& field) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  config::FieldType type;
  EMBLEM_REQUIRE(config::FieldType_Parse(name_of(text), &type),
                 "data_config.input_fields_str: type \"", printable(text), "\" of \"",
                 printable(field), "\" is unknown; ", kExpected);
  return type;
}

}  // namespace

void expand_input_fields_str(config::DataConfig* data) {
  if (!data->has_input_fields_str()) return;
  EMBLEM_REQUIRE(data->input_fields().empty(),
                 "data_config has both input_fields and input_fields_str; keep one of them");
  for (const std::string& item : split(data->input_fields_str(), ';')) {
    if (trim(item).empty()) continue;
    const size_t colon = item.find(':');
    EMBLEM_REQUIRE(colon != std::string::npos, "data_config.input_fields_str: \"", printable(item),
                   "\" has no type; write \"name:TYPE;name:TYPE\"");
    const std::string name(trim(std::string_view(item).substr(0, colon)));
    config::Field* field = data->add_input_fields();
    field->set_input_name(name);
    field->set_input_type(type_of(item.substr(colon + 1), name));
  }
  data->clear_input_fields_str();
}

}  // namespace emblem
