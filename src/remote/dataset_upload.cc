#include "remote/dataset_upload.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "core/files/file.h"
#include "core/math/checksum.h"
#include "core/text/text.h"
#include "data/converted.h"
#include "data/source/data_set_manifest.h"
#include "emblem/error.h"
#include "remote/upload.h"
#include "remote/work_folder.h"

namespace emblem {
namespace {

// What others have in a data set's folder meanwhile: the objects of locks.
constexpr const char* kLocks = ".lock/";
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
  for (const std::string& name : names) {
    const MappedFile file(local + "/" + name);
    const std::span<const char> bytes = file.bytes();
    folders[folder_of(name)].push_back({std::filesystem::path(name).filename().string(),
                                        static_cast<int64_t>(bytes.size()),
                                        checksum_of(bytes.data(), bytes.size())});
  }
  return folders;
}

// The objects below an address, without those of locks and the empty ones that some clients make
// for folders ("rows/"). Throws Error where one of them is not of a data set, or where there are
// any and they may not be replaced. `written`: an object that is there; "": it may be empty.
std::vector<ObjectInfo> objects_to_replace(RemoteStorage& storage, const std::string& to,
                                           Overwrite overwrite, const std::string& written) {
  std::vector<ObjectInfo> objects = storage.list(to, ListDepth::kAll).objects;
  // A proxy's page in the place of a listing looks like an empty folder.
  if (!written.empty() && std::ranges::none_of(objects, [&](const ObjectInfo& object) {
        return object.uri == join_uri(to, written);
      }))
    throw Error(ErrorCode::kUnavailable,
                cat("the listing of ", to, " does not have what was written to it"));
  const size_t prefix = with_slash(to).size();
  std::erase_if(objects, [&](const auto& object) {
    const auto name = std::string_view(object.uri).substr(std::min(prefix, object.uri.size()));
    const bool is_folder = object.bytes == 0 && (name.empty() || name.ends_with('/'));
    return is_folder || name.starts_with(kLocks);
  });
  EMBLEM_REQUIRE(objects.empty() || overwrite == Overwrite::kReplace, to, " has ", objects.size(),
                 " objects already; give another address, or --force to replace them");
  for (const ObjectInfo& object : objects) {
    const std::string name = object.uri.substr(prefix);
    EMBLEM_REQUIRE(is_name_in_data_set(name), to, " has the object '", printable(name),
                   "', which is not part of a data set, so it is not replaced; give another "
                   "address");
  }
  return objects;
}

// Throws kUnavailable where the store has another text afterwards: readers go by manifests.
void write_manifest(RemoteStorage& storage, const std::string& address, const std::string& text,
                    const BeforeWrite& before) {
  storage.write_text(address, text, before);
  if (!storage.find(address) || storage.read_text(address) != text)
    throw Error(ErrorCode::kUnavailable, cat(address, " is not what was uploaded"));
}

// Throws kUnavailable where one of them is still there: it would pass for one that is uploaded.
void remove_objects(RemoteStorage& storage, const std::string& to,
                    const std::vector<std::string>& addresses, const BeforeWrite& before) {
  if (addresses.empty()) return;
  for (const std::string& address : addresses) storage.remove(address, before);
  const std::vector<ObjectInfo> left = storage.list(to, ListDepth::kAll).objects;
  for (const ObjectInfo& object : left)
    if (std::ranges::find(addresses, object.uri) != addresses.end())
      throw Error(ErrorCode::kUnavailable, cat(object.uri, " was not removed"));
}

// Until the last request no reader takes the data set: its manifests say that it is not whole.
void upload_data_set(RemoteStorage& storage, const std::string& local, const std::string& to,
                     const std::vector<ObjectInfo>& old, StoreLock& lock) {
  const UploadCalls calls{.before = lock.before_write(), .after = nullptr};
  std::vector<std::string> names = files_in(local);
  const auto folders = folders_of(local, names);
  std::set<std::string> manifests;
  for (const auto& [folder, files] : folders) {
    manifests.insert(manifest_address(to, folder));
    write_manifest(storage, manifest_address(to, folder), unfinished_data_set_text(), calls.before);
  }
  std::vector<std::string> replaced;
  for (const ObjectInfo& object : old)
    if (!manifests.contains(object.uri)) replaced.push_back(object.uri);
  remove_objects(storage, to, replaced, calls.before);
  // What describes the data set is there when its rows are.
  const auto last = std::stable_partition(names.begin(), names.end(), [](const auto& name) {
    return name != kIndex && name != kMetadata;
  });
  upload_files(storage, local, {names.begin(), last}, to, calls);
  upload_files(storage, local, {last, names.end()}, to, calls);
  require_uploaded(storage, local, names, to);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    write_manifest(storage, manifest_address(to, folder->first), data_set_text(folder->second),
                   calls.before);
}

}  // namespace

void write_to_store(RemoteStorage& storage, const std::string& to, Overwrite overwrite,
                    const std::function<void(const std::string& folder)>& write,
                    const StoreLockOptions& lock_options) {
  const ObjectUri uri = parse_object_uri(to);
  EMBLEM_REQUIRE(!uri.key.empty(), to,
                 " names a bucket without a path; give an address in it, such as ",
                 join_uri(to, "rows"));
  std::string address = uri.text();
  while (address.ends_with('/')) address.pop_back();
  objects_to_replace(storage, address, overwrite, "");
  StoreLockOptions options = lock_options;
  options.user = "program that writes it";
  options.remedy = "wait until it has ended, or give another address";
  StoreLock lock(storage, address, options);
  const std::vector<ObjectInfo> old =
      objects_to_replace(storage, address, overwrite, lock.object_name());
  const WorkFolder work(storage, address);
  const std::string local = work.path() + "/data";
  write(local);
  upload_data_set(storage, local, address, old, lock);
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
