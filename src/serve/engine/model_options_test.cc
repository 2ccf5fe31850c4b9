#include "serve/engine/model_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <functional>
#include <set>

#include "core/text/joined.h"
#include "serve/engine/without_effect.h"

namespace emblem {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// Takes x, gives y.
class DescribedServable final : public Servable {
 public:
  std::vector<TensorMetadata> inputs() const override { return {{"x", DataType::kFp32, {-1, 2}}}; }
  std::vector<TensorMetadata> outputs() const override { return {{"y", DataType::kFp32, {-1, 1}}}; }
  std::vector<std::pair<std::string, std::string>> parameters() const override {
    return {{"x", "width,height"}};
  }
  RequestSize check(const InferRequest& /*request*/) const override { return {}; }
  std::unique_ptr<Engine> make_engine() const override { return nullptr; }
};

constexpr char kConfig[] = R"(
    name: "m" backend: "emblem" max_batch_size: 16 version_policy { latest { num_versions: 2 } }
    input { name: "x" data_type: TYPE_FP32 dims: 2 }
    output { name: "y" data_type: TYPE_FP32 dims: 1 }
    instance_group { kind: KIND_CPU count: 2 }
    dynamic_batching { preferred_batch_size: 8 priority_levels: 2 default_priority_level: 1
      priority_queue_policy { key: 1 value { max_queue_size: 7 } } }
    parameters { key: "threads" value { string_value: "2" } })";

std::string policy_text(const QueuePolicy& policy) {
  return cat(static_cast<int>(policy.at_timeout), " ", policy.default_timeout.count(), " ",
             policy.allow_override, " ", policy.max_size, "; ");
}

std::string options_text(const ModelOptions& options) {
  const BatchOptions& batching = options.batching;
  std::string text =
      cat(options.instances, " instances ", options.threads, " threads ", options.has_slo, " gpu ",
          options.gpu.used, " ", name_of(options.gpu.precision), " ", options.gpu.cache_share, " ",
          options.gpu.max_rows, " batches ", batching.max_batch_rows, " ", batching.dynamic, " [",
          joined(batching.preferred), "] ", batching.max_delay.count(), " ",
          batching.slo_p99.count(), " ", batching.priority_levels, " ", batching.default_priority,
          " ", policy_text(batching.policy));
  for (const auto& [priority, policy] : batching.policies)
    text += cat(priority, ": ", policy_text(policy));
  return text;
}

// What becomes of a configuration, of a model with the versions 1 to 4.
std::string outcome(const inference::ModelConfig& config) {
  const DescribedServable servable;
  try {
    return cat(options_text(model_options(config, servable, "m/config.pbtxt")), "versions ",
               joined(choose_versions(config, {1, 2, 3, 4}, "m/config.pbtxt")), "; without effect ",
               joined(without_effect(config, servable)));
  } catch (const Error& error) {
    return cat("error: ", error.what());
  }
}

// ---- a walk through all fields ----

using FieldPath = std::vector<const FieldDescriptor*>;

// The message at the path, with those around it where they are not there yet. The first one of a
// list.
Message* message_at(Message* message, const FieldPath& path) {
  for (const FieldDescriptor* field : path) {
    const Reflection* r = message->GetReflection();
    if (!field->is_repeated())
      message = r->MutableMessage(message, field);
    else if (r->FieldSize(*message, field) == 0)
      message = r->AddMessage(message, field);
    else
      message = r->MutableRepeatedMessage(message, field, 0);
  }
  return message;
}

using Change = std::function<void(Message*)>;
template <class T>
using Setter = void (Reflection::*)(Message*, const FieldDescriptor*, T) const;

template <class T>
std::vector<Change> setters(const FieldDescriptor* field, const std::vector<T>& values,
                            Setter<T> set, Setter<T> append) {
  std::vector<Change> changes;
  for (const T value : values)
    changes.emplace_back([=](Message* message) {
      const auto give = field->is_repeated() ? append : set;
      (message->GetReflection()->*give)(message, field, value);
    });
  return changes;
}

// Instances of these kinds are on CPUs, as those of kConfig.
const std::set<std::string> kSameAsBase = {"inference.ModelInstanceGroup.KIND_AUTO",
                                           "inference.ModelInstanceGroup.KIND_MODEL"};

