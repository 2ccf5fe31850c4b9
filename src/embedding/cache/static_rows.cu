#include "core/device/cuda_check.h"
#include "embedding/cache/static_rows.h"
#include "embedding/rows_ref.h"

namespace emblem::cuda {
namespace {

constexpr int kFillThreads = 256;

// 16 bytes of a row per thread.
template <class W>
__global__ void __launch_bounds__(kFillThreads)
    initialize_kernel(char* rows, int64_t count, int64_t dim, int64_t row_bytes,
                      Initializer initializer, uint64_t seed) {
  constexpr int kElements = 16 / sizeof(W);
  const int64_t pieces = row_bytes / 16;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kFillThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kFillThreads + threadIdx.x;
       i < count * pieces; i += step) {
    const int64_t key = i / pieces, first = i % pieces * kElements;
    alignas(16) W values[kElements];
    for (int k = 0; k < kElements; ++k)
      store_weight(&values[k], first + k < dim
                                   ? initializer(seed, static_cast<uint64_t>(key), first + k)
                                   : 0.0f);
    *reinterpret_cast<uint4*>(rows + i * 16) = *reinterpret_cast<const uint4*>(values);
  }
}

}  // namespace

int64_t row_bytes_of(int64_t dim, DType dtype) { return (dim * size_of(dtype) + 15) / 16 * 16; }

StaticRows::StaticRows(const TableSettings& settings, DType dtype, int64_t row_bytes)
    : count_(settings.capacity),
      dim_(settings.dim),
      row_bytes_(row_bytes),
      dtype_(dtype),
      initializer_(settings.initializer),
      seed_(settings.seed),
      memory_(settings.name, settings.capacity * row_bytes) {
  EMBLEM_REQUIRE(settings.kind == TableKind::kStatic, "table ", settings.name,
                 " is dynamic: its keys are not row numbers");
}

void StaticRows::initialize(const Context& context) {
  with_weight_type(dtype_, [&](auto type) {
    initialize_kernel<decltype(type)><<<1024, kFillThreads, 0, context.stream>>>(
        memory_.data(), count_, dim_, row_bytes_, initializer_, seed_);
  });
  cuda_check(cudaGetLastError(), "launching initialize_kernel");
  context.synchronize();
}

void StaticRows::set(int64_t first, const float* rows, int64_t count) {
  EMBLEM_REQUIRE(first >= 0 && first + count <= count_, "rows ", first, " to ", first + count,
                 " of a table of ", count_);
  with_weight_type(dtype_, [&](auto type) {
    for (int64_t r = 0; r < count; ++r) {
      auto* to = reinterpret_cast<decltype(type)*>(memory_.data() + (first + r) * row_bytes_);
      for (int64_t d = 0; d < dim_; ++d) store_weight(to + d, rows[r * dim_ + d]);
    }
  });
}

}  // namespace emblem::cuda
