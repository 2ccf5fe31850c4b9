// Whether an object is still the one that was opened, and arrived as the store has it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/log.h"
#include "data/source/md5.h"
#include "data/source/object_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool differs(const ObjectInfo& a, const ObjectInfo& b) {
  const bool times = a.modified != 0 && b.modified != 0 && a.modified != b.modified;
  const bool etags = !a.etag.empty() && !b.etag.empty() && a.etag != b.etag;
  return a.bytes != b.bytes || times || etags;
}

}  // namespace

// A part, and that the object is the one that was opened. Of an object of one part also that it
// arrived as it is; it is fetched again otherwise.
void ObjectFile::download_checked(int64_t offset, std::vector<char>& content) {
  std::string problem;
  for (int attempt = 0; attempt < kDamagedAttempts; ++attempt) {
    download(offset, static_cast<int64_t>(content.size()), content.data());
    if (!reads_one_version_) check_version();
    if (static_cast<int64_t>(content.size()) < bytes() || !shared_.check->is_on()) return;
    std::string expected;
    {
      const std::lock_guard lock(mutex_);
      expected = md5_;
    }
    if (expected.empty()) return;
    Md5 sum;
    sum.add(content.data(), content.size());
    problem = shared_.check->problem(uri_, expected, sum.hex());
    if (problem.empty()) return;
    ++shared_.counters->retries;
  }
  throw ObjectChanged(ErrorCode::kCorruption, problem);
}

// Why all parts together are not what the store says; "" if they are. Of an object of several
// parts.
std::string ObjectFile::damage_of(const PartialObject& partial) {
  std::string expected;
  {
    const std::lock_guard lock(mutex_);
    expected = md5_;
  }
  if (expected.empty() || !shared_.check->is_on() || partial.parts() < 2) return "";
  Md5 sum;
  std::vector<char> piece(size_t{1} << 20);
  for (int64_t at = 0; at < bytes();) {
    const ssize_t got = ::pread(partial.descriptor(), piece.data(), piece.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return "";  // an error of the disk, which readers meet themselves
    sum.add(piece.data(), static_cast<size_t>(std::min<int64_t>(got, bytes() - at)));
    at += got;
  }
  return shared_.check->problem(uri_, expected, sum.hex());
}

void ObjectFile::check_version() {
  std::optional<ObjectInfo> now;
  with_retries(*shared_.counters, [&] { now = store_.find(uri_); });
  require_unchanged(now);
}

void ObjectFile::require_unchanged(const std::optional<ObjectInfo>& now) {
  if (!now)
    throw ObjectChanged(
        ErrorCode::kNotFound,
        cat(uri_.shown(), " no longer exists; it was there when the data set was opened"));
  const std::lock_guard lock(mutex_);
  if (differs(info_, *now) || (!etag_.empty() && !now->etag.empty() && etag_ != now->etag))
    throw ObjectChanged(
        ErrorCode::kCorruption,
        cat(uri_.shown(), " has changed since the data set was opened: it has ", now->bytes,
            " bytes and the etag ", now->etag.empty() ? "none" : now->etag, ", it had ",
            info_.bytes, etag_.empty() ? "" : cat(" and ", etag_),
            "; start again to read what it is now"));
  if (etag_.empty()) etag_ = now->etag;
  if (md5_.empty()) md5_ = now->md5;
}

// Before the last part is announced: throws when the object as a whole is damaged. False when it
// has other parts now. Called with the lock held, which is released meanwhile.
bool ObjectFile::may_complete(std::unique_lock<std::mutex>& lock) {
  if (missing_ > 1) return true;
  const std::shared_ptr<PartialObject> partial = partial_;
  lock.unlock();
  const std::string problem = damage_of(*partial);
  if (!problem.empty()) {
    log_warn(problem);  // a reader may have had all that it wanted
    throw ObjectChanged(ErrorCode::kCorruption, problem);
  }
  lock.lock();
  return partial_ == partial;
}

}  // namespace emblem