std::vector<Change> changes_of_field(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return setters<bool>(field, {true}, &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_INT32:
      return setters<int32_t>(field, {1, 2, 3}, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return setters<int64_t>(field, {1, 2, 3}, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return setters<uint32_t>(field, {1, 2, 3}, &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return setters<uint64_t>(field, {1, 2, 3}, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return setters<float>(field, {0.5f}, &Reflection::SetFloat, &Reflection::AddFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return setters<double>(field, {0.5}, &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<int> values;
      for (int i = 0; i < field->enum_type()->value_count(); ++i)
        if (!kSameAsBase.contains(field->enum_type()->value(i)->full_name()))
          values.push_back(field->enum_type()->value(i)->number());
      return setters<int>(field, values, &Reflection::SetEnumValue, &Reflection::AddEnumValue);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return {[=](Message* message) {
        const Reflection* r = message->GetReflection();
        field->is_repeated() ? r->AddString(message, field, "text")
                             : r->SetString(message, field, "text");
      }};
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return {};
}

class ConfigWalk {
 public:
  explicit ConfigWalk(const inference::ModelConfig& base) : base_(base), before_(outcome(base)) {}

  void through(const Descriptor& type, const FieldPath& path) {
    if (type.field_count() == 0) try_change(path, path.back(), [](Message* /*message*/) {});
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor* field = type.field(i);
      if (field->message_type() != nullptr) {
        FieldPath inner = path;
        inner.push_back(field);
        through(*field->message_type(), inner);
      }
      if (field->full_name() == "inference.ModelConfig.name") continue;  // model_server_test.cc
      for (const auto& change : changes_of_field(field)) try_change(path, field, change);
    }
  }

  int count() const { return count_; }
  const std::set<std::string>& silent() const { return silent_; }

 private:
  void try_change(const FieldPath& path, const FieldDescriptor* field, const Change& change) {
    inference::ModelConfig config = base_;
    change(message_at(&config, path));
    if (MessageDifferencer::Equals(config, base_)) return;
    ++count_;
    if (outcome(config) == before_) silent_.insert(field->full_name());
  }

  const inference::ModelConfig base_;
  const std::string before_;
  std::set<std::string> silent_;
  int count_ = 0;
};

inference::ModelConfig config_from(const std::string& text) {
  return parse_model_config(text, "m/config.pbtxt");
}

TEST(ModelOptions, EveryFieldIsUsedOrRefusedOrNamedAsWithoutEffect) {
  const inference::ModelConfig base = config_from(kConfig);
  ASSERT_THAT(outcome(base), testing::EndsWith("versions 3, 4; without effect "));
  ConfigWalk walk(base);
  walk.through(*base.GetDescriptor(), {});
  EXPECT_GT(walk.count(), 200);
  EXPECT_THAT(walk.silent(), IsEmpty());
}

TEST(ModelOptions, ChangesOfTensorsAreRefused) {
  const auto refusal = [](const std::string& more) { return outcome(config_from(kConfig + more)); };
  EXPECT_EQ(refusal("batch_input { target_name: 'x' }"),
            "error: m/config.pbtxt: batch_input is not supported");
  EXPECT_EQ(refusal("batch_output {}"), "error: m/config.pbtxt: batch_output is not supported");
  EXPECT_EQ(refusal("input { name: 'x' data_type: TYPE_FP32 dims: [1, 2] reshape { shape: 2 } }"),
            "error: m/config.pbtxt: input 'x': reshape is not supported");
  EXPECT_EQ(refusal("output { name: 'y' data_type: TYPE_FP32 dims: 1 reshape {} }"),
            "error: m/config.pbtxt: output 'y': reshape is not supported");
  EXPECT_EQ(refusal("input { name: 'x' data_type: TYPE_FP32 dims: 2 is_shape_tensor: true }"),
            "error: m/config.pbtxt: input 'x': is_shape_tensor is not supported");
  EXPECT_EQ(refusal("output { name: 'y' data_type: TYPE_FP32 dims: 1 label_filename: 'l.txt' }"),
            "error: m/config.pbtxt: output 'y': label_filename (classes are answered by number) is "
            "not supported");
}

TEST(ModelOptions, SettingsWithoutEffectAreNamed) {
  const DescribedServable servable;
  const auto of = [&](const std::string& text) {
    return without_effect(config_from(text), servable);
  };
  EXPECT_THAT(of(kConfig), IsEmpty());
  EXPECT_THAT(without_effect(default_model_config("m", servable), servable), IsEmpty());
  EXPECT_THAT(of("optimization { graph { level: 1 } } instance_group { name: 'a' profile: 'p' } "
                 "instance_group { name: 'b' gpus: [0, 1] } response_cache { enable: true }"),
              ElementsAre("instance_group.name", "instance_group.profile", "optimization",
                          "response_cache", "instance_group.gpus (kind is not KIND_GPU)"));
  EXPECT_THAT(of("instance_group { kind: KIND_GPU gpus: 1 }"),
              ElementsAre("instance_group.gpus (only GPU 0 is used)"));
  EXPECT_THAT(of("dynamic_batching {}"), ElementsAre("dynamic_batching (max_batch_size is 0)"));
}

TEST(ModelOptions, ParametersWithoutEffectAreNamed) {
  const DescribedServable servable;
  const auto of = [&](const std::string& key, const std::string& more = "") {
    inference::ModelConfig config = config_from("max_batch_size: 8 " + more);
    (*config.mutable_parameters())[key].set_string_value("1");
    return without_effect(config, servable);
  };
  for (const char* key : {"threads", "slo_p99_us", "precision", "x"})
    EXPECT_THAT(of(key), IsEmpty());
  EXPECT_THAT(of("slo_p99_ms"),
              ElementsAre("parameters[\"slo_p99_ms\"] (did you mean \"slo_p99_us\"?)"));
  EXPECT_THAT(of("note\n"), ElementsAre("parameters[\"note\\x0a\"]"));
  EXPECT_THAT(of(std::string(1000, 'a')),
              ElementsAre("parameters[\"" + std::string(80, 'a') + "\"]"));
  const std::string gpu = "instance_group { kind: KIND_GPU }", hps = "backend: 'hps'";
  for (const char* key : {"cache_bytes", "cache_policy", "cache_size_percentage", "gpucacheper",
                          "hit_rate_threshold"}) {
    EXPECT_THAT(of(key), ElementsAre(HasSubstr(key)));
    EXPECT_THAT(of(key, gpu), IsEmpty());
  }
  EXPECT_THAT(of("anything", hps), IsEmpty());  // hps_options() names them
}

TEST(ModelOptions, AWarningNamesAtMostTwentySettings) {
  inference::ModelConfig config = config_from("max_batch_size: 8");
  for (int i = 100; i < 125; ++i) (*config.mutable_parameters())[cat("p", i)];
  testing::internal::CaptureStderr();
  warn_of_settings_without_effect(config, DescribedServable(), "m/config.pbtxt");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("m/config.pbtxt: settings without effect: parameters[\"p100\"], "));
  EXPECT_THAT(log, HasSubstr("parameters[\"p119\"] and 5 more\n"));
}

}  // namespace
}  // namespace emblem
