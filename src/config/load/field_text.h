// config/load/field_text.h - what error messages say about the fields of a configuration message.
#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class Descriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace emblem {

// `train_config has no field "num_step"; did you mean "num_steps"?` - `owner` names the message.
std::string no_such_field(const google::protobuf::Descriptor& message, const std::string& owner,
                          const std::string& word);

// `data_config.shuffle is maybe, expected true or false` - for values of the wrong type or range
// and unknown names of enumerations.
std::string wrong_value(const google::protobuf::FieldDescriptor& field, const std::string& owner,
                        const std::string& value);

}  // namespace emblem
