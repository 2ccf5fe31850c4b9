#include "bench/machine/ceilings.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/math/random.h"
#include "core/memory/buffer.h"
#include "core/memory/prefetch.h"
#include "core/system/process.h"
#include "core/system/seconds_since.h"
#include "core/threads/thread_pool.h"
#include "kernels/cpu/tile_kernel.h"
#include "kernels/gemm.h"

namespace emblem {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGrainBytes = kMiB;  // bytes that one thread works on at a time
constexpr int64_t kRowsCopiedAtOnce = 2048;
constexpr int64_t kPrefetchRows = 16;  // enough requests in flight to hide the latency of a miss

int64_t buffer_bytes(const CeilingEffort& effort) {
  if (effort.memory_bytes > 0) return effort.memory_bytes;
  int64_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  cache = std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 0);
#endif
  return std::min(std::max(128 * kMiB, 4 * cache), total_memory_bytes() / 16);
}

// Huge pages if available: the limit is that of memory, not of address translation.
Buffer<float> touched_buffer(const Context& context, int64_t rows, int64_t cols, float value) {
  Buffer<float> buffer(Device::kCpu, rows, cols);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(buffer.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(buffer.data() + buffer.size()) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  parallel_for(context, buffer.size(), kGrainBytes / int64_t{sizeof(float)},
               [&](int64_t from, int64_t to) {
                 std::fill(buffer.data() + from, buffer.data() + to, value);
               });
  return buffer;
}

// The shortest time of one call. The first calls warm up caches, page tables and clock rates.
template <class Body>
double best_seconds(double budget, Body&& body) {
  using Clock = std::chrono::steady_clock;
  double best = HUGE_VAL;
  const auto start = Clock::now();
  for (int repetition = 0; repetition < 2 || seconds_since(start) < budget; ++repetition) {
    const auto one = Clock::now();
    body();
    best = std::min(best, seconds_since(one));
  }
  return std::max(best, 1e-9);
}

// Adds the rows to `sum`, which stays in the cache: memory is only read.
void add_rows(const float* table, const uint32_t* rows, int64_t count, int64_t dim, float* sum) {
  for (int64_t i = 0; i < count; ++i) {
    if (i + kPrefetchRows < count) prefetch(table + rows[i + kPrefetchRows] * dim, dim * 4);
    const float* row = table + rows[i] * dim;
    for (int64_t d = 0; d < dim; ++d) sum[d] += row[d];
  }
}

void copy_rows(const float* table, const RowCopies& of, const int64_t* rows, int64_t count,
               int64_t ahead, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    if (i + ahead < count) prefetch(table + rows[i + ahead] * of.row_floats, of.copied_floats * 4);
    const float* row = table + rows[i] * of.row_floats;
    for (int64_t c = 0; c < of.copies; ++c, to += of.copied_floats)
      std::copy_n(row, of.copied_floats, to);
  }
}

}  // namespace

CeilingEffort usual_effort() {
  if (std::getenv(kBriefCeilings) == nullptr) return {};
  return {.memory_bytes = kMiB, .gemm_size = 64, .seconds = 0};
}

double measure_copy(const Context& context, const CeilingEffort& effort) {
  const int64_t count = std::max<int64_t>(buffer_bytes(effort) / int64_t{sizeof(float)}, 1);
  const Buffer<float> from = touched_buffer(context, count, 1, 1.0f);
  Buffer<float> to = touched_buffer(context, count, 1, 0.0f);
  const double seconds = best_seconds(effort.seconds, [&] {
    parallel_for(context, count, kGrainBytes / int64_t{sizeof(float)},
                 [&](int64_t begin, int64_t end) {
                   std::memcpy(to.data() + begin, from.data() + begin,
                               static_cast<size_t>(end - begin) * sizeof(float));
                 });
  });
  EMBLEM_REQUIRE(to.data()[count - 1] == 1.0f, "the copy benchmark copied nothing");
  return 2.0 * static_cast<double>(count) * sizeof(float) / seconds;
}

