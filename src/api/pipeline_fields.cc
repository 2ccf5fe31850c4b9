// Fields of a pipeline by their paths.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "api/pipeline.h"
#include "config/load/field_text.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// "feature_configs[2]"
struct PathStep {
  const FieldDescriptor* field;
  int index = -1;  // -1: none is given
};

PathStep step_on(const Message& message, const std::string& owner, const std::string& text) {
  const size_t open = text.find('[');
  const std::string name = text.substr(0, open);
  const Descriptor& descriptor = *message.GetDescriptor();
  PathStep step{descriptor.FindFieldByName(name)};
  if (step.field == nullptr)
    throw Error(ErrorCode::kInvalidArgument, no_such_field(descriptor, owner, name));
  if (open == std::string::npos) return step;
  EMBLEM_REQUIRE(text.ends_with(']') && step.field->is_repeated(), text,
                 step.field->is_repeated() ? " is not a field; expected NAME[INDEX]"
                                           : " is not a list; omit the index");
  const int count = message.GetReflection()->FieldSize(message, step.field);
  const std::string index = text.substr(open + 1, text.size() - open - 2);
  step.index = parse_number<int>(index).value_or(-1);
  EMBLEM_REQUIRE(step.index >= 0 && step.index < count, text, " does not exist: there ",
                 count == 1 ? "is " : "are ", count, " (counted from 0)");
  return step;
}

// The message that a step leads to; the default one where it is not set.
const Message& message_at(const Message& message, const PathStep& step, const std::string& text) {
  EMBLEM_REQUIRE(step.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE, text,
                 " is a plain value and has no fields of its own");
  EMBLEM_REQUIRE(step.field->is_repeated() == (step.index >= 0), text,
                 " is a list; add an index: ", text, "[0]");
  const auto* reflection = message.GetReflection();
  return step.index >= 0 ? reflection->GetRepeatedMessage(message, step.field, step.index)
                         : reflection->GetMessage(message, step.field);
}

const char* type_of(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "message";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "bool";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "choice";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "float";
    default:
      return "int";
  }
}

std::string value_of(const Message& message, const FieldDescriptor& field, int index) {
  const auto* reflection = message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING)
    return index >= 0 ? reflection->GetRepeatedString(message, &field, index)
                      : reflection->GetString(message, &field);
  return value_text(message, field, index);
}

Field to_field(const Message& message, const FieldDescriptor& field) {
  const auto* reflection = message.GetReflection();
  Field made{.name = field.name(), .type = type_of(field), .is_repeated = field.is_repeated()};
  if (field.is_repeated()) made.count = reflection->FieldSize(message, &field);
  made.is_set = field.is_repeated() ? made.count > 0 : reflection->HasField(message, &field);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM)
    for (int i = 0; i < field.enum_type()->value_count(); ++i)
      made.choices.push_back(field.enum_type()->value(i)->name());
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return made;
  if (!field.is_repeated()) made.values.push_back(value_of(message, field, -1));
  for (int i = 0; i < made.count; ++i) made.values.push_back(value_of(message, field, i));
  return made;
}

}  // namespace

std::vector<Field> Pipeline::fields(const std::string& path) const {
  const Message* message = &state_->config;
  std::string owner;
  if (!path.empty())
    for (const std::string& text : split(path, '.')) {
      const PathStep step = step_on(*message, owner, text);
      message = &message_at(*message, step, text);
      owner = step.field->name();
    }
  std::vector<Field> made;
  const Descriptor& descriptor = *message->GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i)
    made.push_back(to_field(*message, *descriptor.field(i)));
  return made;
}

void Pipeline::remove(const std::string& field) {
  Message* message = &state_->config;
  const std::vector<std::string> path = split(field, '.');
  std::string owner;
  for (size_t i = 0; i < path.size(); ++i) {
    const PathStep step = step_on(*message, owner, path[i]);
    const auto* reflection = message->GetReflection();
    if (i + 1 == path.size()) {
      state_->text.clear();
      if (step.index < 0) return reflection->ClearField(message, step.field);
      for (int at = step.index; at + 1 < reflection->FieldSize(*message, step.field); ++at)
        reflection->SwapElements(message, step.field, at, at + 1);
      return reflection->RemoveLast(message, step.field);
    }
    message_at(*message, step, path[i]);
    if (step.index < 0 && !reflection->HasField(*message, step.field)) return;
    message = step.index >= 0 ? reflection->MutableRepeatedMessage(message, step.field, step.index)
                              : reflection->MutableMessage(message, step.field);
    owner = step.field->name();
  }
}

}  // namespace emblem::api
