#include "core/files/page_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "emblem/error.h"

namespace emblem {
namespace {

// A file open for reading.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY)) {
    if (descriptor_ < 0)
      throw Error(ErrorCode::kNotFound, cat("cannot open ", path, ": ", std::strerror(errno)));
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  size_t bytes() const {
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 ? static_cast<size_t>(status.st_size) : 0;
  }

 private:
  int descriptor_;
};

// Pages of a file in memory.
size_t cached_pages(const OpenFile& file, size_t pages) {
  void* const map = ::mmap(nullptr, file.bytes(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (map == MAP_FAILED) return 0;
  std::vector<unsigned char> marks(pages);
  const bool known = ::mincore(map, file.bytes(), marks.data()) == 0;
  ::munmap(map, file.bytes());
  if (!known) return 0;
  return static_cast<size_t>(
      std::count_if(marks.begin(), marks.end(), [](unsigned char mark) { return mark & 1; }));
}

}  // namespace

double cached_share(std::span<const std::string> paths) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t all = 0, cached = 0;
  for (const std::string& path : paths) {
    const OpenFile file(path);
    const size_t pages = (file.bytes() + page - 1) / page;
    if (pages > 0) cached += cached_pages(file, pages);
    all += pages;
  }
  return all == 0 ? 1.0 : static_cast<double>(cached) / static_cast<double>(all);
}

void fill_page_cache(std::span<const std::string> paths) {
  std::vector<char> buffer(size_t{1} << 20);
  for (const std::string& path : paths) {
    const OpenFile file(path);
    while (::read(file.descriptor(), buffer.data(), buffer.size()) > 0) {
    }
  }
}

void drop_page_cache(std::span<const std::string> paths) {
  for (const std::string& path : paths) {
    const OpenFile file(path);
    ::fdatasync(file.descriptor());
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

}  // namespace emblem
