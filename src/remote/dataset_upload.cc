#include "remote/dataset_upload.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "core/text.h"
#include "core/thread_pool.h"
#include "data/converted.h"
#include "emblem/error.h"
#include "remote/folder_mirror.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = ".index.json";
constexpr const char* kMetadata = "metadata.json";

std::string with_slash(const std::string& uri) { return uri.ends_with('/') ? uri : uri + "/"; }

// Removed at the end.
class WorkFolder {
 public:
  explicit WorkFolder(std::string path) : path_(std::move(path)) { make_folders(path_); }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::string data() const { return path_ + "/data"; }

 private:
  std::string path_;
};

void write_to_store(const std::string& to, Overwrite overwrite,
                    const std::function<void(const std::string& folder)>& write) {
  RemoteStorage& storage = remote_storage();
  const std::vector<ObjectInfo> old = storage.list(to, ListDepth::kAll).objects;
  EMBLEM_REQUIRE(old.empty() || overwrite == Overwrite::kReplace, to, " has ", old.size(),
                 " objects already; give another address, or --force to replace them");
  const WorkFolder work(mirror_folder(storage, to, "write-" + std::to_string(::getpid())));
  write(work.data());
  std::vector<std::string> names = files_in(work.data());
  if (!old.empty()) storage.remove_folder(to);
  const auto upload = [&](const std::string& name) {
    storage.upload(work.data() + "/" + name, join_uri(to, name));
  };
  // What describes the data set is there when its rows are.
  const auto last = std::stable_partition(names.begin(), names.end(), [](const auto& name) {
    return name != kIndex && name != kMetadata;
  });
  const int64_t count = last - names.begin();
  ThreadPool pool(std::min<int>(storage.options().download_threads, static_cast<int>(count) + 1));
  parallel_for(Context{.threads = &pool}, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) upload(names[static_cast<size_t>(i)]);
  });
  std::for_each(last, names.end(), upload);
}

}  // namespace

void write_data_set(const std::string& to, Overwrite overwrite,
                    const std::function<void(const std::string& folder)>& write) {
  if (is_object_uri(to))
    write_to_store(to, overwrite, write);
  else
    write(to);
}

void refuse_inputs_in(const std::string& inputs, const std::string& to) {
  if (!is_object_uri(to)) return;
  const std::string target = with_slash(to);
  for (const std::string& item : split(inputs, ',')) {
    const std::string input(trim(item));
    if (!is_object_uri(input)) continue;
    const std::string folder = with_slash(input);
    EMBLEM_REQUIRE(!target.starts_with(folder), "--to ", to, " is ",
                   target == folder ? "also" : "inside", " the input ", input,
                   "; give an address outside of it");
    for (const ObjectInfo& object : remote_storage().expand(input))
      EMBLEM_REQUIRE(!object.uri.starts_with(target), "--to ", to, " holds the input ", object.uri,
                     ", which would be replaced; give another address");
  }
}

}  // namespace emblem
