#include "config/load/override.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <optional>
#include <string_view>
#include <vector>

#include "config/load/field_text.h"
#include "config/load/parse_text.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Step {
  std::string name;
  std::string index;  // between [ ]; "" when there is none
};

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInvalidArgument, what); }

Step step_of(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos) return {std::string(trim(text)), ""};
  EMBLEM_REQUIRE(text.ends_with(']') && open + 2 < text.size(), "\"", text,
                 "\" is not a field; expected NAME, NAME[INDEX] or NAME[+]");
  return {std::string(trim(text.substr(0, open))),
          std::string(text.substr(open + 1, text.size() - open - 2))};
}

bool is_quoted(std::string_view value) {
  return value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
         value.back() == value.front();
}

bool is_between(std::string_view value, char open, char close) {
  return value.size() >= 2 && value.front() == open && value.back() == close;
}

// Splits "a, {b: 1, c: 2}, 'd,e'" at the commas that no brace or quote encloses.
std::vector<std::string> elements_of(std::string_view list) {
  std::vector<std::string> elements;
  std::string element;
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (quote != 0 && c == '\\' && i + 1 < list.size()) {
      element += c;
      element += list[++i];
      continue;
    }
    if (quote != 0)
      quote = c == quote ? 0 : quote;
    else if (c == '"' || c == '\'')
      quote = c;
    else if (c == '{' || c == '[')
      ++depth;
    else if (c == '}' || c == ']')
      --depth;
    if (c == ',' && depth == 0 && quote == 0)
      elements.push_back(std::exchange(element, ""));
    else
      element += c;
  }
  if (!trim(element).empty() || !elements.empty()) elements.push_back(element);
  for (std::string& each : elements) each = std::string(trim(each));
  return elements;
}

// Protobuf continues after errors such as an unknown escape and reports success.
class ErrorFlag : public google::protobuf::io::ErrorCollector {
 public:
  bool is_set() const { return set_; }

 private:
  void AddError(int, int, const std::string&) override { set_ = true; }
  bool set_ = false;
};

// Quoted text as protobuf reads it: it does not accept line breaks between the quotes.
std::string with_escaped_line_breaks(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\n')
      escaped += "\\n";
    else
      escaped += c;
  }
  return escaped;
}

// Sets a field of `parent`, or adds to it when it is repeated.
void put(Message* parent, const FieldDescriptor& field, const std::string& owner,
         const std::string& value) {
  const auto* reflection = parent->GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    if (!is_between(value, '{', '}')) fail(wrong_value(field, owner, value));
    Message* child = field.is_repeated() ? reflection->AddMessage(parent, &field)
                                         : reflection->MutableMessage(parent, &field);
    parse_text(value.substr(1, value.size() - 2), {"value", field.name()}, child);
    return;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !is_quoted(value)) {
    if (field.is_repeated())
      reflection->AddString(parent, &field, value);
    else
      reflection->SetString(parent, &field, value);
    return;
  }
  ErrorFlag error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (!parser.ParseFieldValueFromString(is_text ? with_escaped_line_breaks(value) : value, &field,
                                        parent) ||
      error.is_set())
    fail(wrong_value(field, owner, value));
}

// The position of `step` in a repeated field; [+] makes a new last one.
int index_of(Message* parent, const FieldDescriptor& field, const Step& step) {
  const int count = parent->GetReflection()->FieldSize(*parent, &field);
  const int index = parse_number<int>(step.index).value_or(-1);
  EMBLEM_REQUIRE(index >= 0, step.name, "[", step.index,
                 "] has no valid index; expected a number from 0 on, or [+] to add one");
  EMBLEM_REQUIRE(index < count, step.name, "[", step.index, "] does not exist: there ",
                 count == 1 ? "is " : "are ", count, " (counted from 0); use ", step.name,
                 "[+] to add one");
  return index;
}

