// Fetching: where an object goes to, and its parts.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/system/warn_once.h"
#include "core/text/text.h"
#include "data/source/objects/object_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMemoryPartBytes = int64_t{1} << 20;
// An object that was written this short a time before it was fetched may have been written again in
// the same second.
constexpr int64_t kSureAfterSeconds = 60;
constexpr auto kStalledAfter = std::chrono::seconds(30);  // a download of another process

}  // namespace

// ---- where it goes to ----

void ObjectFile::look_into_cache() {
  const std::lock_guard resolving(resolving_);
  if (looked_into_cache_) return;
  looked_into_cache_ = true;
  use_cached();
}

// False when another process downloads the object now.
bool ObjectFile::resolve() {
  const std::lock_guard resolving(resolving_);
  {
    const std::lock_guard lock(mutex_);
    if (mode_ != Mode::kUnknown) return true;
  }
  const bool waited = others_progress_ >= 0;
  if ((!std::exchange(looked_into_cache_, true) || waited) && use_cached()) return true;
  std::unique_ptr<FileLock> held;
  try {
    held = shared_.cache->try_lock(info_);
  } catch (const Error& error) {  // the folder may belong to another user, or be on a full disk
    use_memory(error.what());
    return true;
  }
  if (held == nullptr) {
    if (!has_stalled()) return false;
    use_memory("another process began to download it and has stalled");
    return true;
  }
  if (use_cached()) return true;  // by the process that had the lock
  {
    const std::lock_guard lock(mutex_);
    lock_ = std::move(held);
  }
  begin_download();
  return true;
}

// Whether the process that downloads the object has not written a part for long.
bool ObjectFile::has_stalled() {
  const int64_t progress = shared_.cache->last_progress(info_);
  if (progress == others_progress_) return Clock::now() - others_progress_seen_ > kStalledAfter;
  others_progress_ = progress;
  others_progress_seen_ = Clock::now();
  return false;
}

bool ObjectFile::use_cached() {
  const auto cached = shared_.cache->find(info_);
  if (!cached) return false;
  FileDescriptor data(cached->descriptor);
  if (!is_unchanged(cached->entry)) {
    shared_.cache->forget(info_);
    return false;
  }
  adopt_whole(data.release());
  ++shared_.counters->opened_objects;
  ++shared_.counters->cached_objects;
  shared_.counters->opened_bytes += bytes();
  shared_.counters->cached_bytes += bytes();
  return true;
}

bool ObjectFile::is_unchanged(const CacheEntry& entry) {
  if (entry.object.etag.empty()) return true;
  if (!info_.etag.empty()) return info_.etag == entry.object.etag;
  if (info_.modified != 0 && entry.fetched - info_.modified >= kSureAfterSeconds) return true;
  std::optional<ObjectInfo> now;
  with_retries(*shared_.counters, [&] { now = store_.find(uri_); });
  if (!now || now->etag != entry.object.etag) return false;
  shared_.cache->confirm(info_, entry);
  return true;
}

void ObjectFile::adopt_whole(int descriptor) {
  {
    const std::lock_guard lock(mutex_);
    mode_ = Mode::kWhole;
    memory_.clear();
    partial_.reset();
    lock_.reset();
    start_.reset();
    end_.reset();
  }
  whole_.store(descriptor, std::memory_order_release);
  changed_.notify_all();
}

