#include "config/load/field_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::vector<std::string> field_names(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

std::vector<std::string> value_names(const FieldDescriptor& field) {
  std::vector<std::string> names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i)
    names.push_back(field.enum_type()->value(i)->name());
  return names;
}

std::string question(const std::string& word, const std::vector<std::string>& names) {
  const auto nearest = nearest_name(word, names);
  return nearest ? cat("; did you mean \"", *nearest, "\"?") : "";
}

std::string expected(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return "a whole number from -2147483648 to 2147483647";
    case FieldDescriptor::CPPTYPE_UINT32:
      return "a whole number from 0 to 4294967295";
    case FieldDescriptor::CPPTYPE_INT64:
      return "a whole number of 64 bits";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number from 0 to 18446744073709551615";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text in quotes";
    case FieldDescriptor::CPPTYPE_ENUM:
      return cat("one of ", joined(value_names(field)));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "fields in braces { ... }";
  }
  return "another value";
}

}  // namespace

std::string no_such_field(const Descriptor& message, const std::string& owner,
                          const std::string& word) {
  const std::vector<std::string> names = field_names(message);
  std::string text = cat(owner.empty() ? "the pipeline" : owner, " has no field \"", word, "\"");
  const std::string hint = question(word, names);
  if (!hint.empty()) return text + hint;
  if (names.empty()) return text + "; it has no fields at all";
  return cat(text, "; its fields are ", joined(names));
}

std::string wrong_value(const FieldDescriptor& field, const std::string& owner,
                        const std::string& value) {
  std::string text = cat(owner.empty() ? "" : owner + ".", field.name(), " is ",
                         value.empty() ? "empty" : value, ", expected ", expected(field));
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM)
    text += question(value, value_names(field));
  return text;
}

std::string value_text(const google::protobuf::Message& message, const FieldDescriptor& field,
                       int index) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, index, &text);
  return text;
}

std::string value_or_unset(const google::protobuf::Message& message, const FieldDescriptor& field) {
  const bool has_value =
      field.has_default_value() || message.GetReflection()->HasField(message, &field);
  return has_value ? value_text(message, field) : kUnset;
}

}  // namespace emblem
