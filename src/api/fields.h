// api/fields.h - fields of configurations that callers of the library set by name.
#pragma once

#include <string>

namespace google::protobuf {
class Message;
}

namespace emblem {

// As apply_override (config/load/override.h), whose messages name an option of the program.
void set_field(const std::string& field, const std::string& value,
               google::protobuf::Message* message);

}  // namespace emblem
