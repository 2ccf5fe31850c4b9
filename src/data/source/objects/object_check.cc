// Whether an object is still the one that was opened, and arrived as the store has it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/math/checksum.h"
#include "core/system/log.h"
#include "data/source/data_set_manifest.h"
#include "data/source/objects/content_md5.h"
#include "data/source/objects/object_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool differs(const ObjectInfo& a, const ObjectInfo& b) {
  const bool times = a.modified != 0 && b.modified != 0 && a.modified != b.modified;
  const bool etags = !a.etag.empty() && !b.etag.empty() && a.etag != b.etag;
  return a.bytes != b.bytes || times || etags;
}

// What the whole content of an object is compared by.
class ContentSums {
 public:
  // `md5`: what the store says; "": nothing that is to be compared.
  ContentSums(const ObjectInfo& object, const std::string& md5)
      : object_(object), expected_md5_(md5) {}

  bool are_known() const { return !expected_md5_.empty() || !object_.checksum.empty(); }
  const std::string& expected_md5() const { return expected_md5_; }

  // Why what `read` gives is not the content of the object; "" if it is.
  std::string problem(const ObjectUri& uri, ContentCheck& check,
                      const std::function<void(const ContentCheck::Take&)>& read) const {
    std::string problem = check.problem(uri, expected_md5_, object_.bytes, read);
    if (!problem.empty() || object_.checksum.empty()) return problem;
    Checksum checksum;
    read([&](const char* data, size_t bytes) { checksum.add(data, bytes); });
    const std::string found = checksum_digits(checksum.value());
    if (object_.checksum == found) return "";
    return cat(uri.shown(), " is damaged: its content has the checksum ", found, ", but ",
               object_.checksum,
               " was written; start again, write the data set again (--force), "
               "or remove its ",
               kDataSetManifest, " to read what is there");
  }

 private:
  const ObjectInfo& object_;
  const std::string expected_md5_;
};

}  // namespace

// MD5 of the whole content, "" where it is not known or not to be compared: what the writer says
// of it counts more than parts of unknown sizes.
std::string ObjectFile::expected_md5() {
  const std::lock_guard lock(mutex_);
  const bool is_known_better = !info_.checksum.empty() && is_md5_of_parts(md5_);
  return shared_.check->compares(md5_) && !is_known_better ? md5_ : "";
}

// A part, and that the object is the one that was opened. Of an object of one part also that it
// arrived as it is; it is fetched again otherwise.
void ObjectFile::download_checked(int64_t offset, std::vector<char>& content) {
  std::string problem;
  std::vector<char> before;
  for (int attempt = 0; attempt < kDamagedAttempts; ++attempt) {
    download(offset, static_cast<int64_t>(content.size()), content.data());
    if (!reads_one_version_) check_version();
    if (static_cast<int64_t>(content.size()) < bytes()) return;
    const ContentSums sums(info_, expected_md5());
    problem = sums.problem(uri_, *shared_.check, [&](const ContentCheck::Take& take) {
      take(content.data(), content.size());
    });
    if (problem.empty()) return;
    if (is_md5_of_parts(sums.expected_md5()) && content == before)
      return shared_.check->accept_parts(uri_, sums.expected_md5());
    before = content;
    ++shared_.counters->retries;
  }
  throw ObjectChanged(ErrorCode::kCorruption, problem);
}

// Why all parts together are not what the store or the writer says; "" if they are. Of an object of
// several parts.
std::string ObjectFile::damage_of(const PartialObject& partial) {
  const ContentSums sums(info_, expected_md5());
  if (!sums.are_known() || partial.parts() < 2) return "";
  std::vector<char> piece(size_t{1} << 20);
  bool is_readable = true;
  std::string problem = sums.problem(uri_, *shared_.check, [&](const ContentCheck::Take& take) {
    for (int64_t at = 0; at < bytes();) {
      const ssize_t got = ::pread(partial.descriptor(), piece.data(), piece.size(), at);
      if (got < 0 && errno == EINTR) continue;
      is_readable = got > 0;
      if (!is_readable) return;
      take(piece.data(), static_cast<size_t>(std::min<int64_t>(got, bytes() - at)));
      at += got;
    }
  });
  if (!is_readable) return "";  // an error of the disk, which readers meet themselves
  if (problem.empty() || !is_md5_of_parts(sums.expected_md5()) || !arrives_again(partial))
    return problem;
  shared_.check->accept_parts(uri_, sums.expected_md5());
  return "";
}

// Whether another download of the object has the same content.
bool ObjectFile::arrives_again(const PartialObject& partial) {
  std::vector<char> here(static_cast<size_t>(partial.part_bytes())), there(here.size());
  for (int64_t at = 0; at < bytes(); at += partial.part_bytes()) {
    const int64_t count = std::min(partial.part_bytes(), bytes() - at);
    download(at, count, there.data());
    if (::pread(partial.descriptor(), here.data(), static_cast<size_t>(count), at) != count ||
        std::memcmp(here.data(), there.data(), static_cast<size_t>(count)) != 0)
      return false;
  }
  if (!reads_one_version_) check_version();
  return true;
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
