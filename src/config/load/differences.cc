#include "config/load/differences.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>

#include "config/load/field_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

// `index` -1: the field is not repeated.
std::string list_text(const Message& message, const FieldDescriptor* field) {
  const int size = message.GetReflection()->FieldSize(message, field);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
    return cat(size, size == 1 ? " entry" : " entries");
  std::string text;
  for (int i = 0; i < size; ++i) text += (i == 0 ? "" : ", ") + value_text(message, *field, i);
  return "[" + text + "]";
}

class Comparison {
 public:
  explicit Comparison(std::span<const std::string_view> ignored) : ignored_(ignored) {}

  // `path` is for people, `plain` has no indexes.
  void compare(const Message& first, const Message& second, const std::string& path,
               const std::string& plain) {
    const auto* type = first.GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      const std::string name = plain.empty() ? field->name() : plain + "." + field->name();
      if (std::find(ignored_.begin(), ignored_.end(), name) != ignored_.end()) continue;
      const std::string shown = path.empty() ? field->name() : path + "." + field->name();
      if (field->is_repeated())
        compare_lists(first, second, field, shown, name);
      else if (const OneofDescriptor* choice = field->containing_oneof())
        compare_choice(first, second, field, choice, path, shown, name);
      else
        compare_field(first, second, field, shown, name);
    }
  }

  std::vector<FieldDifference> take() { return std::move(found_); }

 private:
  void compare_lists(const Message& first, const Message& second, const FieldDescriptor* field,
                     const std::string& path, const std::string& plain) {
    const auto* reflection = first.GetReflection();
    const int size = reflection->FieldSize(first, field);
    const bool messages = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!messages || size != reflection->FieldSize(second, field)) {
      add(path, list_text(first, field), list_text(second, field));
      return;
    }
    for (int i = 0; i < size; ++i) {
      compare(reflection->GetRepeatedMessage(first, field, i),
              reflection->GetRepeatedMessage(second, field, i), cat(path, "[", i, "]"), plain);
    }
  }

  // One of several fields is set: which one comes first, then what it holds.
  void compare_choice(const Message& first, const Message& second, const FieldDescriptor* field,
                      const OneofDescriptor* choice, const std::string& owner,
                      const std::string& path, const std::string& plain) {
    const auto* reflection = first.GetReflection();
    const auto chosen = [&](const Message& message) {
      const FieldDescriptor* set = reflection->GetOneofFieldDescriptor(message, choice);
      return set == nullptr ? kUnset : set->name();
    };
    if (chosen(first) == chosen(second)) {
      if (reflection->HasField(first, field)) compare_field(first, second, field, path, plain);
    } else if (field == choice->field(0)) {
      add(owner.empty() ? choice->name() : owner + "." + choice->name(), chosen(first),
          chosen(second));
    }
  }

  void compare_field(const Message& first, const Message& second, const FieldDescriptor* field,
                     const std::string& path, const std::string& plain) {
    const auto* reflection = first.GetReflection();
    const bool in_first = reflection->HasField(first, field),
               in_second = reflection->HasField(second, field);
    if (!in_first && !in_second) return;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (in_first != in_second) add(path, in_first ? "set" : kUnset, in_second ? "set" : kUnset);
      if (in_first && in_second)
        compare(reflection->GetMessage(first, field), reflection->GetMessage(second, field), path,
                plain);
      return;
    }
    add(path, value_or_unset(first, *field), value_or_unset(second, *field));
  }

  void add(std::string path, std::string first, std::string second) {
    if (first != second) found_.push_back({std::move(path), std::move(first), std::move(second)});
  }

  std::span<const std::string_view> ignored_;
  std::vector<FieldDifference> found_;
};

}  // namespace

std::vector<FieldDifference> differences(const Message& first, const Message& second,
                                         std::span<const std::string_view> ignored) {
  EMBLEM_REQUIRE(first.GetDescriptor() == second.GetDescriptor(),
                 "only messages of one type can be compared");
  Comparison comparison(ignored);
  comparison.compare(first, second, "", "");
  return comparison.take();
}

}  // namespace emblem
