// serve/repository/sent_model.h - a model whose files a client sent with its load request.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/files/temporary_folder.h"
#include "serve/repository/repository.h"

namespace emblem {

// An upper bound of what reading the texts among a client's files (JSON, pipelines, vocabularies,
// headers of tensors) allocates: texts of brackets take 80 times their size. What tensors and rows
// take is part of the model.
size_t parsing_bytes(const std::map<std::string, std::string>& files);

// The files in a private temporary folder, a repository with this one model. Removed with the
// object.
class SentModel {
 public:
  // `files`: bytes by path below the model's folder, "1/manifest.json". Throws kInvalidArgument for
  // a path that is not below a version's folder, and for a model whose features read other files
  // than its own; kUnavailable when the files cannot be written.
  SentModel(const std::string& name, const std::map<std::string, std::string>& files);

  const Repository& repository() const { return *repository_; }

 private:
  const TemporaryFolder folder_{"emblem_model"};
  std::unique_ptr<Repository> repository_;
};

}  // namespace emblem
