#include "embedding/cpu/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "core/memory/allocation_fault.h"
#include "emblem/error.h"

namespace emblem {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
constexpr std::align_val_t kLine{64};
}  // namespace

Pages::Pages(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes < kHugePage) {
    data_ = static_cast<char*>(::operator new(bytes, kLine));
    std::memset(data_, 0, bytes);
    return;
  }
  mapped_bytes_ = bytes + kHugePage;  // room to align
  mapping_ = allocation_must_fail() ? MAP_FAILED
                                    : mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw Error(ErrorCode::kOutOfMemory,
                cat("no memory for ", bytes,
                    " bytes of an embedding table: make the table smaller (capacity, "
                    "embedding_dim, data_type) or use a machine with more memory"));
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  data_ = reinterpret_cast<char*>((address + kHugePage - 1) / kHugePage * kHugePage);
  madvise(data_, bytes,
          MADV_HUGEPAGE);  // a hint: without huge pages it is only slower
}

Pages::~Pages() {
  if (mapping_ != nullptr)
    munmap(mapping_, mapped_bytes_);
  else
    ::operator delete(data_, kLine);
}

}  // namespace emblem
