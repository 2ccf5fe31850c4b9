#include "serve/repository/remote_repository.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "core/file.h"
#include "remote/folder_mirror.h"
#include "emblem/error.h"
#include "serve/repository/repository.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr int kLooseDepth = 2;  // NAME/config.pbtxt

// Removed at the end.
class WorkFolder {
 public:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {
    remove_path(path_);
    make_folders(path_);
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

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

}  // namespace

ExportedModel export_to_store(const std::string& checkpoint, const std::string& out, int64_t asked,
                              const LayerRanges* int8) {
  RemoteStorage& storage = remote_storage();
  const ObjectUri uri = parse_object_uri(out);
  const size_t slash = uri.key.rfind('/');
  const std::string name = slash == std::string::npos ? uri.key : uri.key.substr(slash + 1);
  EMBLEM_REQUIRE(!storage.find(join_uri(out, "manifest.json")), out,
                 " is a checkpoint or a version of a model; give --out REPOSITORY/NAME, a folder "
                 "for models to serve");
  const int64_t version = next_remote_version(storage, out, asked);
  const WorkFolder work(cat(mirror_folder(storage, out, "export"), "-", ::getpid()));
  ExportedModel model = export_model(checkpoint, work.path() + "/" + name, version, int8);
  if (storage.find(join_uri(out, "config.pbtxt"))) {  // stays as it is
    remove_path(work.path() + "/" + name + "/config.pbtxt");
    model.wrote_config = false;
  }
  FolderMirror mirror(storage, out, work.path() + "/" + name, 1);
  mirror.push();
  model.folder = cat(out, "/", version);
  return model;
}

struct RemoteRepository::State {
  std::mutex mutex;  // one refresh at a time
  FolderMirror mirror;

  explicit State(const std::string& uri)
      : mirror(remote_storage(), uri, mirror_folder(remote_storage(), uri, "serve"), kLooseDepth) {}
};

RemoteRepository::RemoteRepository(const std::string& uri) : state_(std::make_unique<State>(uri)) {
  refresh();
}

RemoteRepository::~RemoteRepository() = default;

const std::string& RemoteRepository::local() const { return state_->mirror.local(); }

void RemoteRepository::refresh() {
  const std::lock_guard lock(state_->mutex);
  state_->mirror.pull([](const std::string&) { return true; });
}

}  // namespace emblem
