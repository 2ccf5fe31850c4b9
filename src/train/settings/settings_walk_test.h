// train/settings/settings_walk_test.h - other values for every field of a pipeline, one at a time,
// for settings_test.cc.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "train/settings/settings_values_test.h"

namespace emblem {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;

// "DataConfig.filters"
inline std::string key_of(const FieldDescriptor& field) {
  return field.full_name().substr(std::string("emblem.config.").size());
}

// ---- other values of a field ----

using Change = std::function<void(google::protobuf::Message*)>;

template <typename T>
std::vector<T> others(T value, std::vector<T> tried) {
  tried.insert(tried.begin(), static_cast<T>(value + T(1)));
  std::erase(tried, value);
  return tried;
}

inline void merge_text(const std::string& text, google::protobuf::Message* message) {
  google::protobuf::TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  if (!parser.MergeFromString(text, message))
    ADD_FAILURE() << message->GetDescriptor()->name() << " cannot be " << text;
}

inline std::vector<Change> changes_of(const google::protobuf::Message& message,
                                      const FieldDescriptor* field) {
  const Reflection* r = message.GetReflection();
  std::vector<Change> changes;
  for (const auto& [key, text] : kSettingsValues)
    if (key == key_of(*field) || key == "*." + field->name())
      changes.push_back([=, value = std::string(text)](google::protobuf::Message* m) {
        m->GetReflection()->ClearField(m, field);
        merge_text(field->name() + ": " + value, m);
      });
  const auto add = [&](auto values, auto set, auto append) {
    for (const auto& value : values)
      changes.push_back([=](google::protobuf::Message* m) {
        const Reflection* reflection = m->GetReflection();
        if (field->is_repeated())
          (reflection->*append)(m, field, value);
        else
          (reflection->*set)(m, field, value);
      });
  };
  const bool one = !field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      add(std::array<bool, 2>{!one || !r->GetBool(message, field), false}, &Reflection::SetBool,
          &Reflection::AddBool);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      add(others<int32_t>(one ? r->GetInt32(message, field) : 0, {1, 2, 3, 8, 0, -5}),
          &Reflection::SetInt32, &Reflection::AddInt32);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      add(others<int64_t>(one ? r->GetInt64(message, field) : 0, {1, 2, 3, 8, 0, -5}),
          &Reflection::SetInt64, &Reflection::AddInt64);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      add(others<uint32_t>(one ? r->GetUInt32(message, field) : 0, {1, 2, 3, 8, 0, 1000000007}),
          &Reflection::SetUInt32, &Reflection::AddUInt32);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      add(others<uint64_t>(one ? r->GetUInt64(message, field) : 0, {1, 2, 3, 8, 0}),
          &Reflection::SetUInt64, &Reflection::AddUInt64);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      add(others<float>(one ? r->GetFloat(message, field) : 0, {0.5f, 0.25f, 1e-3f, 0, -1, 1e6f}),
          &Reflection::SetFloat, &Reflection::AddFloat);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      add(others<double>(one ? r->GetDouble(message, field) : 0, {0.5, 0.25, 1e-3, 0, -1, 1e6}),
          &Reflection::SetDouble, &Reflection::AddDouble);
      break;
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<const google::protobuf::EnumValueDescriptor*> values;
      for (int i = 0; i < field->enum_type()->value_count(); ++i)
        values.push_back(field->enum_type()->value(i));
      add(values, &Reflection::SetEnum, &Reflection::AddEnum);
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      for (const char* value : kSettingsTexts)
        changes.push_back([=, text = std::string(value)](google::protobuf::Message* m) {
          if (field->is_repeated())
            m->GetReflection()->AddString(m, field, text);
          else
            m->GetReflection()->SetString(m, field, text);
        });
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  if (!one && r->FieldSize(message, field) > 0)
    changes.push_back(
        [=](google::protobuf::Message* m) { m->GetReflection()->RemoveLast(m, field); });
  return changes;
}

// ---- a walk through all messages ----

struct SettingsSeen {
  std::set<std::string> shown;                           // fields
  std::set<const Descriptor*> refused;                   // messages that are not supported
  std::function<bool(const FieldDescriptor&)> is_asked;  // about other fields nothing is found out
};

// Sets fields of a pipeline that have not been shown yet. A field is shown when a value that is not
// refused has another outcome than before, or when all others are refused; a message, also when a
// field of it is shown inside of it.
class SettingsWalk {
 public:
  using Outcome = std::function<std::string(const config::PipelineConfig&)>;

  SettingsWalk(SettingsSeen* seen, Outcome outcome)
      : seen_(seen), shown_(&seen->shown), outcome_(std::move(outcome)) {}

  // `parts` are fields of PipelineConfig.
  void through(const config::PipelineConfig& base, const std::vector<std::string>& parts) {
    root_ = base;
    const std::string before = outcome_(root_);
    for (const std::string& part : parts)
      visit_field(&root_, root_.GetDescriptor()->FindFieldByName(part), before);
  }

  int64_t count() const { return count_; }

 private:
  static constexpr int kMostAdded = 6;  // times that fields are tried in a message that is added
  static constexpr int kDeepest = 2;    // messages inside of a message that is to be shown

  bool is_open(const FieldDescriptor& field) const {
    return seen_->is_asked(field) && !shown_->contains(key_of(field));
  }

  static bool fails(const std::string& outcome) {
    return outcome.find("error: ") != std::string::npos;
  }

