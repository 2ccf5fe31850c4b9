#include "embedding/cuda/key_space_memory.h"

#include "core/cuda_check.h"
#include "embedding/cuda/key_space.cuh"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

__global__ void empty_buckets_kernel(Bucket* buckets, uint64_t count) {
  const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at < count) buckets[at] = {{}, {kNoRow, kNoRow, kNoRow, kNoRow, kNoRow}, 0};
}

__global__ void insert_all_kernel(KeySpace keys) {
  const uint32_t row = blockIdx.x * kThreads + threadIdx.x;
  if (row < keys.counters->fresh && keys.meta[row].score != kUnusedScore)
    keys.insert(keys.meta[row].key, row);
}

}  // namespace

KeySpaceMemory::KeySpaceMemory(const Context& context, const std::string& name, int64_t rows,
                               int64_t most_rows)
    : name_(name),
      meta_(name, most_rows * sizeof(RowMeta)),
      spare_rows_(name, most_rows * sizeof(uint32_t)),
      counters_(Device::kCuda, sizeof(KeyCounters)) {
  cuda_check(cudaMemsetAsync(counters_.data(), 0, sizeof(KeyCounters), context.stream), "zeroing");
  grow(context, rows);
}

KeySpaceMemory::~KeySpaceMemory() = default;

Buffer<char> KeySpaceMemory::make_buckets(const Context& context, int64_t rows) const {
  const auto count =
      static_cast<int64_t>(static_cast<double>(rows) / (kBucketSlots * kBucketLoad)) + 1;
  Buffer<char> buckets;
  try {
    buckets = Buffer<char>(Device::kCuda, count, sizeof(Bucket));
  } catch (const Error&) {
    throw_out_of_device_memory(name_, count * sizeof(Bucket));
  }
  empty_buckets_kernel<<<blocks_for(count), kThreads, 0, context.stream>>>(
      reinterpret_cast<Bucket*>(buckets.data()), count);
  cuda_check(cudaGetLastError(), "launching empty_buckets_kernel");
  return buckets;
}

KeySpace KeySpaceMemory::ref() const {
  KeySpace space;
  space.buckets = reinterpret_cast<Bucket*>(const_cast<char*>(buckets_.data()));
  space.bucket_count = static_cast<uint64_t>(buckets_.size()) / sizeof(Bucket);
  space.meta = reinterpret_cast<RowMeta*>(meta_.data());
  space.spare_rows = reinterpret_cast<uint32_t*>(spare_rows_.data());
  space.counters = reinterpret_cast<KeyCounters*>(const_cast<char*>(counters_.data()));
  space.rows = rows_;
  return space;
}

int64_t KeySpaceMemory::bytes() const {
  return static_cast<int64_t>(meta_.bytes() + spare_rows_.bytes()) + buckets_.size();
}

KeyCounters KeySpaceMemory::counters(const Context& context) const {
  KeyCounters counters;
  ::emblem::detail::copy(context, &counters, counters_.data(), sizeof(counters));
  context.synchronize();
  return counters;
}

void KeySpaceMemory::grow(const Context& context, int64_t rows) {
  if (rows <= rows_) return;
  Buffer<char> buckets = make_buckets(context, rows);
  meta_.grow_to(context, rows * sizeof(RowMeta));
  spare_rows_.grow_to(context, rows * sizeof(uint32_t));
  context.synchronize();  // the old buckets are no longer in use
  const int64_t old_rows = rows_;
  buckets_ = std::move(buckets);
  rows_ = rows;
  if (old_rows == 0) return;
  insert_all_kernel<<<blocks_for(old_rows), kThreads, 0, context.stream>>>(ref());
  cuda_check(cudaGetLastError(), "launching insert_all_kernel");
}

void KeySpaceMemory::clear(const Context& context) {
  const KeySpace space = ref();
  empty_buckets_kernel<<<blocks_for(static_cast<int64_t>(space.bucket_count)), kThreads, 0,
                         context.stream>>>(space.buckets, space.bucket_count);
  cuda_check(cudaGetLastError(), "launching empty_buckets_kernel");
  cuda_check(cudaMemsetAsync(space.counters, 0, sizeof(KeyCounters), context.stream), "zeroing");
  cuda_check(cudaMemsetAsync(space.meta, 0, rows_ * sizeof(RowMeta), context.stream), "zeroing");
}

}  // namespace emblem::cuda
