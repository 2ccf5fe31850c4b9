#include "api/fields.h"

#include "config/load/override.h"
#include "emblem/error.h"

namespace emblem {

void set_field(const std::string& field, const std::string& value,
               google::protobuf::Message* message) {
  const std::string assignment = cat(field, "=", value);
  try {
    apply_override(assignment, message);
  } catch (const Error& error) {
    const std::string what = error.what(), option = cat("--set ", assignment, ": ");
    throw Error(error.code(), what.starts_with(option) ? what.substr(option.size()) : what);
  }
}

}  // namespace emblem
