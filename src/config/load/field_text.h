// config/load/field_text.h - what error messages say about the fields of a configuration message.
#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace emblem {

inline constexpr const char* kUnset = "unset";

// `train_config has no field "num_step"; did you mean "num_steps"?` - `owner` names the message.
std::string no_such_field(const google::protobuf::Descriptor& message, const std::string& owner,
                          const std::string& word);

// `data_config.shuffle is maybe, expected true or false` - for values of the wrong type or range
// and unknown names of enumerations.
std::string wrong_value(const google::protobuf::FieldDescriptor& field, const std::string& owner,
                        const std::string& value);

// A field as configuration files write it; value `index` of a repeated one, else -1.
std::string value_text(const google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field, int index = -1);
// The same, or "unset" where it is not set and the schema gives no default.
std::string value_or_unset(const google::protobuf::Message& message,
                           const google::protobuf::FieldDescriptor& field);

}  // namespace emblem
