// data/source/objects/object_file.h - an object of a remote store, read as a file: at any place, by
// many threads.
//
// Parts are fetched into the cache folder as they are needed or asked for ahead; once all are there
// the object is read like a local file, after it was compared with what the store says of its
// content. An object that does not fit into the cache, or a cache on a
// full disk, is read through memory. What is read is always of one version of the object: that of
// the moment when it was opened.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/source/objects/content_check.h"
#include "data/source/objects/download_queue.h"
#include "data/source/objects/object_cache.h"
#include "data/source/objects/object_store.h"
#include "data/source/retry.h"
#include "emblem/error.h"

namespace emblem {

// An object is not what it was when it was opened, or what the store says: no other try helps.
class ObjectChanged : public Error {
 public:
  using Error::Error;
};

// What the files of a storage share; outlives them.
struct RemoteCounters : RequestCounters {
  std::atomic<int64_t> downloaded_bytes{0};
  std::atomic<int64_t> opened_objects{0}, opened_bytes{0};  // that were read at all
  // Objects and bytes that were whole in the cache before.
  std::atomic<int64_t> cached_objects{0}, cached_bytes{0};
  std::atomic<int64_t> memory_objects{0};    // objects that are read through memory
  std::atomic<int64_t> wait_nanoseconds{0};  // readers that waited for parts
};

// Parts of objects that are read through memory, the most recently used ones. Thread-safe.
class MemoryParts {
 public:
  explicit MemoryParts(int64_t most_bytes) : most_bytes_(most_bytes) {}
  struct Part {
    std::weak_ptr<ObjectFile> file;
    int64_t part = 0;
    int64_t bytes = 0;
  };
  // Returns those that have to leave for it.
  std::vector<Part> add(Part part);

 private:
  const int64_t most_bytes_;
  std::mutex mutex_;
  std::deque<Part> parts_;
  int64_t bytes_ = 0;
};

struct RemoteParts {
  ObjectCache* cache = nullptr;
  DownloadQueue* queue = nullptr;
  RemoteCounters* counters = nullptr;
  MemoryParts* memory = nullptr;
  ContentCheck* check = nullptr;  // check of the object's bucket
  int64_t part_bytes = int64_t{8} << 20;
};

// Thread-safe.
class ObjectFile : public std::enable_shared_from_this<ObjectFile> {
 public:
  // Sends no request. `info` is what the store said of the object; `store` and `shared` outlive
  // this.
  ObjectFile(const ObjectInfo& info, ObjectStore& store, const RemoteParts& shared);
  ~ObjectFile();

  const ObjectInfo& info() const { return info_; }
  int64_t bytes() const { return info_.bytes; }

  // Fills `into`; waits for what is not here yet. Throws Error when it cannot be fetched, and when
  // the object has changed or vanished since it was opened.
  void read(int64_t offset, int64_t count, void* into);

  // Asks for these bytes, which will be read soon. Returns at once.
  void prefetch(int64_t offset, int64_t count);

  // What the download threads run.
  void fetch(int64_t part);
  // A part that no thread fetches, which the caller will now; -1: none is left.
  int64_t claim_missing_part();
  void drop_memory_part(int64_t part);

 private:
  enum class Mode { kUnknown, kDisk, kMemory, kWhole };
  enum class PartState : uint8_t { kMissing, kQueued, kFetching, kHere, kFailed };
  using Buffer = std::shared_ptr<std::vector<char>>;

  bool read_whole(int64_t offset, int64_t count, char* into) const;
  bool read_end(int64_t offset, int64_t count, char* into);
  int64_t read_from_part(int64_t offset, int64_t count, char* into);
  bool wait_for(int64_t part, int64_t part_bytes, std::unique_lock<std::mutex>& lock);

  void look_into_cache();
  bool resolve();
  bool use_cached();
  bool is_unchanged(const CacheEntry& entry);
  bool has_stalled();
  void begin_download();
  void use_memory(const std::string& why);
  void adopt_whole(int descriptor);

  void resize_parts(int64_t part_bytes);
  int64_t bytes_of_part(int64_t part) const;
  std::shared_ptr<ObjectReader> reader();
  void drop_reader(const std::shared_ptr<ObjectReader>& failed);
  void download(int64_t offset, int64_t count, char* into);
  void download_checked(int64_t offset, std::vector<char>& content);
  std::string expected_md5();
  std::string damage_of(const PartialObject& partial);
  bool arrives_again(const PartialObject& partial);
  void check_version();
  void require_unchanged(const std::optional<ObjectInfo>& now);
  void keep_part(int64_t part, int64_t part_bytes, const Buffer& content);
  bool write_part(int64_t part, const Buffer& content, std::unique_lock<std::mutex>& lock);
  bool may_complete(std::unique_lock<std::mutex>& lock);
  void finish();
  void fail_part(int64_t part, const std::exception_ptr& error);

  const ObjectInfo info_;
  const ObjectUri uri_;
  ObjectStore& store_;
  const RemoteParts shared_;

  std::atomic<int> whole_{-1};  // descriptor of the whole object in the cache
  std::mutex resolving_;        // one thread finds out where the object is, and opens it
  std::shared_ptr<ObjectReader> reader_;
  std::atomic<bool> reads_one_version_{false};  // the reader does; else versions are compared
  bool looked_into_cache_ = false;
  // Last progress of the process that downloads the object: time of its last part.
  int64_t others_progress_ = -1;
  std::chrono::steady_clock::time_point others_progress_seen_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  Mode mode_ = Mode::kUnknown;
  int64_t part_bytes_ = 0;
  std::vector<PartState> states_;
  std::map<int64_t, std::exception_ptr> errors_;  // by part
  std::exception_ptr ended_by_;  // the object is not what it was: nothing more is read
  int64_t missing_ = 0;          // parts that are not here
  size_t first_missing_ = 0;     // none before it is
  std::unique_ptr<FileLock> lock_;
  std::shared_ptr<PartialObject> partial_;
  std::map<int64_t, Buffer> memory_;
  Buffer start_, end_;  // the first and the last bytes, read before anything else
  std::string etag_;    // "": not known yet
  std::string md5_;     // MD5 of the content, as the store says it; "": not known
};

}  // namespace emblem
