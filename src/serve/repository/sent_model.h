// serve/repository/sent_model.h - a model whose files a client sent with its load request.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "serve/repository/repository.h"

namespace emblem {

// The files in a private temporary folder, a repository with this one model. Removed with the
// object.
class SentModel {
 public:
  // `files`: bytes by path below the model's folder, "1/manifest.json". Throws kInvalidArgument for
  // a path that is not below a version's folder, and for a model whose features read other files
  // than its own; kUnavailable when the files cannot be written.
  SentModel(const std::string& name, const std::map<std::string, std::string>& files);
  ~SentModel();
  SentModel(const SentModel&) = delete;
  SentModel& operator=(const SentModel&) = delete;

  const Repository& repository() const { return *repository_; }

 private:
  std::string folder_;
  std::unique_ptr<Repository> repository_;
};

}  // namespace emblem
