#if defined(EMBLEM_GEMM_OPENBLAS) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "emblem/error.h"
#include "kernels/gemm.h"

namespace emblem {
namespace {

// The exit status of a child process that runs `body`.
int status_of_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void multiply() {
  std::vector<float> a(64 * 64, 1.0f), c(64 * 64);
  const Matrix<const float> of(a.data(), 64, 64);
  cpu::gemm_block(Transpose::kNo, Transpose::kNo, 1.0f, of, of, 0.0f, {c.data(), 64, 64});
}

// OpenBLAS itself would try to map a buffer for ever.
TEST(OpenBlas, AThreadWithoutMemoryForABufferGetsAnError) {
  constexpr int kThreads = 8, kRefused = 42;
  const int status = status_of_child([] {
    const rlim_t limit = address_space() + (rlim_t{150} << 20);
    const rlimit limits = {limit, limit};
    if (setrlimit(RLIMIT_AS, &limits) != 0) return 1;
    int result = 0;
    for (int i = 0; i < kThreads; ++i) {
      std::thread([&] {
        try {
          multiply();
        } catch (const Error& error) {
          if (error.code() == ErrorCode::kOutOfMemory) result = kRefused;
        }
      }).join();
    }
    return result;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
}

}  // namespace
}  // namespace emblem

#endif
