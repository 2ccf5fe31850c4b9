#include "remote/upload.h"

#include <algorithm>
#include <mutex>

#include "core/threads/thread_pool.h"

namespace emblem {

void upload_files(RemoteStorage& storage, const std::string& folder,
                  const std::vector<std::string>& names, const std::string& uri,
                  const UploadCalls& calls) {
  if (names.empty()) return;
  ThreadPool pool(
      std::min<int>(storage.options().download_threads, static_cast<int>(names.size())));
  std::mutex mutex;
  parallel_for(Context{.threads = &pool}, static_cast<int64_t>(names.size()), 1,
               [&](int64_t begin, int64_t end) {
                 for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                   storage.upload(folder + "/" + names[i], join_uri(uri, names[i]), calls.before);
                   const std::lock_guard lock(mutex);
                   if (calls.after) calls.after(i);
                 }
               });
}

}  // namespace emblem
