#include "config/load/assets.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/math/checksum.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr const char* kFolder = "assets/";
constexpr size_t kDigits = 16;
constexpr size_t kLongestEnd = 100;  // bytes of the file's own name in that of the asset

const FieldDescriptor* set_field(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  return field != nullptr && message.GetReflection()->HasField(message, field) ? field : nullptr;
}

// `message` and all below it; `folder` is the asset_dir that holds for them.
using Visit = std::function<void(Message& message, const std::string& folder)>;

void for_each_message(Message& message, std::string folder, const Visit& visit) {
  const auto& reflection = *message.GetReflection();
  if (const FieldDescriptor* own = set_field(message, "asset_dir"))
    folder = reflection.GetString(message, own);
  visit(message, folder);
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i)
      for_each_message(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                            : *reflection.MutableMessage(&message, field),
                       folder, visit);
  }
}

// Replaces the paths of files by what `change` makes of them.
void change_paths(
    config::PipelineConfig& config,
    const std::function<std::string(const std::string& path, const std::string& folder)>& change) {
  for (config::FeatureConfig& feature : *config.mutable_feature_configs()) {
    for_each_message(feature, "", [&](Message& message, const std::string& folder) {
      const auto& reflection = *message.GetReflection();
      for (const char* name : {"vocab_file", "stop_char_file"}) {
        const FieldDescriptor* field = set_field(message, name);
        if (field == nullptr || reflection.GetString(message, field).empty()) continue;
        reflection.SetString(&message, field, change(reflection.GetString(message, field), folder));
      }
    });
  }
}

bool is_asset_name(const std::string& name) {
  const size_t begin = std::string_view(kFolder).size();
  return name.starts_with(kFolder) &&
         name.find_first_not_of("0123456789abcdef", begin) == begin + kDigits &&
         name[begin + kDigits] == '_' && file_name_problem(name.substr(begin)).empty();
}

// The same for the same content and file name; a copy of a copy keeps its name.
std::string name_of(const std::string& path, const std::string& content) {
  std::string end = fs::path(path).filename().string();
  if (is_asset_name(kFolder + end)) end = end.substr(kDigits + 1);
  if (end.size() > kLongestEnd) end = end.substr(end.size() - kLongestEnd);
  for (char& c : end)
    if (!file_name_problem({&c, 1}).empty() && c != '.') c = '_';
  return fmt::format("{}{:016x}_{}", kFolder, checksum_of(content), end);
}

}  // namespace

std::vector<Asset> take_assets(config::PipelineConfig* config) {
  std::vector<Asset> assets;
  change_paths(*config, [&](const std::string& file, const std::string& folder) {
    const std::string path = folder.empty() ? file : folder + "/" + file;
    std::string content = read_text_file(path);
    const std::string name = name_of(path, content);
    const bool is_new = std::none_of(assets.begin(), assets.end(),
                                     [&](const Asset& asset) { return asset.name == name; });
    if (is_new) assets.push_back({name, std::move(content)});
    return name;
  });
  for (config::FeatureConfig& feature : *config->mutable_feature_configs()) {
    for_each_message(feature, "", [](Message& message, const std::string&) {
      if (const FieldDescriptor* field = set_field(message, "asset_dir"))
        message.GetReflection()->ClearField(&message, field);
    });
  }
  return assets;
}

void require_own_assets(const std::string& folder, config::PipelineConfig config) {
  change_paths(config, [&](const std::string& path, const std::string& asset_dir) {
    const bool is_own = asset_dir.empty() && path.starts_with(folder + "/") &&
                        is_asset_name(path.substr(folder.size() + 1));
    EMBLEM_REQUIRE(is_own, "a feature names the file \"",
                   printable(asset_dir.empty() ? path : asset_dir + "/" + path),
                   "\", which is not one of the model's own; expected assets/HASH_NAME, as export "
                   "writes them");
    return path;
  });
}

void find_assets(const std::string& folder, config::PipelineConfig* config) {
  change_paths(*config, [&](const std::string& name, const std::string& asset_dir) {
    return asset_dir.empty() && is_asset_name(name) ? path_below(folder, name) : name;
  });
}

}  // namespace emblem