  static bool is_unsupported(const std::string& outcome) {
    return fails(outcome) && outcome.find("is not supported") != std::string::npos;
  }

  bool has_open(const Descriptor& type) {
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (is_open(field)) return true;
      const Descriptor* inner = field.message_type();
      if (inner == nullptr || field.is_map() || !entered_.insert(inner).second) continue;
      const bool open = has_open(*inner);
      entered_.erase(inner);
      if (open) return true;
    }
    return false;
  }

  std::string run() {
    ++count_;
    return outcome_(root_);
  }

  // `message` is part of root_, whose outcome is `before`.
  void visit(google::protobuf::Message* message, const std::string& before) {
    const Descriptor* type = message->GetDescriptor();
    if (!has_open(*type)) return;
    for (int i = 0; i < type->field_count(); ++i) visit_field(message, type->field(i), before);
  }

  void visit_field(google::protobuf::Message* message, const FieldDescriptor* field,
                   const std::string& before) {
    if (field->is_map()) return;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
      visit_message(message, field, before);
    else if (is_open(*field) && value_matters(message, field, before))
      shown_->insert(key_of(*field));
  }

  bool value_matters(google::protobuf::Message* message, const FieldDescriptor* field,
                     const std::string& before) {
    const std::unique_ptr<google::protobuf::Message> kept(message->New());
    kept->CopyFrom(*message);
    bool is_taken = false, is_refused = false;  // another value, without a change
    for (const Change& change : changes_of(*message, field)) {
      change(message);
      // Also a default that is given explicitly.
      const bool is_other = !MessageDifferencer::Equivalent(*message, *kept);
      const std::string now = MessageDifferencer::Equals(*message, *kept) ? before : run();
      message->CopyFrom(*kept);
      if (now != before && (!fails(now) || is_unsupported(now))) return true;
      if (is_other) (now == before ? is_taken : is_refused) = true;
    }
    return is_refused && !is_taken;
  }

  // Whether anything inside of `message` does.
  bool inner_matters(google::protobuf::Message* message, const std::string& before, int depth) {
    const Descriptor* type = message->GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      if (field->is_map()) continue;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
              ? depth < kDeepest && added_matters(message, field, before, depth + 1)
              : value_matters(message, field, before))
        return true;
    }
    return false;
  }

  bool added_matters(google::protobuf::Message* message, const FieldDescriptor* field,
                     const std::string& before, int depth) {
    const std::unique_ptr<google::protobuf::Message> kept(message->New());
    kept->CopyFrom(*message);
    google::protobuf::Message* added = add(message, field);
    const std::string now = run();
    const bool matters = now != before || inner_matters(added, now, depth);
    message->CopyFrom(*kept);
    return matters;
  }

  static google::protobuf::Message* add(google::protobuf::Message* message,
                                        const FieldDescriptor* field) {
    const Reflection* r = message->GetReflection();
    google::protobuf::Message* added =
        field->is_repeated() ? r->AddMessage(message, field) : r->MutableMessage(message, field);
    for (const auto& [type, text] : kSettingsStarts)
      if (added->GetDescriptor()->name() == type) merge_text(text, added);
    return added;
  }

  void visit_message(google::protobuf::Message* message, const FieldDescriptor* field,
                     const std::string& before) {
    const Reflection* r = message->GetReflection();
    const bool is_there =
        field->is_repeated() ? r->FieldSize(*message, field) > 0 : r->HasField(*message, field);
    if (!is_there) return visit_added(message, field, before);
    if (field->is_repeated()) {
      for (int i = 0; i < r->FieldSize(*message, field); ++i)
        visit(r->MutableRepeatedMessage(message, field, i), before);
      if (is_open(*field)) visit_added(message, field, before);
      return;
    }
    if (is_open(*field)) {
      const std::unique_ptr<google::protobuf::Message> kept(message->New());
      kept->CopyFrom(*message);
      r->ClearField(message, field);
      bool matters = run() != before;
      message->CopyFrom(*kept);
      if (!matters) matters = inner_matters(r->MutableMessage(message, field), before, 0);
      if (matters) shown_->insert(key_of(*field));
    }
    visit(r->MutableMessage(message, field), before);
  }

  // Visits with the message that is not there yet.
  void visit_added(google::protobuf::Message* message, const FieldDescriptor* field,
                   const std::string& before) {
    const Descriptor* type = field->message_type();
    const bool walks =
        !seen_->refused.contains(type) && has_open(*type) && added_[type] < kMostAdded;
    if (!is_open(*field) && !walks) return;
    const std::unique_ptr<google::protobuf::Message> kept(message->New());
    kept->CopyFrom(*message);
    google::protobuf::Message* added = add(message, field);
    const std::string now = run();
    const bool differs = now != before;
    if (is_unsupported(now)) seen_->refused.insert(type);
    if (walks && !fails(now) && ++added_[type] <= kMostAdded) visit(added, now);
    if (is_open(*field) && (differs || inner_matters(added, now, 0)))
      shown_->insert(key_of(*field));
    message->CopyFrom(*kept);
  }

  SettingsSeen* seen_;
  std::set<std::string>* shown_;
  Outcome outcome_;
  config::PipelineConfig root_;
  std::set<const Descriptor*> entered_;
  std::map<const Descriptor*, int> added_;
  int64_t count_ = 0;
};

}  // namespace emblem
