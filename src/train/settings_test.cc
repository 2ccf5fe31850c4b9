// Fields of the configuration change what a run gives, are warned about, or are refused: each is set to
// other values in pipelines that train. settings_test.h lists those that are not shown this way.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/checkpoint.h"
#include "config/check.h"
#include "config/load.h"
#include "config/parse_text.h"
#include "config/print.h"
#include "core/file.h"
#include "core/log.h"
#include "core/temp_folder_test.h"
#include "core/text.h"
#include "data/synth/pipeline_synth.h"
#include "emblem/error.h"
#include "train/settings_test.h"
#include "train/trainer.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMostAdded = 6;  // times that a message is added where a pipeline has none

std::string key_of(const FieldDescriptor& field) {
  std::string name = field.full_name();
  return name.substr(std::string("emblem.config.").size());
}

// Lines of a log that are warnings.
std::string warnings_in(const std::string& log) {
  std::string warnings;
  for (const std::string& line : split(log, '\n'))
    if (line.find("warning: ") != std::string::npos) warnings += line + "\n";
  return warnings;
}

// A run of a pipeline in a folder of its own: what it gives, as text that can be compared.
class Runs {
 public:
  std::string outcome(const config::PipelineConfig& raw) {
    const std::string model = folder_.path("model");
    fs::remove_all(model);
    testing::internal::CaptureStderr();
    std::string result;
    try {
      config::PipelineConfig config = parse_pipeline(to_text(raw), "test");
      check_pipeline(config);
      for (const std::string& warning : pipeline_warnings(config)) result += warning + "\n";
      const TrainSummary summary = train({}, config, {});
      result += cat(summary.steps, " steps, ", summary.evaluations, " evaluations, ",
                    static_cast<int>(summary.outcome), "\n");
      if (summary.evaluation) result += to_text(*summary.evaluation) + "\n";
      result += files_of(model);
    } catch (const Error& error) {
      result += cat("error: ", error.what());
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << raw.ShortDebugString();
    }
    return result + warnings_in(testing::internal::GetCapturedStderr());
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  // Names of files, and what the run has learned.
  static std::string files_of(const std::string& folder) {
    std::set<std::string> lines;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().lexically_relative(folder).string();
      if (!entry.is_regular_file() || name.find("events.out") != std::string::npos) continue;
      std::string line = name;
      if (name.ends_with(".safetensors") || name.find("/tables/") != std::string::npos) {
        const std::string content = read_text_file(entry.path().string());
        line += cat(" ", std::hash<std::string>()(content));
      } else if (name.ends_with(".jsonl")) {
        const std::string content = read_text_file(entry.path().string());
        line += cat(" ", std::count(content.begin(), content.end(), '\n'), " lines");
      }
      lines.insert(line);
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

  const TempFolder folder_;
};

// ---- other values of a field ----

template <typename T>
std::vector<T> others(T value, std::vector<T> tried) {
  tried.insert(tried.begin(), static_cast<T>(value + T(1)));
  std::erase(tried, value);
  return tried;
}

using Change = std::function<void(Message*)>;

std::vector<Change> changes_of(const Message& message, const FieldDescriptor* field) {
  const Reflection* r = message.GetReflection();
  std::vector<Change> changes;
  const auto add = [&](auto values, auto set, auto append) {
    for (const auto& value : values)
      changes.push_back([=](Message* m) {
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
      add(std::array<bool, 1>{one ? !r->GetBool(message, field) : true}, &Reflection::SetBool,
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
    case FieldDescriptor::CPPTYPE_STRING: {
      const auto set = [&](const std::string& value) {
        changes.push_back([=](Message* m) {
          if (field->is_repeated())
            m->GetReflection()->AddString(m, field, value);
          else
            m->GetReflection()->SetString(m, field, value);
        });
      };
      for (const char* value : kTexts) set(value);
      break;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  if (!one && r->FieldSize(message, field) > 0)
    changes.push_back([=](Message* m) { m->GetReflection()->RemoveLast(m, field); });
  return changes;
}

// ---- a walk through all messages ----

struct Seen {
  std::set<std::string> shown;           // fields
  std::set<const Descriptor*> refused;  // messages that are not supported
};

class Walk {
 public:
  explicit Walk(Seen* seen) : seen_(seen), shown_(&seen->shown) {}

  void through(const config::PipelineConfig& base) {
    root_ = base;
    visit(&root_, runs_.outcome(root_));
  }
  void through_model(const config::PipelineConfig& base) {
    root_ = base;
    visit(root_.mutable_model_config(), runs_.outcome(root_));
  }

  Runs& runs() { return runs_; }
  int64_t count() const { return count_; }

 private:
  bool has_unshown(const Descriptor& type) {
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (!shown_->contains(key_of(field))) return true;
      const Descriptor* inner = field.message_type();
      if (inner == nullptr || entered_.contains(inner)) continue;
      entered_.insert(inner);
      const bool unshown = has_unshown(*inner);
      entered_.erase(inner);
      if (unshown) return true;
    }
    return false;
  }

  bool try_change(const std::string& before) {
    ++count_;
    return runs_.outcome(root_) != before;
  }

  // `message` is part of root_, whose outcome is `before`.
  void visit(Message* message, const std::string& before) {
    const Descriptor* type = message->GetDescriptor();
    if (!has_unshown(*type)) return;
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      if (field->is_map() || kPlaces.contains(key_of(*field))) continue;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        visit_message(message, field, before);
      else if (!shown_->contains(key_of(*field)))
        visit_value(message, field, before);
    }
  }

  void visit_value(Message* message, const FieldDescriptor* field, const std::string& before) {
    const std::unique_ptr<Message> kept(message->New());
    kept->CopyFrom(*message);
    for (const Change& change : changes_of(*message, field)) {
      change(message);
      const bool differs = try_change(before);
      message->CopyFrom(*kept);
      if (!differs) continue;
      shown_->insert(key_of(*field));
      return;
    }
  }

  void visit_message(Message* message, const FieldDescriptor* field, const std::string& before) {
    const Reflection* r = message->GetReflection();
    if (field->is_repeated()) {
      const int size = r->FieldSize(*message, field);
      if (size == 0) return visit_added(message, field, before);
      for (int i = 0; i < size; ++i) visit(r->MutableRepeatedMessage(message, field, i), before);
      if (!shown_->contains(key_of(*field))) visit_added(message, field, before);
      return;
    }
    if (r->HasField(*message, field)) {
      shown_->insert(key_of(*field));
      visit(r->MutableMessage(message, field), before);
    } else {
      visit_added(message, field, before);
    }
  }

  // With the message that is not there yet.
  void visit_added(Message* message, const FieldDescriptor* field, const std::string& before) {
    const bool is_shown = shown_->contains(key_of(*field));
    if (is_shown && !has_unshown(*field->message_type())) return;
    if (seen_->refused.contains(field->message_type()) ||
        ++added_[field->message_type()] > kMostAdded)
      return;
    const std::unique_ptr<Message> kept(message->New());
    kept->CopyFrom(*message);
    const Reflection* r = message->GetReflection();
    Message* added = field->is_repeated() ? r->AddMessage(message, field)
                                          : r->MutableMessage(message, field);
    ++count_;
    const std::string now = runs_.outcome(root_);
    if (now != before) shown_->insert(key_of(*field));
    if (now.starts_with("error: ") && now.find("is not supported") != std::string::npos)
      seen_->refused.insert(field->message_type());
    else
      visit(added, now);
    message->CopyFrom(*kept);
  }

  Runs runs_;
  config::PipelineConfig root_;
  Seen* seen_;
  std::set<std::string>* shown_;
  std::set<const Descriptor*> entered_;
  std::map<const Descriptor*, int> added_;
  int64_t count_ = 0;
};

// All fields that a pipeline may have, without those inside of what is refused.
void collect(const Descriptor& type, const Seen& seen, std::set<std::string>* fields) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_map()) continue;
    const bool is_new = fields->insert(key_of(field)).second;
    const Descriptor* inner = field.message_type();
    if (is_new && inner != nullptr && !seen.refused.contains(inner)) collect(*inner, seen, fields);
  }
}

// "Message: field field"
std::set<std::string> fields_in(const char* list) {
  std::set<std::string> fields;
  for (const std::string& line : split(list, '\n')) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    for (const std::string& field : split(line.substr(colon + 2), ' '))
      fields.insert(line.substr(0, colon + 1).replace(colon, 1, ".") + field);
  }
  return fields;
}

TEST(Settings, EveryFieldMattersOrIsRefusedOrWarnedAbout) {
  // Thousands of checkpoints, each synced: in memory where that is possible.
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  Seen seen;
  const std::set<std::string> not_shown = fields_in(kNotShown);
  seen.shown = not_shown;
  for (const SettingsBase& base : settings_bases()) {
    Walk walk(&seen);
    const std::string data = walk.runs().path("data"), model = walk.runs().path("model");
    config::PipelineConfig raw;
    parse_text(base.text, {base.name, ""}, &raw);
    raw.set_train_input_path(data + "/train");
    raw.set_eval_input_path(data + "/test");
    raw.set_model_dir(model);
    config::PipelineConfig config = parse_pipeline(to_text(raw), base.name);
    check_pipeline(config);
    synthesize_for({}, config,
                   {.name = base.name, .out = data, .rows = 50, .test_rows = 32,
                    .divide_tables = 100});
    const std::string once = walk.runs().outcome(raw);
    ASSERT_EQ(once, walk.runs().outcome(raw)) << base.name;
    ASSERT_FALSE(once.starts_with("error")) << base.name << ": " << once;
    if (base.walks_all)
      walk.through(raw);
    else
      walk.through_model(raw);
    std::printf("%s: %ld runs, %zu fields\n", base.name.c_str(), static_cast<long>(walk.count()),
                seen.shown.size());
  }
  std::set<std::string> fields;
  collect(*config::PipelineConfig::descriptor(), seen, &fields);
  std::string silent;
  for (const std::string& field : fields)
    if (!seen.shown.contains(field) && !kPlaces.contains(field)) silent += field + "\n";
  EXPECT_EQ(silent, "") << "fields that no run, warning or error shows";
  for (const std::string& field : not_shown) EXPECT_TRUE(fields.contains(field)) << field;
}

}  // namespace
}  // namespace emblem
