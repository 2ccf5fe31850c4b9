// serve/repository/folder_kind.h - what a folder that a user names holds.
#pragma once

#include <string>

namespace emblem {

enum class FolderKind {
  kOther,       // empty, absent or unknown
  kRepository,  // of models
  kModel,       // versions of a model, config.pbtxt
  kCheckpoint,  // of training, or a version of a model
  kModelDir,    // checkpoints of training
};

FolderKind folder_kind(const std::string& path);

// Why a server finds no models in `path`, and what to do about it, in one line.
std::string no_models_text(const std::string& path);

}  // namespace emblem
