#include "serve/repository/remote_repository.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "core/file.h"
#include "core/log.h"
#include "emblem/error.h"
#include "remote/folder_mirror.h"
#include "remote/unit_snapshot.h"
#include "remote/upload.h"
#include "remote/work_folder.h"
#include "serve/repository/repository.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr int kLooseDepth = 2;  // NAME/config.pbtxt

int64_t next_remote_version(RemoteStorage& storage, const std::string& out, int64_t asked) {
  int64_t newest = 0;
  for (const std::string& name : storage.list(out, ListDepth::kDirect).folders) {
    const int64_t version = version_of(name);
    EMBLEM_REQUIRE(version < 0 || version != asked, out, "/", version,
                   " exists already; choose another --version, or give none for the next free one");
    newest = std::max(newest, version);
  }
  return asked > 0 ? asked : newest + 1;
}

// Manifests last: who reads the store sees whole versions only.
void upload_folder(RemoteStorage& storage, const std::string& folder, const std::string& to) {
  std::vector<std::string> names = visible_files(folder);
  const auto last = std::stable_partition(names.begin(), names.end(), [](const auto& name) {
    return fs::path(name).filename() != kUnitManifest;
  });
  upload_files(storage, folder, {names.begin(), last}, to);
  upload_files(storage, folder, {last, names.end()}, to);
}

}  // namespace

ExportedModel export_to_store(const std::string& checkpoint, const std::string& out, int64_t asked,
                              const LayerRanges* int8, RemoteStorage& storage) {
  const ObjectUri uri = parse_object_uri(out);
  const size_t slash = uri.key.rfind('/');
  const std::string name = slash == std::string::npos ? uri.key : uri.key.substr(slash + 1);
  EMBLEM_REQUIRE(!storage.find(join_uri(out, "manifest.json")), out,
                 " is a checkpoint or a version of a model; give --out REPOSITORY/NAME, a folder "
                 "for models to serve");
  const int64_t version = next_remote_version(storage, out, asked);
  const WorkFolder work(storage, out);
  ExportedModel model = export_model(checkpoint, work.path() + "/" + name, version, int8);
  if (storage.find(join_uri(out, "config.pbtxt"))) {  // stays as it is
    remove_path(work.path() + "/" + name + "/config.pbtxt");
    model.wrote_config = false;
  }
  upload_folder(storage, work.path() + "/" + name, out);
  model.folder = cat(out, "/", version);
  return model;
}

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
