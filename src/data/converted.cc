#include "data/converted.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/file.h"
#include "core/thread_pool.h"
#include "data/source/folder_mirror.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndex = ".index.json";
constexpr const char* kMetadata = "metadata.json";

// Relative to the folder, sorted.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

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

}  // namespace

void write_bundle_index(const std::string& folder, const BlockReader& reader) {
  json files = json::array(), sources = json::array();
  for (const std::string& name : files_in(folder))
    if (name != kIndex)
      files.push_back({{"name", name}, {"bytes", fs::file_size(folder + "/" + name)}});
  int64_t row = 0;
  for (size_t i = 0; i < reader.files().size(); ++i) {
    const int64_t rows = reader.rows_of_files()[i];
    sources.push_back({{"path", shown_uri(reader.files()[i])}, {"first_row", row}, {"rows", rows}});
    row += rows;
  }
  const json index{{"format", 1}, {"rows", row}, {"files", files}, {"sources", sources}};
  write_text_file_atomically(folder + "/" + kIndex,
                             index.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

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

}  // namespace emblem
