#include "data/format/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "core/math/divide.h"
#include "core/threads/thread_pool.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kBlock = 4096;                    // what every device can read directly
constexpr int64_t kDirectBytes = int64_t{1} << 20;  // at a time: in the cache when it is copied on

class AlignedBlock {
 public:
  explicit AlignedBlock(int64_t bytes)
      : data_(static_cast<char*>(::operator new(static_cast<size_t>(bytes), kAlignment))),
        bytes_(bytes) {}
  ~AlignedBlock() { ::operator delete(data_, kAlignment); }
  AlignedBlock(const AlignedBlock&) = delete;
  AlignedBlock& operator=(const AlignedBlock&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::align_val_t kAlignment{kBlock};
  char* data_;
  int64_t bytes_;
};

#if defined(EMBLEM_TEST_HOOKS)

double bytes_per_second() {
  const char* rate = std::getenv("EMBLEM_TEST_READ_BYTES_PER_SECOND");
  return rate == nullptr ? 0.0 : std::atof(rate);
}

// The disk: one for the process, as there would be one for the machine.
struct ThrottledDisk {
  double rate = bytes_per_second();
  std::mutex mutex;
  std::chrono::steady_clock::time_point free = std::chrono::steady_clock::now();
};

// Sleeps until `bytes` more may have been read at EMBLEM_TEST_READ_BYTES_PER_SECOND, a limit for
// all threads together, as on a slow disk. Returns at once where the variable is not set.
void throttle_read(int64_t bytes) {
  static ThrottledDisk disk;
  if (disk.rate <= 0) return;
  std::chrono::steady_clock::time_point done;
  {
    const std::lock_guard lock(disk.mutex);
    disk.free = std::max(disk.free, std::chrono::steady_clock::now()) +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(static_cast<double>(bytes) / disk.rate));
    done = disk.free;
  }
  std::this_thread::sleep_until(done);
}

#else

void throttle_read(int64_t) {}

#endif

}  // namespace

InputFile::InputFile(std::string path, const Storage& storage) : path_(std::move(path)) {
  if (is_object_uri(path_)) {
    remote_ = storage_for(storage, path_).open(path_);
    storage_ = storage;
    path_ = shown_uri(path_);
    bytes_ = remote_->bytes();
    return;
  }
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0 && errno == EMFILE) {
    throw Error(ErrorCode::kUnavailable,
                cat("cannot open ", path_,
                    ": this process may not have more files open; raise "
                    "`ulimit -n`, or join small files by `emblem convert --bundle-gb 1`"));
  }
  if (descriptor_ < 0) {
    throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                cat("cannot open ", path_, ": ", std::strerror(errno)));
  }
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  bytes_ = static_cast<int64_t>(status.st_size);
  if (known && S_ISREG(status.st_mode)) return;
  const int error = errno;
  ::close(descriptor_);
  if (!known)
    throw Error(ErrorCode::kUnavailable, cat("cannot read ", path_, ": ", std::strerror(error)));
  throw Error(ErrorCode::kInvalidArgument, cat(path_, " is not a file; give a file of data"));
}

InputFile InputFile::adopt(std::string path, int descriptor) {
  InputFile file;
  file.path_ = std::move(path);
  file.descriptor_ = descriptor;
  file.bytes_ = static_cast<int64_t>(::lseek(descriptor, 0, SEEK_END));
  return file;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      storage_(std::move(other.storage_)),
      remote_(std::move(other.remote_)),
      bytes_(other.bytes_),
      direct_(other.direct_) {}

bool InputFile::read_directly() {
  if (remote_ != nullptr) return false;
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) return false;
  direct_ = ::pread(descriptor_, AlignedBlock(kBlock).data(), kBlock, 0) > 0;  // some refuse here
  if (!direct_) ::fcntl(descriptor_, F_SETFL, flags);
  return direct_;
}

int64_t InputFile::read_some(int64_t offset, int64_t count, char* into) const {
  ssize_t got = -1;
  do {
    got = ::pread(descriptor_, into, static_cast<size_t>(count), offset);
  } while (got < 0 && errno == EINTR);
  if (got < 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot read ", path_, ": ", std::strerror(errno)));
  return got;
}

void InputFile::require_more(int64_t got, int64_t offset) const {
  if (got > 0) return;
  throw Error(ErrorCode::kCorruption,
              cat(path_, " became shorter while it was read: it ends at byte ", offset, ", it had ",
                  bytes_, " bytes"));
}

void InputFile::read_remote(int64_t offset, int64_t count, void* into) const {
  if (offset + count > bytes_) require_more(0, bytes_);
  remote_->read(offset, count, into);
}

void InputFile::prefetch(int64_t offset, int64_t count) const {
  if (remote_ != nullptr) remote_->prefetch(offset, count);
}

void InputFile::read(int64_t offset, int64_t count, void* into) const {
  throttle_read(count);
  if (remote_ != nullptr) return read_remote(offset, count, into);
  char* at = static_cast<char*>(into);
  if (!direct_) {
    while (count > 0) {
      const int64_t got = read_some(offset, count, at);
      require_more(got, offset);
      at += got;
      offset += got;
      count -= got;
    }
    return;
  }
  // Whole blocks, through memory that begins at one.
  const AlignedBlock room(std::min(kDirectBytes, round_up(count, kBlock) + kBlock));
  while (count > 0) {
    const int64_t before = offset % kBlock;
    const int64_t wanted = std::min(room.bytes(), round_up(before + count, kBlock));
    const int64_t got = std::min(read_some(offset - before, wanted, room.data()) - before, count);
    require_more(got, offset);
    std::memcpy(at, room.data() + before, static_cast<size_t>(got));
    at += got;
    offset += got;
    count -= got;
  }
}

std::vector<InputFile> open_input_files(const std::vector<std::string>& paths,
                                        const Storage& storage) {
  std::vector<InputFile> files;
  files.reserve(paths.size());
  std::vector<const InputFile*> remote;
  for (const std::string& path : paths) {
    files.emplace_back(path, storage);
    if (is_object_uri(path) && files.back().bytes() > 0) remote.push_back(&files.back());
  }
  if (remote.size() < 2) return files;
  ThreadPool pool(
      std::min<int>(storage->options().download_threads, static_cast<int>(remote.size())));
  parallel_for(Context{.threads = &pool}, static_cast<int64_t>(remote.size()), 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   char start = 0;
                   remote[static_cast<size_t>(i)]->read(0, 1, &start);
                 }
               });
  return files;
}

}  // namespace emblem
