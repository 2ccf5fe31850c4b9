#include "serve/repository/sent_model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "config/load/assets.h"
#include "config/load/load.h"
#include "config/load/run_names.h"
#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 10'000;
constexpr size_t kParsedPerByte = 96;
constexpr size_t kTextPerName = 48;  // a feature of a run of names, as a text of that size

// Nothing that leads out of the folder of a version: "1/tables/C1/emb_vector".
void check_path(const std::string& path) {
  const std::vector<std::string> parts = split(path, '/');
  const bool is_below = parts.size() >= 2 && version_of(parts[0]) > 0;
  EMBLEM_REQUIRE(is_below && inner_path_problem(path).empty(), "load: the path '",
                 printable(path.substr(0, 100)),
                 "' of a file is not valid; expected VERSION/FILE, e.g. 1/manifest.json");
}

// What a model reads lies in its own folder.
void check_files_of(const Repository& repository, const std::string& model) {
  for (const int64_t version : repository.versions(model)) {
    const std::string folder = repository.folder(model, version);
    if (!fs::exists(folder + "/pipeline.config")) continue;  // loading says what is missing
    require_own_assets(folder, load_stored_pipeline(folder));
  }
}

}  // namespace

size_t parsing_bytes(const std::map<std::string, std::string>& files) {
  size_t texts = 0;
  for (const auto& [path, bytes] : files) {
    if (path.ends_with(".safetensors")) {  // the length of its header comes first
      uint64_t header = 0;
      if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
      texts += std::min<uint64_t>(header, bytes.size());
    } else if (path.ends_with(".json") || path.ends_with(".config") ||
               path.find("/assets/") != std::string::npos) {
      texts += bytes.size();
      if (path.ends_with(".config")) texts += names_of_runs(bytes) * kTextPerName;
    }
  }
  return texts * kParsedPerByte;
}

SentModel::SentModel(const std::string& name, const std::map<std::string, std::string>& files) {
  EMBLEM_REQUIRE(files.size() <= kMostFiles, "load: the model has ", files.size(),
                 " files; expected at most ", kMostFiles);
  for (const auto& [path, bytes] : files) check_path(path);
  try {
    for (const auto& [path, bytes] : files) {
      const std::string file = path_below(folder_.path(), name + "/" + path, Links::kRefuse);
      fs::create_directories(fs::path(file).parent_path());
      FileWriter writer(file);
      writer.write(bytes);
      writer.finish();
    }
    repository_ = std::make_unique<Repository>(folder_.path());
    check_files_of(*repository_, name);
  } catch (const fs::filesystem_error& error) {  // a file where another needs a folder, say
    throw Error(ErrorCode::kInvalidArgument,
                cat("load: the model's files cannot be written: ", error.code().message()));
  }
}

}  // namespace emblem
