#include "config/load/load.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string>

#include "config/check/semantics.h"
#include "config/load/assets.h"
#include "config/load/override.h"
#include "config/load/parse_text.h"
#include "config/load/run_names.h"
#include "config/proto/data.pb.h"
#include "core/files/file.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// What all runs of a pipeline may become, as few bytes of text stand for much.
constexpr size_t kMostNames = kLongestRun, kMostBytes = size_t{64} << 20;

bool has_braces(const std::string& text) { return text.find_first_of("{}") != std::string::npos; }

// Names that runs stand for, with what is copied for each.
class NameCount {
 public:
  void add(size_t names, size_t bytes_each) {
    if (names <= 1) return;
    names_ += names;
    bytes_ += names * bytes_each;
    EMBLEM_REQUIRE(names_ <= kMostNames, "runs of names like c{1..26} stand for ", names_,
                   " names, expected at most ", kMostNames, " in all");
    EMBLEM_REQUIRE(bytes_ <= kMostBytes, "runs of names like c{1..26} become ", bytes_,
                   " bytes, expected at most ", kMostBytes, " in all");
  }

 private:
  size_t names_ = 0, bytes_ = 0;
};

// What the i-th feature of a run has in one of its text fields.
class RunText {
 public:
  RunText(const std::string& text, const std::string& field, const std::string& run, size_t count)
      : texts_(expand_run(text)) {
    EMBLEM_REQUIRE(texts_.size() == count || !has_braces(text), "features \"", run, "\": ", field,
                   " \"", text, "\" stands for ", texts_.size(), " names, expected ", count,
                   ", one for each feature");
  }
  const std::string& at(size_t i) const { return texts_.size() == 1 ? texts_[0] : texts_[i]; }

 private:
  std::vector<std::string> texts_;
};

// The fields of features that name features, inputs and tables.
constexpr const char* kNames[] = {"feature_name", "embedding_name", "expression", "map",
                                  "key",          "nested_map",     "pkey",       "skey",
                                  "variables",    "query",          "title",      "document"};

// Sets the names of one feature of a run, whatever its kind.
class Run {
 public:
  explicit Run(const Message& feature)
      : run_(text_of(feature, "feature_name")), size_(expand_run(run_).size()) {
    for (const char* name : kNames) {
      const FieldDescriptor* field = feature.GetDescriptor()->FindFieldByName(name);
      if (field == nullptr) continue;
      const auto* reflection = feature.GetReflection();
      if (!field->is_repeated()) {
        if (reflection->HasField(feature, field))
          texts_.push_back(
              {field, -1, RunText(reflection->GetString(feature, field), name, run_, size_)});
        continue;
      }
      for (int i = 0; i < reflection->FieldSize(feature, field); ++i)
        texts_.push_back(
            {field, i,
             RunText(reflection->GetRepeatedString(feature, field, i), name, run_, size_)});
    }
  }

  size_t size() const { return size_; }
  void fill(Message* feature, size_t i) const {
    const auto* reflection = feature->GetReflection();
    for (const Text& text : texts_) {
      if (text.index < 0)
        reflection->SetString(feature, text.field, text.text.at(i));
      else
        reflection->SetRepeatedString(feature, text.field, text.index, text.text.at(i));
    }
  }

 private:
  struct Text {
    const FieldDescriptor* field;
    int index;  // -1: the field is not repeated
    RunText text;
  };

  static std::string text_of(const Message& feature, const char* name) {
    const FieldDescriptor* field = feature.GetDescriptor()->FindFieldByName(name);
    return field == nullptr ? "" : feature.GetReflection()->GetString(feature, field);
  }

  std::string run_;
  size_t size_;
  std::vector<Text> texts_;
};

void check_bucket_counts(const config::IdFeature& feature, size_t count) {
  if (feature.num_buckets_each_size() == 0) return;
  EMBLEM_REQUIRE(!feature.has_num_buckets(), "features \"", feature.feature_name(),
                 "\": num_buckets and num_buckets_each are both given; remove one of them");
  EMBLEM_REQUIRE(static_cast<size_t>(feature.num_buckets_each_size()) == count, "features \"",
                 feature.feature_name(), "\": num_buckets_each has ",
                 feature.num_buckets_each_size(), " numbers, expected ", count,
                 ", one for each feature");
}

void set_bucket_count(const config::IdFeature& source, size_t i, config::IdFeature* feature) {
  if (source.num_buckets_each_size() == 0) return;
  feature->set_num_buckets(source.num_buckets_each(static_cast<int>(i)));
  feature->clear_num_buckets_each();
}