void ObjectFile::begin_download() {
  if (!shared_.cache->make_room(bytes()))
    return use_memory(cat("it does not fit into the cache of ",
                          format_bytes(static_cast<double>(shared_.cache->most_bytes())),
                          " (data_config.cache_bytes) beside what is in use"));
  std::shared_ptr<PartialObject> partial;
  try {
    partial = shared_.cache->begin(info_, shared_.part_bytes);
  } catch (const Error& error) {
    return use_memory(error.what());
  }
  // A process may have been killed before it could compare the whole.
  bool is_complete = partial->parts() > 1;
  for (int64_t part = 0; part < partial->parts(); ++part)
    is_complete = is_complete && partial->was_done(part);
  if (is_complete) {
    check_version();
    if (!damage_of(*partial).empty()) {
      partial->discard();
      partial = shared_.cache->begin(info_, shared_.part_bytes);
    }
  }
  bool is_whole = false;
  {
    const std::lock_guard lock(mutex_);
    for (int64_t part = 0; part < partial->parts(); ++part) {
      if (!partial->was_done(part)) continue;
      states_[static_cast<size_t>(part)] = PartState::kHere;
      --missing_;
    }
    partial_ = partial;
    mode_ = Mode::kDisk;
    is_whole = missing_ == 0;
  }
  ++shared_.counters->opened_objects;
  shared_.counters->opened_bytes += bytes();
  changed_.notify_all();
  if (is_whole)
    finish();
  else if (partial->parts() > 1)
    shared_.queue->finish_later(weak_from_this());
}

void ObjectFile::use_memory(const std::string& why) {
  warn_once("download to memory",
            cat(uri_.shown(), " is read through memory, again in every epoch: ", why,
                "; give the cache more room (--cache-dir, data_config.cache_bytes)"));
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    if (mode_ == Mode::kMemory) return;
    is_new = mode_ == Mode::kUnknown;
    mode_ = Mode::kMemory;
    if (partial_ != nullptr) partial_->discard();
    partial_.reset();
    lock_.reset();
    resize_parts(std::min(shared_.part_bytes, kMemoryPartBytes));
  }
  ++shared_.counters->memory_objects;
  if (is_new) {
    ++shared_.counters->opened_objects;
    shared_.counters->opened_bytes += bytes();
  }
  changed_.notify_all();
}

// ---- parts ----

int64_t ObjectFile::claim_missing_part() {
  const std::lock_guard lock(mutex_);
  if (mode_ != Mode::kDisk || ended_by_ != nullptr) return -1;
  for (; first_missing_ < states_.size(); ++first_missing_) {
    if (states_[first_missing_] != PartState::kMissing) continue;
    states_[first_missing_] = PartState::kQueued;
    return static_cast<int64_t>(first_missing_);
  }
  return -1;
}

void ObjectFile::fetch(int64_t part) {
  try {
    if (!resolve()) {  // looks again after what else is to do
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return shared_.queue->add(weak_from_this(), part, Urgency::kAhead);
    }
    int64_t part_bytes = 0;
    Buffer content;
    {
      const std::lock_guard lock(mutex_);
      if (mode_ == Mode::kWhole || part >= static_cast<int64_t>(states_.size())) return;
      PartState& state = states_[static_cast<size_t>(part)];
      if (state == PartState::kHere || state == PartState::kFetching) return;
      state = PartState::kFetching;
      part_bytes = part_bytes_;
      content = std::make_shared<std::vector<char>>(static_cast<size_t>(bytes_of_part(part)));
    }
    download_checked(part * part_bytes, *content);
    keep_part(part, part_bytes, content);
  } catch (...) {
    fail_part(part, std::current_exception());
  }
}

// Called within a retry loop.
std::shared_ptr<ObjectReader> ObjectFile::reader() {
  const std::lock_guard resolving(resolving_);
  if (reader_ != nullptr) return reader_;
  std::shared_ptr<ObjectReader> opened = store_.open(uri_, info_);
  reads_one_version_ = opened->reads_one_version();
  if (const std::string known = opened->md5(); !known.empty()) {
    const std::lock_guard lock(mutex_);
    md5_ = known;
  }
  if (reads_one_version_) {  // it may not be the version that was listed
    shared_.counters->requests += 2;
    require_unchanged(store_.find(uri_));
  }
  reader_ = opened;
  return reader_;
}

// Some readers do not read on after an error.
void ObjectFile::drop_reader(const std::shared_ptr<ObjectReader>& failed) {
  const std::lock_guard resolving(resolving_);
  if (reader_ == failed) reader_.reset();
}

