#include "remote/download.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/files/file.h"
#include "core/files/file_descriptor.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

struct Range {
  const FileDownload* file;
  int64_t offset, bytes;
};

void make_file(const FileDownload& file) {
  make_folders(std::filesystem::path(file.path).parent_path().string());
  const FileDescriptor made(
      ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (made.get() < 0)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot write ", file.path, ": ", std::strerror(errno)));
}

void fetch_range(RemoteStorage& storage, const Range& range) {
  const std::string content = storage.read_range(range.file->object, range.offset, range.bytes);
  const FileDescriptor to(::open(range.file->path.c_str(), O_WRONLY | O_CLOEXEC));
  write_at(to.get(), content.data(), range.bytes, range.offset, range.file->path);
}

void fetch_again(RemoteStorage& storage, const FileDownload& file) {
  const int64_t part = storage.options().part_bytes;
  for (int64_t at = 0; at < file.object.bytes; at += part)
    fetch_range(storage, {&file, at, std::min(part, file.object.bytes - at)});
}

// Written again meanwhile: parts of two versions may have arrived. Or damaged on the way.
void require_intact(RemoteStorage& storage, const FileDownload& file) {
  const ObjectInfo& seen = file.object;
  const auto now = storage.find(seen.uri);
  const bool same = now && now->bytes == seen.bytes && now->modified == seen.modified &&
                    (seen.etag.empty() || now->etag.empty() || now->etag == seen.etag);
  if (!same)
    throw Error(ErrorCode::kUnavailable, cat(shown_uri(seen.uri), " changed while it was fetched"));
  for (int attempt = 1;; ++attempt) {
    try {
      return storage.check_copy(*now, file.path);
    } catch (const Error&) {
      if (attempt == kDamagedAttempts) throw;
    }
    fetch_again(storage, file);
  }
}

}  // namespace

void download_files(RemoteStorage& storage, const std::vector<FileDownload>& files) {
  std::vector<Range> ranges;
  const int64_t part = storage.options().part_bytes;
  for (const FileDownload& file : files) {
    make_file(file);
    for (int64_t at = 0; at < file.object.bytes; at += part)
      ranges.push_back({&file, at, std::min(part, file.object.bytes - at)});
  }
  if (!ranges.empty()) {
    ThreadPool pool(static_cast<int>(
        std::min<size_t>(ranges.size(), static_cast<size_t>(storage.options().download_threads))));
    parallel_for(Context{.threads = &pool}, static_cast<int64_t>(ranges.size()), 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     fetch_range(storage, ranges[static_cast<size_t>(i)]);
                 });
  }
  for (const FileDownload& file : files) require_intact(storage, file);
}

}  // namespace emblem