// `Config` is FeatureConfig, or SeqFeatureConfig of a sequence_feature.
template <class Config>
void expand_features(google::protobuf::RepeatedPtrField<Config>* features, NameCount* count) {
  google::protobuf::RepeatedPtrField<Config> sources;
  sources.Swap(features);
  for (const Config& source : sources) {
    const FieldDescriptor* kind = Config::descriptor()->FindFieldByNumber(source.feature_case());
    if (kind == nullptr) {
      *features->Add() = source;
      continue;
    }
    const Run run(source.GetReflection()->GetMessage(source, kind));
    count->add(run.size(), source.ByteSizeLong());
    check_bucket_counts(source.id_feature(), run.size());
    for (size_t i = 0; i < run.size(); ++i) {
      Config* added = features->Add();
      *added = source;
      run.fill(added->GetReflection()->MutableMessage(added, kind), i);
      if (source.has_id_feature())
        set_bucket_count(source.id_feature(), i, added->mutable_id_feature());
    }
  }
}

void expand_sequence(config::FeatureConfig* feature, NameCount* count) {
  if (feature->has_sequence_feature())
    expand_features(feature->mutable_sequence_feature()->mutable_features(), count);
}

template <class Group>
void expand_group(Group* group, NameCount* count) {
  google::protobuf::RepeatedPtrField<std::string> sources;
  sources.Swap(group->mutable_feature_names());
  for (const std::string& source : sources) {
    std::vector<std::string> names = expand_run(source);
    count->add(names.size(), source.size());
    for (std::string& name : names) group->add_feature_names(std::move(name));
  }
}

void expand_input_fields(config::DataConfig* data) {
  google::protobuf::RepeatedPtrField<config::Field> sources;
  sources.Swap(data->mutable_input_fields());
  NameCount count;
  for (const config::Field& source : sources) {
    std::vector<std::string> names = expand_run(source.input_name());
    count.add(names.size(), source.ByteSizeLong());
    for (std::string& name : names) {
      config::Field* added = data->add_input_fields();
      *added = source;
      if (source.has_input_name()) added->set_input_name(std::move(name));
    }
  }
}

constexpr const char* kExpected =
    "expected INT, BIGINT, FLOAT, DOUBLE, STRING, ARRAY<TYPE> or MAP<TYPE,TYPE>";

// What is between the brackets of "NAME<...>".
std::optional<std::string> inside(const std::string& type, const std::string& name) {
  if (!type.starts_with(name + "<") || !type.ends_with(">")) return std::nullopt;
  return type.substr(name.size() + 1, type.size() - name.size() - 2);
}

// "ARRAY<BIGINT>" -> "ARRAY_INT64", the name of a FieldType.
std::string name_of(const std::string& type) {
  if (type == "INT") return "INT32";
  if (type == "BIGINT") return "INT64";
  if (const auto element = inside(type, "ARRAY")) return "ARRAY_" + name_of(*element);
  if (const auto entry = inside(type, "MAP")) {
    const size_t comma = entry->find(',');
    if (comma != std::string::npos)
      return "MAP_" + name_of(entry->substr(0, comma)) + "_" + name_of(entry->substr(comma + 1));
  }
  return type;
}

config::FieldType type_of(std::string text, const std::string& field) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  config::FieldType type;
  EMBLEM_REQUIRE(config::FieldType_Parse(name_of(text), &type),
                 "data_config.input_fields_str: type \"", printable(text), "\" of \"",
                 printable(field), "\" is unknown; ", kExpected);
  return type;
}

// Turns "name:TYPE;name:TYPE" into input_fields. Types are those of MaxCompute: INT, BIGINT, FLOAT,
// DOUBLE, STRING, ARRAY<...>, ARRAY<ARRAY<...>> and MAP<..., ...>. Throws Error.
void expand_input_fields_str(config::DataConfig* data) {
  if (!data->has_input_fields_str()) return;
  EMBLEM_REQUIRE(data->input_fields().empty(),
                 "data_config has both input_fields and input_fields_str; keep one of them");
  for (const std::string& item : split(data->input_fields_str(), ';')) {
    if (trim(item).empty()) continue;
    const size_t colon = item.find(':');
    EMBLEM_REQUIRE(colon != std::string::npos, "data_config.input_fields_str: \"", printable(item),
                   "\" has no type; write \"name:TYPE;name:TYPE\"");
    const std::string name(trim(std::string_view(item).substr(0, colon)));
    config::Field* field = data->add_input_fields();
    field->set_input_name(name);
    field->set_input_type(type_of(item.substr(colon + 1), name));
  }
  data->clear_input_fields_str();
}