double measure_gather(const Context& context, int64_t dim, const CeilingEffort& effort) {
  EMBLEM_REQUIRE(dim >= 1, "rows of ", dim, " floats cannot be gathered; expected at least 1");
  const int64_t row_bytes = dim * int64_t{sizeof(float)};
  const int64_t table_rows = std::clamp<int64_t>(buffer_bytes(effort) / row_bytes, 1, UINT32_MAX);
  const Buffer<float> table = touched_buffer(context, table_rows, dim, 1.0f);
  // A quarter of the bytes of the table: still larger than the caches.
  const int64_t reads = std::max<int64_t>(table_rows / 4, 1);
  std::vector<uint32_t> rows(reads);
  parallel_for(context, reads, kMiB, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      rows[i] = static_cast<uint32_t>(
          (random_bits(1, 0, i) >> 32) * static_cast<uint64_t>(table_rows) >> 32);
  });

  const int64_t grain = std::max<int64_t>(kGrainBytes / row_bytes, 1);
  std::vector<float> sums((reads + grain - 1) / grain * dim);
  const double seconds = best_seconds(effort.seconds, [&] {
    std::fill(sums.begin(), sums.end(), 0.0f);
    parallel_for(context, reads, grain, [&](int64_t begin, int64_t end) {
      add_rows(table.data(), rows.data() + begin, end - begin, dim,
               sums.data() + begin / grain * dim);
    });
  });
  EMBLEM_REQUIRE(sums[0] == static_cast<float>(std::min(grain, reads)),
                 "the gather benchmark read wrong rows");
  return static_cast<double>(reads) * static_cast<double>(row_bytes) / seconds;
}

double measure_row_copies(const Context& context, const RowCopies& of,
                          const CeilingEffort& effort) {
  const Buffer<float> table = touched_buffer(context, of.rows, of.row_floats, 1.0f);
  const int64_t width = of.copied_floats * of.copies;
  size_t most = 0;
  for (const auto& batch : of.batches) most = std::max(most, batch.size());
  std::vector<Buffer<float>> outputs;
  for (int64_t o = 0; o < of.outputs; ++o)
    outputs.push_back(touched_buffer(context, static_cast<int64_t>(most), width, 0.0f));
  const auto copy = [&](size_t number, int64_t ahead) {
    const std::vector<int64_t>& batch = of.batches[number];
    float* to = outputs[number % outputs.size()].data();
    parallel_for(context, static_cast<int64_t>(batch.size()), kRowsCopiedAtOnce,
                 [&](int64_t begin, int64_t end) {
                   copy_rows(table.data(), of, batch.data() + begin, end - begin, ahead,
                             to + begin * width);
                 });
  };
  double best = HUGE_VAL;
  for (const int64_t ahead : {4, 8, 16, 32, 48}) {
    best = std::min(best, best_seconds(effort.seconds / 5, [&] {
                      for (size_t b = 0; b < of.batches.size(); ++b) copy(b, ahead);
                    }));
  }
  EMBLEM_REQUIRE(most == 0 || outputs[0].data()[0] == 1.0f,
                 "the benchmark of row copies copied nothing");
  return best / static_cast<double>(std::max<size_t>(of.batches.size(), 1));
}

double measure_gemm(const Context& context, DType type, const CeilingEffort& effort) {
  const int64_t n = effort.gemm_size;
  EMBLEM_REQUIRE(n >= 1, "a matrix product of size ", n,
                 " cannot be measured; expected at least 1");
  Buffer<float> a = touched_buffer(context, n, n, 1.0f), b = touched_buffer(context, n, n, 1.0f);
  Buffer<float> c = touched_buffer(context, n, n, 0.0f);
  const double seconds = best_seconds(effort.seconds, [&] {
    cpu::gemm(context, Transpose::kNo, Transpose::kNo, 1.0f, Matrix<const float>(a.data(), n, n),
              Matrix<const float>(b.data(), n, n), 0.0f, Matrix<float>(c.data(), n, n), type);
  });
  EMBLEM_REQUIRE(c.data()[n * n - 1] == static_cast<float>(n),
                 "the matrix product benchmark is wrong");
  return 2.0 * std::pow(static_cast<double>(n), 3) / seconds;
}

double measure_arithmetic(const Context& context, DType type, const CeilingEffort& effort) {
  return measure_arithmetic(context, cpu::tile_kernel(type), effort);
}

double measure_arithmetic(const Context& context, const cpu::TileKernel& kernel,
                          const CeilingEffort& effort) {
  const int64_t threads = context.threads == nullptr ? 1 : context.threads->threads();
  constexpr int64_t kSteps = 20'000;
  const double seconds = best_seconds(effort.seconds, [&] {
    parallel_for(context, threads, 1, [&](int64_t, int64_t) { kernel.spin(kSteps); });
  });
  return static_cast<double>(threads * kSteps * kernel.spin_flops) / seconds;
}

Ceilings measure_ceilings(const Context& context, int64_t dim, DType type,
                          const CeilingEffort& effort) {
  return {measure_copy(context, effort), measure_gather(context, dim, effort),
          measure_gemm(context, type, effort), measure_arithmetic(context, type, effort)};
}

}  // namespace emblem
