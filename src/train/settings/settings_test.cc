// Fields of the configuration change what a run gives, are warned about, or are refused: each is
// set to other values in pipelines that train. settings_elsewhere_test.h lists those that are shown
// by other tests.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "config/load/load.h"
#include "config/load/parse_text.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/text/text.h"
#include "data/synth/pipeline_synth.h"
#include "emblem/error.h"
#include "model/check/check.h"
#include "train/report/run_report.h"
#include "train/settings/settings_bases_test.h"
#include "train/settings/settings_elsewhere_test.h"
#include "train/settings/settings_walk_test.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

// Lines of a log that are warnings, but for those about data, which come once.
std::string warnings_in(const std::string& log) {
  std::string warnings;
  for (const std::string& line : split(log, '\n'))
    if (line.find("warning: ") != std::string::npos && line.find("/data/") == std::string::npos)
      warnings += line + "\n";
  return warnings;
}

// A pipeline in a folder of its own, with data for it.
class SettingsRuns {
 public:
  explicit SettingsRuns(const SettingsBase& base) {
    folder_.write("tokens.json", kSettingsTokens);
    parse_text(replaced(base.text, "FOLDER", folder_.path("")), {base.name, ""}, &raw_);
    raw_.set_train_input_path(folder_.path("data/train"));
    raw_.set_eval_input_path(folder_.path("data/test"));
    raw_.set_model_dir(folder_.path("model"));
    config::PipelineConfig config = parse_pipeline(to_text(raw_), base.name);
    check_pipeline(config);
    synthesize_for({}, config,
                   {.name = base.name,
                    .out = folder_.path("data"),
                    .rows = 50,
                    .test_rows = 32,
                    .divide_tables = 100});
    if (base.has_gaps) make_gaps(folder_.path("data/train"));
  }

  const config::PipelineConfig& pipeline() const { return raw_; }

  // What a run of the pipeline gives, as text that can be compared.
  std::string outcome(const config::PipelineConfig& raw) const {
    fs::remove_all(folder_.path("model"));
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
      result += files_of(folder_.path("model"));
    } catch (const Error& error) {
      result += cat("error: ", error.what());
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << raw.ShortDebugString();
    }
    return result + warnings_in(testing::internal::GetCapturedStderr());
  }

 private:
  static std::string replaced(std::string text, const std::string& word, const std::string& by) {
    for (size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, word.size(), by);
    return text;
  }

  // Labels come first and stay. One user has an id beyond every table, one count is not a number.
  static void make_gaps(const std::string& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::vector<std::string> lines = split(read_text_file(entry.path().string()), '\n');
      const std::vector<std::string> names = split(lines[0], ',');
      std::string changed = lines[0] + "\n";
      for (size_t row = 1; row < lines.size() && !lines[row].empty(); ++row) {
        std::vector<std::string> fields = fields_of(lines[row]);
        for (size_t i = 0; i < fields.size(); ++i) {
          if (i > 1 && (row * 5 + i * 3) % 7 == 0) fields[i].clear();
          if (names[i] == "count" && row == 5) fields[i] = "many";
          if (names[i] == "user" && row == 9) fields[i] = "1000";
          changed += (i == 0 ? "" : ",") + fields[i];
        }
        changed += "\n";
      }
      write_text_file_atomically(entry.path().string(), changed);
    }
  }

  // Fields with their quotes.
  static std::vector<std::string> fields_of(const std::string& line) {
    std::vector<std::string> fields(1);
    bool is_quoted = false;
    for (const char c : line) {
      if (c == '"') is_quoted = !is_quoted;
      if (c == ',' && !is_quoted)
        fields.emplace_back();
      else
        fields.back() += c;
    }
    return fields;
  }

  // Names of files, and what the run has learned.
  static std::string files_of(const std::string& folder) {
    std::set<std::string> lines;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().lexically_relative(folder).string();
      const std::string content = read_text_file(entry.path().string());
      if (name.find("events.out") != std::string::npos)
        lines.insert("events");
      else if (name.ends_with(".safetensors") || name.find("/tables/") != std::string::npos)
        lines.insert(cat(name, " ", std::hash<std::string>()(content)));
      else if (name.ends_with(".jsonl"))
        lines.insert(cat(name, " ", without_speed(content)));
      else
        lines.insert(name);
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }

  static std::string without_speed(std::string lines) {
    const std::string key = "\"samples_per_second\"";
    for (size_t at = 0; (at = lines.find(key, at)) != std::string::npos;)
      lines.erase(at, lines.find_first_of(",}", at) - at);
    return lines;
  }

  const TempFolder folder_;
  config::PipelineConfig raw_;
};

