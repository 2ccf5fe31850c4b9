// serve/repository/repository.h - a folder of models as Triton lays it out: NAME/config.pbtxt
// and a folder per version, NAME/1, NAME/2, ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emblem {

// What a folder that a user names holds.
enum class FolderKind {
  kOther,       // empty, absent or unknown
  kRepository,  // repository of models
  kModel,       // versions of a model, config.pbtxt
  kCheckpoint,  // checkpoint of a training, or a version of a model
  kModelDir,    // checkpoints of training
};

FolderKind folder_kind(const std::string& path);

// Why a server finds no models in `path`, and what to do about it, in one line.
std::string no_models_text(const std::string& path);

class Repository {
 public:
  // Throws when there is no such folder.
  explicit Repository(std::string path);

  // Folders that hold a version or a configuration, in alphabetical order.
  std::vector<std::string> models() const;
  // Ascending; throws kNotFound when there is no such model, and for names that are no names.
  std::vector<int64_t> versions(const std::string& model) const;

  // The folder of a model that need not be there; throws kInvalidArgument for names that are
  // no names.
  std::string folder(const std::string& model) const;
  std::string folder(const std::string& model, int64_t version) const;
  std::string config_file(const std::string& model) const {
    return folder(model) + "/config.pbtxt";
  }
  bool has_config(const std::string& model) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Letters, digits, '.', '_' and '-', not starting with '.': nothing that leads out of a folder.
bool is_model_name(const std::string& name);

// The number that a folder's name is; -1 for other names, as those with leading zeros.
int64_t version_of(const std::string& name);

}  // namespace emblem