Message* enter(Message* parent, const FieldDescriptor& field, const Step& step) {
  const auto* reflection = parent->GetReflection();
  EMBLEM_REQUIRE(field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE, step.name,
                 " is a plain value and has no fields of its own");
  EMBLEM_REQUIRE(field.is_repeated() != step.index.empty(), step.name,
                 field.is_repeated() ? " is a list; add an index: " : " is not a list; write ",
                 step.name, field.is_repeated() ? "[0], or [+] to add one" : " without an index");
  if (!field.is_repeated()) return reflection->MutableMessage(parent, &field);
  if (step.index == "+") return reflection->AddMessage(parent, &field);
  return reflection->MutableRepeatedMessage(parent, &field, index_of(parent, field, step));
}

void assign(Message* parent, const FieldDescriptor& field, const Step& step,
            const std::string& owner, const std::string& value) {
  const auto* reflection = parent->GetReflection();
  if (!field.is_repeated()) {
    EMBLEM_REQUIRE(step.index.empty(), step.name, " is not a list; write ", step.name,
                   " without an index");
    reflection->ClearField(parent, &field);
    put(parent, field, owner, value);
  } else if (step.index == "+") {
    put(parent, field, owner, value);
  } else if (!step.index.empty()) {
    const int index = index_of(parent, field, step);
    put(parent, field, owner, value);
    reflection->SwapElements(parent, &field, index, reflection->FieldSize(*parent, &field) - 1);
    reflection->RemoveLast(parent, &field);
  } else {
    reflection->ClearField(parent, &field);
    const bool is_list = is_between(value, '[', ']');
    const auto elements = is_list ? elements_of(std::string_view(value).substr(1, value.size() - 2))
                                  : std::vector<std::string>{value};
    for (const std::string& element : elements) put(parent, field, owner, element);
  }
}

void apply(const std::string& path, const std::string& value, Message* message) {
  const std::vector<std::string> steps = split(path, '.');
  std::string owner;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step step = step_of(steps[i]);
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(step.name);
    if (field == nullptr) fail(no_such_field(*message->GetDescriptor(), owner, step.name));
    if (i + 1 == steps.size()) {
      assign(message, *field, step, owner, value);
      return;
    }
    message = enter(message, *field, step);
    owner = step.name;
  }
}

// ---- placeholders ----

bool is_placeholder(std::string_view path) { return is_between(path, '{', '}'); }

std::string replaced(std::string text, const std::string& placeholder, const std::string& value) {
  for (size_t at = text.find(placeholder); at != std::string::npos;
       at = text.find(placeholder, at + value.size()))
    text.replace(at, placeholder.size(), value);
  return text;
}

void replace_in(const std::string& placeholder, const std::string& value, Message* message) {
  const auto* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 0;
    if (is_text && !field->is_repeated())
      reflection->SetString(message, field,
                            replaced(reflection->GetString(*message, field), placeholder, value));
    else if (is_message && !field->is_repeated())
      replace_in(placeholder, value, reflection->MutableMessage(message, field));
    for (int i = 0; i < count; ++i) {
      if (is_text)
        reflection->SetRepeatedString(
            message, field, i,
            replaced(reflection->GetRepeatedString(*message, field, i), placeholder, value));
      else if (is_message && !field->is_map())
        replace_in(placeholder, value, reflection->MutableRepeatedMessage(message, field, i));
    }
  }
}

}  // namespace

void apply_override(const std::string& assignment, Message* message) {
  const size_t equals = assignment.find('=');
  EMBLEM_REQUIRE(equals != std::string::npos && equals > 0, "--set ", assignment,
                 ": expected PATH=VALUE, such as train_config.seed=7");
  const std::string path(trim(std::string_view(assignment).substr(0, equals)));
  const std::string value(trim(std::string_view(assignment).substr(equals + 1)));
  if (is_placeholder(path)) return replace_in(path, value, message);
  try {
    apply(path, value, message);
  } catch (const Error& error) {
    throw Error(error.code(), cat("--set ", assignment, ": ", error.what()));
  }
}

}  // namespace emblem
