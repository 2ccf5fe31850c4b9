#include "serve/repository/remote_repository.h"

#include <map>
#include <mutex>

#include "core/system/log.h"
#include "remote/folder_mirror.h"
#include "serve/repository/repository.h"

namespace emblem {
namespace {

constexpr int kLooseDepth = 2;  // NAME/config.pbtxt

}  // namespace

struct RemoteRepository::State {
  std::mutex mutex;  // one refresh at a time
  Storage storage;
  FolderMirror mirror;
  std::map<std::string, std::string> problems;  // that were told, by name

  State(const std::string& uri, const Storage& of)
      : storage(of), mirror(storage_for(of, uri), uri, kLooseDepth) {}
};

RemoteRepository::RemoteRepository(const std::string& uri, const Storage& storage)
    : state_(std::make_unique<State>(uri, storage)) {}

RemoteRepository::~RemoteRepository() = default;

const std::string& RemoteRepository::local() const { return state_->mirror.local(); }

void RemoteRepository::stop_trying_again() { state_->storage->stop_trying_again(); }

std::map<std::string, std::string> RemoteRepository::refresh() {
  const std::lock_guard lock(state_->mutex);
  std::map<std::string, std::string> problems, models;
  for (const FetchProblem& problem : state_->mirror.pull()) {
    if (state_->problems[problem.name] != problem.reason)
      log_warn(
          cat("cannot fetch ", problem.name, " of ", state_->mirror.uri(), ": ", problem.reason));
    problems[problem.name] = problem.reason;
    const std::string model = problem.name.substr(0, problem.name.find('/'));
    if (is_model_name(model))
      models.emplace(model, cat("cannot fetch ", problem.name, ": ", problem.reason));
  }
  state_->problems = std::move(problems);
  return models;
}

}  // namespace emblem
