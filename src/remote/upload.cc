#include "remote/upload.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {

void upload_files(RemoteStorage& storage, const std::string& folder,
                  const std::vector<std::string>& names, const std::string& uri,
                  const UploadCalls& calls) {
  if (names.empty()) return;
  ThreadPool pool(
      std::min<int>(storage.options().download_threads, static_cast<int>(names.size())));
  std::mutex mutex;
  std::atomic<bool> has_failed{false};
  parallel_for(Context{.threads = &pool}, static_cast<int64_t>(names.size()), 1,
               [&](int64_t begin, int64_t end) {
                 for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                   if (has_failed) return;
                   try {
                     storage.upload(folder + "/" + names[i], join_uri(uri, names[i]), calls.before);
                   } catch (...) {
                     has_failed = true;
                     throw;
                   }
                   const std::lock_guard lock(mutex);
                   if (calls.after) calls.after(i);
                 }
               });
}

void require_uploaded(RemoteStorage& storage, const std::string& folder,
                      const std::vector<std::string>& names, const std::string& uri) {
  const std::string folder_uri = parse_object_uri(uri).text();
  std::map<std::string, int64_t> there;
  for (const ObjectInfo& object : storage.list(uri, ListDepth::kAll).objects)
    there[object.uri] = object.bytes;
  for (const std::string& name : names) {
    const std::string address = join_uri(folder_uri, name);
    const auto bytes = static_cast<int64_t>(std::filesystem::file_size(folder + "/" + name));
    const auto found = there.find(address);
    if (found == there.end() || found->second != bytes)
      throw Error(
          ErrorCode::kUnavailable,
          cat(address, " is not what was uploaded: the store ",
              found == there.end() ? "does not list it" : cat("has ", found->second, " bytes"),
              ", expected ", bytes, " bytes"));
  }
}

}  // namespace emblem