// All fields that a pipeline may have, without those inside of what is refused.
void collect(const Descriptor& type, const SettingsSeen& seen, std::set<const Descriptor*>* types,
             std::set<std::string>* fields) {
  if (seen.refused.contains(&type) || !types->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_map()) continue;
    if (seen.is_asked(field)) fields->insert(key_of(field));
    if (field.message_type() != nullptr) collect(*field.message_type(), seen, types, fields);
  }
}

// "Message: field field", without lines of reasons.
std::set<std::string> fields_in(const char* list) {
  std::set<std::string> fields;
  for (const std::string& line : split(list, '\n')) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    for (const std::string& field : split(line.substr(colon + 2), ' '))
      if (line[0] != '#') fields.insert(line.substr(0, colon) + "." + field);
  }
  return fields;
}

// Messages of some files of the schema, which a case is about.
struct SettingsPart {
  std::string name;
  std::set<std::string> files;  // without config/ and .proto; none: all that no other part has
};

const std::vector<SettingsPart>& settings_parts() {
  static const std::vector<SettingsPart> kParts = {
      {"data", {"pipeline", "data", "sampler", "eval"}},
      {"features", {"feature", "transform_feature", "embedding"}},
      {"training", {"train", "optimizer", "learning_rate"}},
      {"models", {}},
  };
  return kParts;
}

bool is_in(const SettingsPart& part, const FieldDescriptor& field) {
  const std::string file = fs::path(field.file()->name()).stem();
  if (!part.files.empty()) return part.files.contains(file);
  return std::none_of(settings_parts().begin(), settings_parts().end(),
                      [&](const SettingsPart& other) { return other.files.contains(file); });
}

class Settings : public testing::TestWithParam<SettingsPart> {};

TEST_P(Settings, OfAllFieldsMatterOrAreRefusedOrWarnedAbout) {
  // Thousands of checkpoints, each synced: in memory where that is possible.
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  SettingsSeen seen;
  const std::set<std::string> elsewhere = fields_in(kShownElsewhere);
  seen.shown = elsewhere;
  seen.is_asked = [](const FieldDescriptor& field) { return is_in(GetParam(), field); };
  for (const SettingsBase& base : settings_bases()) {
    const SettingsRuns runs(base);
    const std::string once = runs.outcome(runs.pipeline());
    ASSERT_EQ(once, runs.outcome(runs.pipeline())) << base.name;
    ASSERT_EQ(once.find("error: "), std::string::npos) << base.name << ": " << once;
    SettingsWalk walk(&seen,
                      [&](const config::PipelineConfig& config) { return runs.outcome(config); });
    walk.through(runs.pipeline(), base.parts);
    std::printf("%s: %ld runs, %zu fields\n", base.name.c_str(), static_cast<long>(walk.count()),
                seen.shown.size());
  }
  std::set<const Descriptor*> types;
  std::set<std::string> fields;
  collect(*config::PipelineConfig::descriptor(), seen, &types, &fields);
  std::string silent;
  for (const std::string& field : fields)
    if (!seen.shown.contains(field) && !kSettingsPlaces.contains(field)) silent += field + "\n";
  EXPECT_EQ(silent, "") << "fields that no run, warning or error shows";
}

INSTANTIATE_TEST_SUITE_P(Parts, Settings, testing::ValuesIn(settings_parts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace emblem
