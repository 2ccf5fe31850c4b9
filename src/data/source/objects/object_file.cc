// Reading: what is here is copied, what is not is asked for and waited for.
#include "data/source/objects/object_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kEndBytes = int64_t{64} << 10;    // enough for headers and footers
constexpr int64_t kSmallObject = int64_t{1} << 20;  // fetched whole when any of it is needed

}  // namespace

std::vector<MemoryParts::Part> MemoryParts::add(Part part) {
  const std::lock_guard lock(mutex_);
  bytes_ += part.bytes;
  parts_.push_back(std::move(part));
  std::vector<Part> leaving;
  while (bytes_ > most_bytes_ && parts_.size() > 1) {
    bytes_ -= parts_.front().bytes;
    leaving.push_back(std::move(parts_.front()));
    parts_.pop_front();
  }
  return leaving;
}

ObjectFile::ObjectFile(const ObjectInfo& info, ObjectStore& store, const RemoteParts& shared)
    : info_(info),
      uri_(parse_object_uri(info.uri)),
      store_(store),
      shared_(shared),
      etag_(info.etag) {
  resize_parts(shared.part_bytes);
}

ObjectFile::~ObjectFile() {
  const int descriptor = whole_.load();
  if (descriptor >= 0) ::close(descriptor);
}

void ObjectFile::resize_parts(int64_t part_bytes) {
  part_bytes_ = part_bytes;
  states_.assign(static_cast<size_t>(parts_of(bytes(), part_bytes)), PartState::kMissing);
  errors_.clear();
  missing_ = static_cast<int64_t>(states_.size());
  first_missing_ = 0;
}

int64_t ObjectFile::bytes_of_part(int64_t part) const {
  return std::min(part_bytes_, bytes() - part * part_bytes_);
}

void ObjectFile::read(int64_t offset, int64_t count, void* into) {
  char* at = static_cast<char*>(into);
  while (count > 0) {
    if (read_whole(offset, count, at)) return;
    look_into_cache();
    const bool is_all = at == into;  // rather than what is left of a longer piece
    if (read_whole(offset, count, at) || (is_all && read_end(offset, count, at))) return;
    const int64_t taken = read_from_part(offset, count, at);
    at += taken;
    offset += taken;
    count -= taken;
  }
}

bool ObjectFile::read_whole(int64_t offset, int64_t count, char* into) const {
  const int descriptor = whole_.load(std::memory_order_acquire);
  if (descriptor < 0) return false;
  while (count > 0) {
    const ssize_t got = ::pread(descriptor, into, static_cast<size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error(
          ErrorCode::kUnavailable,
          cat("cannot read ", uri_.shown(), " from the cache folder ", shared_.cache->folder(),
              ": ", got < 0 ? std::strerror(errno) : "its copy became shorter"));
    into += got;
    offset += got;
    count -= got;
  }
  return true;
}

// Headers and footers of large objects are read when a data set is opened, long before their rows.
bool ObjectFile::read_end(int64_t offset, int64_t count, char* into) {
  const bool in_start = offset + count <= kEndBytes;
  const int64_t end_begin = bytes() - kEndBytes;
  if (bytes() <= kSmallObject || (!in_start && offset < end_begin)) return false;
  Buffer found;
  {
    const std::lock_guard lock(mutex_);
    if (states_[static_cast<size_t>(offset / part_bytes_)] != PartState::kMissing) return false;
    found = in_start ? start_ : end_;
  }
  const int64_t begin = in_start ? 0 : end_begin;
  if (found == nullptr) {
    found = std::make_shared<std::vector<char>>(static_cast<size_t>(kEndBytes));
    download(begin, kEndBytes, found->data());
    const std::lock_guard lock(mutex_);
    (in_start ? start_ : end_) = found;
  }
  std::memcpy(into, found->data() + (offset - begin), static_cast<size_t>(count));
  return true;
}

// Copies bytes of the part that has `offset`. 0: the object has become whole, or its parts others.
int64_t ObjectFile::read_from_part(int64_t offset, int64_t count, char* into) {
  std::unique_lock lock(mutex_);
  const int64_t part_bytes = part_bytes_;
  const int64_t part = offset / part_bytes;
  if (!wait_for(part, part_bytes, lock)) return 0;
  const int64_t taken = std::min(count, (part + 1) * part_bytes - offset);
  if (mode_ == Mode::kMemory) {
    const Buffer content = memory_.at(part);
    lock.unlock();
    std::memcpy(into, content->data() + (offset - part * part_bytes), static_cast<size_t>(taken));
    return taken;
  }
  const std::shared_ptr<PartialObject> partial = partial_;
  lock.unlock();
  for (int64_t done = 0; done < taken;) {
    const ssize_t got = ::pread(partial->descriptor(), into + done,
                                static_cast<size_t>(taken - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot read ", partial->paths().data, ": ",
                      got < 0 ? std::strerror(errno) : "the file became shorter"));
    done += got;
  }
  return taken;
}

// Waits until the part is here; false when there is no such part any more.
bool ObjectFile::wait_for(int64_t part, int64_t part_bytes, std::unique_lock<std::mutex>& lock) {
  const auto start = Clock::now();
  bool asked = false;
  while (true) {
    if (ended_by_ != nullptr) std::rethrow_exception(ended_by_);
    if (mode_ == Mode::kWhole || part_bytes_ != part_bytes) return false;
    PartState& state = states_[static_cast<size_t>(part)];
    if (state == PartState::kHere) break;
    if (state == PartState::kFailed) {
      const std::exception_ptr error = errors_[part];
      errors_.erase(part);
      state = PartState::kMissing;  // the next reader tries again
      first_missing_ = std::min(first_missing_, static_cast<size_t>(part));
      std::rethrow_exception(error);
    }
    if (state == PartState::kMissing || (state == PartState::kQueued && !asked)) {
      state = PartState::kQueued;
      asked = true;
      lock.unlock();
      shared_.queue->add(weak_from_this(), part, Urgency::kNow);
      lock.lock();
      continue;
    }
    changed_.wait(lock);
  }
  const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  shared_.counters->wait_nanoseconds += waited.count();
  return true;
}

void ObjectFile::prefetch(int64_t offset, int64_t count) {
  if (whole_.load(std::memory_order_acquire) >= 0 || count <= 0) return;
  std::vector<int64_t> wanted;
  {
    const std::lock_guard lock(mutex_);
    if (mode_ == Mode::kWhole || ended_by_ != nullptr) return;
    const int64_t last = std::min(offset + count, bytes()) - 1;
    for (int64_t part = offset / part_bytes_; part <= last / part_bytes_; ++part) {
      PartState& state = states_[static_cast<size_t>(part)];
      if (state != PartState::kMissing) continue;
      state = PartState::kQueued;
      wanted.push_back(part);
    }
  }
  for (const int64_t part : wanted) shared_.queue->add(weak_from_this(), part, Urgency::kAhead);
}

}  // namespace emblem
