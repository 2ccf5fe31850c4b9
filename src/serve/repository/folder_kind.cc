#include "serve/repository/folder_kind.h"

#include <filesystem>

#include "checkpoint/names.h"
#include "emblem/error.h"
#include "serve/repository/repository.h"

namespace emblem {

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

}  // namespace emblem
