#include "serve/repository/repository.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "checkpoint/names.h"
#include "config/load/name.h"
#include "core/files/inner_path.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error)) names.push_back(entry->path().filename().string());
  }
  if (error)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot read the folder ", path, ": ", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

namespace fs = std::filesystem;

FolderKind folder_kind(const std::string& path) {
  std::error_code error;
  const fs::path folder(path);
  if (!fs::is_directory(folder, error)) return FolderKind::kOther;
  if (fs::exists(folder / "manifest.json", error)) return FolderKind::kCheckpoint;
  if (fs::exists(folder / "config.pbtxt", error)) return FolderKind::kModel;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!fs::exists(entry->path() / "manifest.json", error)) continue;
    const auto checkpoint = parse_checkpoint_name(name);
    if (checkpoint && checkpoint->state == CheckpointState::kFinished) return FolderKind::kModelDir;
    if (version_of(name) >= 0) return FolderKind::kModel;
  }
  if (error) return FolderKind::kOther;
  return Repository(path).models().empty() ? FolderKind::kOther : FolderKind::kRepository;
}

std::string no_models_text(const std::string& path) {
  switch (folder_kind(path)) {
    case FolderKind::kModel:
      return cat("no models in ", path, ": it is the folder of one model; serve its parent folder");
    case FolderKind::kCheckpoint:
      return cat("no models in ", path,
                 ": it is a checkpoint or a version of a model; serve the folder of the models");
    case FolderKind::kModelDir:
      return cat("no models in ", path,
                 ": it is a model directory of training; emblem export --checkpoint ", path,
                 " --out REPOSITORY/NAME writes a model to serve");
    case FolderKind::kRepository:
    case FolderKind::kOther:
      break;
  }
  return cat("no models in ", path, "; emblem export --out ", path, "/NAME writes models into it");
}

int64_t version_of(const std::string& name) {
  int64_t version = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), version);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && version >= 0 && (name[0] != '0' || name == "0") ? version : -1;
}

bool is_model_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

Repository::Repository(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored)) {
    throw Error(ErrorCode::kNotFound, cat("there is no model repository ", path_,
                                          ": no such folder; emblem export --out ", path_,
                                          "/NAME writes models into one"));
  }
}

std::vector<std::string> Repository::models() const {
  std::vector<std::string> names;
  for (const std::string& name : folders_in(path_)) {
    if (!is_model_name(name)) continue;
    if (has_config(name) || !versions(name).empty()) names.push_back(name);
  }
  return names;
}

std::vector<int64_t> Repository::versions(const std::string& model) const {
  std::error_code ignored;
  if (!is_model_name(model) || !fs::is_directory(folder(model), ignored)) {
    throw Error(ErrorCode::kNotFound, cat("there is no model '", model, "' in the repository"));
  }
  std::vector<int64_t> versions;
  for (const std::string& name : folders_in(folder(model))) {
    if (const int64_t version = version_of(name); version >= 0) versions.push_back(version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

std::string Repository::folder(const std::string& model) const {
  EMBLEM_REQUIRE(is_model_name(model), "'", printable(model.substr(0, kLongestName)),
                 "' is not a valid name of a model");
  return path_below(path_, model);
}

std::string Repository::folder(const std::string& model, int64_t version) const {
  return folder(model) + "/" + std::to_string(version);
}

bool Repository::has_config(const std::string& model) const {
  std::error_code ignored;
  return fs::is_regular_file(config_file(model), ignored);
}

}  // namespace emblem
