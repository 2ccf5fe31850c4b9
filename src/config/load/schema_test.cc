// The schema against TorchEasyRec's: every message, field and enum value, and its own pipelines.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "config/load/load.h"
#include "config/load/schema_fields_test.h"
#include "config/proto/pipeline.pb.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

const google::protobuf::DescriptorPool& pool() {
  config::PipelineConfig::descriptor();  // registers all files that pipeline.proto imports
  return *google::protobuf::DescriptorPool::generated_pool();
}

std::string simple_type(const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return field.message_type()->name();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) return field.enum_type()->name();
  return field.type_name();
}

// "vocab_dict#8:map<string,uint64>"
std::string text_of(const FieldDescriptor& field) {
  std::string text = field.name() + "#" + std::to_string(field.number()) + ":";
  if (field.is_map()) {
    const Descriptor& entry = *field.message_type();
    return text + "map<" + simple_type(*entry.map_key()) + "," + simple_type(*entry.map_value()) +
           ">";
  }
  return text + simple_type(field) + (field.is_repeated() ? "*" : "");
}

struct Entry {
  std::string owner;
  std::vector<std::string> members;
};

std::vector<Entry> entries_of(const char* list) {
  std::vector<Entry> entries;
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    std::istringstream words(line);
    if (line[0] != ' ') words >> entries.emplace_back().owner;
    for (std::string word; words >> word;) entries.back().members.push_back(word);
  }
  return entries;
}

TEST(Schema, HasEveryMessageAndFieldOfTorchEasyRec) {
  size_t fields = 0;
  for (const Entry& entry : entries_of(kTorchEasyRecFields)) {
    const Descriptor* message = pool().FindMessageTypeByName("emblem.config." + entry.owner);
    ASSERT_NE(message, nullptr) << entry.owner;
    for (const std::string& expected : entry.members) {
      const FieldDescriptor* field =
          message->FindFieldByName(expected.substr(0, expected.find('#')));
      ASSERT_NE(field, nullptr) << entry.owner << "." << expected;
      EXPECT_EQ(text_of(*field), expected) << entry.owner;
      ++fields;
    }
  }
  EXPECT_GT(fields, 1000u);
}

TEST(Schema, HasEveryEnumValueOfTorchEasyRec) {
  for (const Entry& entry : entries_of(kTorchEasyRecEnums)) {
    const auto* type = pool().FindEnumTypeByName("emblem.config." + entry.owner);
    ASSERT_NE(type, nullptr) << entry.owner;
    for (const std::string& expected : entry.members) {
      const size_t equals = expected.find('=');
      const auto* value = type->FindValueByName(expected.substr(0, equals));
      ASSERT_NE(value, nullptr) << entry.owner << "." << expected;
      EXPECT_EQ(std::to_string(value->number()), expected.substr(equals + 1)) << expected;
    }
  }
}

// What is not TorchEasyRec's has a number from 1000 on, so that it can grow.
TEST(Schema, OwnFieldsHaveNumbersFrom1000) {
  for (const Entry& entry : entries_of(kTorchEasyRecFields)) {
    const Descriptor* message = pool().FindMessageTypeByName("emblem.config." + entry.owner);
    ASSERT_NE(message, nullptr);
    for (int i = 0; i < message->field_count(); ++i) {
      const std::string name = message->field(i)->name() + "#";
      const bool theirs =
          std::any_of(entry.members.begin(), entry.members.end(),
                      [&](const std::string& member) { return member.starts_with(name); });
      EXPECT_TRUE(theirs || message->field(i)->number() >= 1000) << entry.owner << "." << name;
    }
  }
}

TEST(Schema, ReadsThePipelinesOfTorchEasyRec) {
  const char* root = std::getenv("EMBLEM_TORCHEASYREC");
  if (root == nullptr) GTEST_SKIP() << "EMBLEM_TORCHEASYREC names no copy of TorchEasyRec";
  size_t read = 0;
  for (const char* folder : {"/tzrec/benchmark/configs", "/examples"}) {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(root + std::string(folder))) {
      if (file.path().extension() != ".config") continue;
      EXPECT_NO_THROW(load_pipeline(file.path().string())) << file.path();
      ++read;
    }
  }
  EXPECT_EQ(read, 32u);
}

TEST(Schema, ReadsVocabulariesAsMaps) {
  const config::PipelineConfig config = parse_pipeline(
      R"(feature_configs { id_feature { feature_name: "a" vocab_dict: [{key: "x" value: 2}, {key: "y" value: 3}] } }
         feature_configs { custom_feature { feature_name: "b" operator_params { fields { key: "k" value { number_value: 1 } } } } })",
      "test");
  EXPECT_EQ(config.feature_configs(0).id_feature().vocab_dict().at("y"), 3u);
  EXPECT_EQ(config.feature_configs(1).custom_feature().operator_params().fields_size(), 1);
}

TEST(Schema, WideDeepIsGroupType) {
  const config::PipelineConfig config = parse_pipeline(
      R"(model_config { feature_groups { group_name: "a" wide_deep: WIDE } })", "test");
  EXPECT_EQ(config.model_config().feature_groups(0).group_type(), config::WIDE);
  EXPECT_FALSE(config.model_config().feature_groups(0).has_wide_deep());
  try {
    parse_pipeline(
        R"(model_config { feature_groups { group_name: "a" wide_deep: WIDE group_type: DEEP } })",
        "test");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "test: feature group \"a\" has group_type DEEP and wide_deep WIDE, which mean the "
                 "same; keep group_type");
  }
}

}  // namespace
}  // namespace emblem