// wide_deep is EasyRec's name of group_type.
void rename_wide_deep(PipelineConfig* config) {
  if (!config->has_model_config()) return;
  for (auto& group : *config->mutable_model_config()->mutable_feature_groups()) {
    if (!group.has_wide_deep()) continue;
    EMBLEM_REQUIRE(!group.has_group_type() || group.group_type() == group.wide_deep(),
                   "feature group \"", printable(group.group_name()), "\" has group_type ",
                   config::FeatureGroupType_Name(group.group_type()), " and wide_deep ",
                   config::FeatureGroupType_Name(group.wide_deep()),
                   ", which mean the same; keep group_type");
    group.set_group_type(group.wide_deep());
    group.clear_wide_deep();
  }
}

}  // namespace

std::vector<std::string> expand_run(const std::string& text) {
  if (!has_braces(text)) return {text};
  const size_t open = text.find('{'), dots = text.find("..", open), close = text.find('}');
  const auto require = [&](bool condition, const std::string& why) {
    EMBLEM_REQUIRE(condition, "\"", text, "\" is not a run of names: ", why,
                   "; write it like c{1..26}");
  };
  require(open != std::string::npos && dots != std::string::npos && close != std::string::npos &&
              dots < close,
          "its braces do not hold FIRST..LAST");
  const std::string first_digits = text.substr(open + 1, dots - open - 1);
  const auto first_given = parse_number<int64_t>(first_digits);
  const auto last_given = parse_number<int64_t>(text.substr(dots + 2, close - dots - 2));
  const std::string before = text.substr(0, open), after = text.substr(close + 1);
  const int64_t first = first_given.value_or(-1), last = last_given.value_or(-1);
  require(first >= 0 && last >= 0, "its braces do not hold two numbers");
  require(!has_braces(after), "it has more than one pair of braces");
  require(first <= last, cat("it counts down from ", first, " to ", last));
  require(last - first < kLongestRun, cat("it is longer than ", kLongestRun));
  require(static_cast<size_t>(last - first) * text.size() < kMostBytes,
          cat("its names have more than ", kMostBytes, " bytes"));

  const size_t width = first_digits.size() > 1 && first_digits[0] == '0' ? first_digits.size() : 1;
  std::vector<std::string> names;
  for (int64_t i = first; i <= last; ++i)
    names.push_back(fmt::format("{}{:0{}}{}", before, i, width, after));
  return names;
}

void expand_runs(config::PipelineConfig* config) {
  NameCount of_features;
  expand_features(config->mutable_feature_configs(), &of_features);
  for (config::FeatureConfig& feature : *config->mutable_feature_configs())
    expand_sequence(&feature, &of_features);
  if (config->has_model_config()) {
    for (auto& group : *config->mutable_model_config()->mutable_feature_groups()) {
      NameCount of_group;
      expand_group(&group, &of_group);
      for (auto& nested : *group.mutable_sequence_groups()) expand_group(&nested, &of_group);
    }
  }
  if (config->has_data_config()) expand_input_fields(config->mutable_data_config());
}

std::string to_text(const config::PipelineConfig& config) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  if (!printer.PrintToString(config, &text))
    throw Error(ErrorCode::kInternal, "cannot print a pipeline as text");
  return text;
}

std::string to_stored_text(config::PipelineConfig config) {
  record_semantics(&config);
  return to_text(config);
}

PipelineConfig load_pipeline(const std::string& path, std::span<const std::string> overrides) {
  PipelineConfig config = parse_pipeline(read_text_file(path), path, overrides);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  find_assets(folder.empty() ? "." : folder, &config);
  return config;
}

PipelineConfig parse_pipeline(const std::string& text, const std::string& name,
                              std::span<const std::string> overrides) {
  PipelineConfig config;
  parse_text(text, {name, ""}, &config);
  for (const std::string& assignment : overrides) apply_override(assignment, &config);
  try {
    rename_wide_deep(&config);
    if (config.has_data_config()) expand_input_fields_str(config.mutable_data_config());
    expand_runs(&config);
  } catch (const Error& error) {
    throw Error(error.code(), cat(name, ": ", error.what()));
  }
  return config;
}

PipelineConfig load_stored_pipeline(const std::string& folder,
                                    std::span<const std::string> overrides) {
  const std::string path = folder + "/pipeline.config";
  PipelineConfig config = load_pipeline(path);
  const uint32_t version =
      config.has_semantics_version() ? config.semantics_version() : kOldestSemantics;
  config = load_pipeline(path, overrides);
  EMBLEM_REQUIRE(!config.has_semantics_version() || config.semantics_version() == version, path,
                 " has semantics_version ", version, ", which cannot be changed to ",
                 config.semantics_version());
  config.set_semantics_version(version);
  return config;
}

}  // namespace emblem
