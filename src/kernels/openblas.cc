#if defined(EMBLEM_GEMM_OPENBLAS)

#include "kernels/openblas.h"

#include <cblas.h>
#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <vector>

#include "core/dynamic_library.h"
#include "emblem/error.h"

namespace emblem::cpu {
namespace {

// OpenBLAS starts threads when it is loaded, and sends the process SIGINT when it cannot. The
// parallel loops are ours, so it needs none: it reads this variable when it is loaded. Set before
// main, while no other thread can read the environment.
[[maybe_unused]] const int single_threaded = setenv("OPENBLAS_NUM_THREADS", "1", 1);

// BUFFER_SIZE of OpenBLAS, or more.
#if defined(__aarch64__)
constexpr size_t kBufferBytes = size_t{33} << 20;
#else
constexpr size_t kBufferBytes = size_t{129} << 20;
#endif

class OpenBlas {
 public:
  OpenBlas() {
    const DynamicLibrary library(EMBLEM_OPENBLAS_LIBRARY,
                                 "matrix products on the CPU need it: install OpenBLAS or add its "
                                 "folder to LD_LIBRARY_PATH");
    library.find("cblas_sgemm", sgemm);
    library.find_optional("blas_memory_alloc", allocate_);
    library.find_optional("blas_memory_free", free_);
    decltype(&openblas_set_num_threads) set_num_threads = nullptr;
    library.find("openblas_set_num_threads", set_num_threads);
    set_num_threads(1);
  }

  // A product takes one of the library's buffers; the library maps another when all are in use, and
  // tries again for ever when it cannot. So every thread makes sure once that there is a buffer for
  // each of the threads so far.
  void reserve_buffer() {
    if (allocate_ == nullptr || free_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    std::vector<void*> held;
    const auto free_held = [&] {
      for (void* buffer : held) free_(buffer);
    };
    while (buffers_.size() <= threads_) {
      if (!can_map_buffer()) {
        free_held();
        throw Error(
            ErrorCode::kOutOfMemory,
            cat("no memory for the ", kBufferBytes,
                " bytes that OpenBLAS needs for each thread; use --threads N with a smaller "
                "N or raise ulimit -v"));
      }
      held.push_back(allocate_(0));
      buffers_.insert(held.back());
    }
    free_held();
    ++threads_;
  }

  decltype(&cblas_sgemm) sgemm = nullptr;

 private:
  static bool can_map_buffer() {
    void* data =
        mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return false;
    munmap(data, kBufferBytes);
    return true;
  }

  void* (*allocate_)(int) = nullptr;
  void (*free_)(void*) = nullptr;
  std::mutex mutex_;
  std::set<void*> buffers_;  // that the library is known to have
  size_t threads_ = 0;       // that have reserved one
};

OpenBlas& open_blas() {
  static OpenBlas library;
  thread_local const bool reserved = (library.reserve_buffer(), true);
  static_cast<void>(reserved);
  return library;
}

CBLAS_TRANSPOSE cblas(Transpose transpose) {
  return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

}  // namespace

void openblas_gemm(Transpose transpose_a, Transpose transpose_b, float alpha, Matrix<const float> a,
                   Matrix<const float> b, int64_t inner, float beta, Matrix<float> c) {
  open_blas().sgemm(CblasRowMajor, cblas(transpose_a), cblas(transpose_b), static_cast<int>(c.rows),
                    static_cast<int>(c.cols), static_cast<int>(inner), alpha, a.data,
                    static_cast<int>(a.stride), b.data, static_cast<int>(b.stride), beta, c.data,
                    static_cast<int>(c.stride));
}

}  // namespace emblem::cpu

#endif
