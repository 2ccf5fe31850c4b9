#include "remote/dataset_upload.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "core/text.h"
#include "data/converted.h"
#include "data/source/data_set_manifest.h"
#include "emblem/error.h"
#include "remote/upload.h"
#include "remote/work_folder.h"

namespace emblem {
namespace {

constexpr const char* kIndex = ".index.json";
constexpr const char* kMetadata = "metadata.json";

std::string with_slash(const std::string& uri) { return uri.ends_with('/') ? uri : uri + "/"; }

std::string folder_of(const std::string& name) {
  return std::filesystem::path(name).parent_path().string();
}

// The address of FOLDER/.dataset.json; "": of the data set itself.
std::string manifest_address(const std::string& to, const std::string& folder) {
  return join_uri(folder.empty() ? to : join_uri(to, folder), kDataSetManifest);
}

// What is in each folder of a data set. The folder of the data set itself comes first.
std::map<std::string, std::vector<DataSetFile>> folders_of(const std::string& local,
                                                           const std::vector<std::string>& names) {
  std::map<std::string, std::vector<DataSetFile>> folders{{"", {}}};
  for (const std::string& name : names)
    folders[folder_of(name)].push_back(
        {std::filesystem::path(name).filename().string(),
         static_cast<int64_t>(std::filesystem::file_size(local + "/" + name))});
  return folders;
}

// Until the last request no reader takes the data set: its manifests say that it is not whole.
void upload_data_set(RemoteStorage& storage, const std::string& local, const std::string& to,
                     const std::vector<ObjectInfo>& old) {
  std::vector<std::string> names = files_in(local);
  const auto folders = folders_of(local, names);
  std::set<std::string> manifests;
  for (const auto& [folder, files] : folders) {
    manifests.insert(manifest_address(to, folder));
    storage.write_text(manifest_address(to, folder), unfinished_data_set_text());
  }
  for (const ObjectInfo& object : old)
    if (!manifests.contains(object.uri)) storage.remove(object.uri);
  // What describes the data set is there when its rows are.
  const auto last = std::stable_partition(names.begin(), names.end(), [](const auto& name) {
    return name != kIndex && name != kMetadata;
  });
  upload_files(storage, local, {names.begin(), last}, to);
  upload_files(storage, local, {last, names.end()}, to);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    storage.write_text(manifest_address(to, folder->first), data_set_text(folder->second));
}

}  // namespace

void write_to_store(RemoteStorage& storage, const std::string& to, Overwrite overwrite,
                    const std::function<void(const std::string& folder)>& write) {
  const std::string address = parse_object_uri(to).text();
  const std::vector<ObjectInfo> old = storage.list(address, ListDepth::kAll).objects;
  EMBLEM_REQUIRE(old.empty() || overwrite == Overwrite::kReplace, to, " has ", old.size(),
                 " objects already; give another address, or --force to replace them");
  const WorkFolder work(storage, address);
  const std::string local = work.path() + "/data";
  write(local);
  upload_data_set(storage, local, address, old);
}

void write_data_set(const std::string& to, Overwrite overwrite, const Storage& storage,
                    const std::function<void(const std::string& folder)>& write) {
  if (is_object_uri(to))
    write_to_store(storage_for(storage, to), to, overwrite, write);
  else
    write(to);
}

void refuse_inputs_in(const std::string& inputs, const std::string& to, const Storage& storage) {
  if (!is_object_uri(to)) return;
  const std::string target = with_slash(to);
  for (const std::string& item : split(inputs, ',')) {
    const std::string input(trim(item));
    if (!is_object_uri(input)) continue;
    const std::string folder = with_slash(input);
    EMBLEM_REQUIRE(!target.starts_with(folder), "--to ", to, " is ",
                   target == folder ? "also" : "inside", " the input ", input,
                   "; give an address outside of it");
    for (const ObjectInfo& object : storage_for(storage, input).expand(input))
      EMBLEM_REQUIRE(!object.uri.starts_with(target), "--to ", to, " holds the input ", object.uri,
                     ", which would be replaced; give another address");
  }
}

}  // namespace emblem
