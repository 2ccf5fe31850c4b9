#include "data/source/objects/partial_object.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "core/math/checksum.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr uint64_t kMagic = 0x31747261706d6265ull;
constexpr uint64_t kDone = 0x656e6f6474726170ull;

struct Header {
  uint64_t magic;
  int64_t bytes;
  int64_t part_bytes;
  uint64_t version;  // hash of size and time of the object
};

struct Record {
  uint64_t checksum;
  uint64_t mark;  // tells a record from what a crash left
};

uint64_t mark_of(uint64_t checksum, int64_t part) {
  return checksum ^ kDone ^ (static_cast<uint64_t>(part) * 0x9e3779b97f4a7c15ull);
}

// The disk, the user's share of it, or the size that the process may give a file (ulimit -f).
bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

[[noreturn]] void fail(const char* doing, const std::string& path, int error) {
  throw Error(is_full(error) ? ErrorCode::kOutOfMemory : ErrorCode::kUnavailable,
              cat("cannot ", doing, " ", path, ": ", std::strerror(error)));
}

int open_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) fail("write", path, errno);
  return descriptor;
}

// Up to `bytes`; fewer at the end or where reading fails.
int64_t read_some_at(int descriptor, void* into, int64_t bytes, int64_t offset) {
  int64_t got = 0;
  while (got < bytes) {
    const ssize_t taken = ::pread(descriptor, static_cast<char*>(into) + got,
                                  static_cast<size_t>(bytes - got), offset + got);
    if (taken < 0 && errno == EINTR) continue;
    if (taken <= 0) break;
    got += taken;
  }
  return got;
}

Header header_of(const ObjectInfo& object, int64_t part_bytes) {
  const std::string version = cache_name(object);
  return {kMagic, object.bytes, part_bytes, checksum_of(version)};
}

}  // namespace

void write_at(int descriptor, const void* content, int64_t bytes, int64_t offset,
              const std::string& path) {
  const char* at = static_cast<const char*>(content);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor, at, static_cast<size_t>(bytes), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path, errno);
    at += written;
    bytes -= written;
    offset += written;
  }
}

PartialObject::PartialObject(PartialPaths paths, const ObjectInfo& object, int64_t part_bytes)
    : paths_(std::move(paths)),
      object_(object),
      part_bytes_(part_bytes),
      data_(open_file(paths_.data)),
      records_(open_file(paths_.parts)),
      done_(static_cast<size_t>(parts_of(object.bytes, part_bytes))),
      checksums_(done_.size()) {
  const Header header = header_of(object, part_bytes);
  Header found{};
  const bool continues = read_some_at(records_.get(), &found, sizeof found, 0) == sizeof found &&
                         std::memcmp(&found, &header, sizeof header) == 0;
  if (continues) {
    read_parts();
  } else {
    if (::ftruncate(records_.get(), 0) != 0) fail("write", paths_.parts, errno);
    if (::ftruncate(data_.get(), 0) != 0) fail("write", paths_.data, errno);
    write_at(records_.get(), &header, sizeof header, 0, paths_.parts);
  }
  // A disk without room for it says so now. Some file systems cannot reserve; they say so later.
  if (object.bytes > 0 && ::fallocate(data_.get(), 0, 0, object.bytes) != 0 && is_full(errno))
    fail("write", paths_.data, errno);
}

void PartialObject::read_parts() {
  const auto content = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(part_bytes_));
  for (int64_t part = 0; part < parts(); ++part) {
    Record record{};
    const auto offset =
        static_cast<int64_t>(sizeof(Header) + sizeof(Record) * static_cast<size_t>(part));
    if (read_some_at(records_.get(), &record, sizeof record, offset) != sizeof record ||
        record.mark != mark_of(record.checksum, part))
      continue;
    const int64_t begin = part * part_bytes_;
    const int64_t bytes = std::min(part_bytes_, object_.bytes - begin);
    if (read_some_at(data_.get(), content.get(), bytes, begin) != bytes ||
        checksum_of(content.get(), static_cast<size_t>(bytes)) != record.checksum)
      continue;
    done_[static_cast<size_t>(part)] = 1;
    checksums_[static_cast<size_t>(part)] = record.checksum;
  }
}

void PartialObject::write_part(int64_t part, const char* content, int64_t bytes) {
  write_at(data_.get(), content, bytes, part * part_bytes_, paths_.data);
  const uint64_t checksum = checksum_of(content, static_cast<size_t>(bytes));
  const Record record{checksum, mark_of(checksum, part)};
  write_at(records_.get(), &record, sizeof record,
           static_cast<int64_t>(sizeof(Header) + sizeof(Record) * static_cast<size_t>(part)),
           paths_.parts);
  checksums_[static_cast<size_t>(part)] = checksum;
}

CacheEntry PartialObject::entry(const std::string& etag) const {
  CacheEntry entry;
  entry.object = object_;
  entry.object.etag = etag;
  entry.part_bytes = part_bytes_;
  entry.checksums = checksums_;
  entry.fetched = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
  return entry;
}

void PartialObject::discard() {
  ::unlink(paths_.parts.c_str());
  ::unlink(paths_.data.c_str());
}

}  // namespace emblem