void ObjectFile::download(int64_t offset, int64_t count, char* into) {
  try {
    for (int64_t done = 0; done < count;) {  // an answer that breaks off is continued where it did
      with_retries(*shared_.counters, [&] {
        const std::shared_ptr<ObjectReader> source = reader();
        int64_t got = 0;
        try {
          got = source->read_at(offset + done, count - done, into + done);
        } catch (const Error&) {
          drop_reader(source);
          throw;
        }
        done += got;
        shared_.counters->downloaded_bytes += got;
        if (got == 0)
          throw Error(ErrorCode::kUnavailable, cat("cannot read ", uri_.shown(), ": it ends after ",
                                                   offset + done, " bytes, expected ", bytes()));
      });
    }
  } catch (const ObjectChanged&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kInvalidArgument) throw;
    check_version();  // throws where the object has changed
    throw;
  }
}

void ObjectFile::keep_part(int64_t part, int64_t part_bytes, const Buffer& content) {
  bool is_last = false;
  Mode mode = Mode::kUnknown;
  {
    std::unique_lock lock(mutex_);
    if (mode_ == Mode::kWhole || part_bytes_ != part_bytes) return;  // its parts are others now
    mode = mode_;
    if (mode == Mode::kMemory)
      memory_[part] = content;
    else if (!write_part(part, content, lock) || !may_complete(lock))
      return;
    states_[static_cast<size_t>(part)] = PartState::kHere;
    is_last = --missing_ == 0 && mode == Mode::kDisk;
  }
  changed_.notify_all();
  if (is_last) finish();
  if (mode != Mode::kMemory) return;
  const auto leaving =
      shared_.memory->add({weak_from_this(), part, static_cast<int64_t>(content->size())});
  for (const MemoryParts::Part& one : leaving)
    if (const auto file = one.file.lock()) file->drop_memory_part(one.part);
}

// False when the disk is full: the object is read through memory from now on. Called with the lock
// held, which is released meanwhile.
bool ObjectFile::write_part(int64_t part, const Buffer& content,
                            std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<PartialObject> partial = partial_;
  lock.unlock();
  try {
    partial->write_part(part, content->data(), static_cast<int64_t>(content->size()));
  } catch (const Error& error) {
    use_memory(error.what());
    return false;
  }
  lock.lock();
  return partial_ == partial;
}

void ObjectFile::drop_memory_part(int64_t part) {
  const std::lock_guard lock(mutex_);
  if (memory_.erase(part) == 0) return;
  states_[static_cast<size_t>(part)] = PartState::kMissing;
  ++missing_;
}

void ObjectFile::finish() {
  std::shared_ptr<PartialObject> partial;
  std::string etag;
  {
    const std::lock_guard lock(mutex_);
    partial = partial_;
    etag = etag_;
  }
  if (partial == nullptr) return;
  try {
    shared_.cache->commit(*partial, etag);
  } catch (const Error& error) {  // its parts stay readable until this process ends
    warn_once("download to the cache", error.what());
    return;
  }
  const int descriptor = ::fcntl(partial->descriptor(), F_DUPFD_CLOEXEC, 0);
  if (descriptor >= 0) adopt_whole(descriptor);
}

void ObjectFile::fail_part(int64_t part, const std::exception_ptr& error) {
  bool is_final = false;
  try {
    std::rethrow_exception(error);
  } catch (const ObjectChanged&) {
    is_final = true;
  } catch (...) {
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_final) {
      ended_by_ = error;
      if (partial_ != nullptr) partial_->discard();
    }
    if (part < static_cast<int64_t>(states_.size()) &&
        states_[static_cast<size_t>(part)] != PartState::kHere) {
      states_[static_cast<size_t>(part)] = PartState::kFailed;
      errors_[part] = error;
    }
  }
  changed_.notify_all();
}

}  // namespace emblem
