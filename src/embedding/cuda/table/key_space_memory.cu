#include "embedding/cuda/table/key_space_memory.h"

#include <algorithm>

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "embedding/cuda/table/key_space.cuh"

namespace emblem::cuda {
namespace {

constexpr int kFillThreads = 256;
constexpr int64_t kPageRows = 256;

__global__ void empty_buckets_kernel(Bucket* buckets, uint64_t count) {
  const uint64_t at = static_cast<uint64_t>(blockIdx.x) * kFillThreads + threadIdx.x;
  if (at < count) buckets[at] = {{}, {kNoRow, kNoRow, kNoRow, kNoRow, kNoRow}, 0};
}

__global__ void insert_all_kernel(KeySpace keys) {
  const uint32_t row = blockIdx.x * kFillThreads + threadIdx.x;
  if (row < keys.rows_end() && keys.meta[row].score != kUnusedScore)
    keys.insert(keys.meta[row].key, row);
}

__global__ void free_rows_kernel(RowMeta* meta, int64_t begin, int64_t end) {
  const int64_t row = begin + static_cast<int64_t>(blockIdx.x) * kFillThreads + threadIdx.x;
  if (row < end) meta[row] = {0, kUnusedScore, 0, 0};
}

// A rank without bins has one without keys.
BinnedRows at_least_one(BinnedRows binned) {
  binned.bins.count = std::max(binned.bins.count, 1);
  return binned;
}

}  // namespace

KeySpaceMemory::KeySpaceMemory(const Context& context, const std::string& name, int64_t rows,
                               int64_t most_rows, const BinnedRows& binned)
    : name_(name),
      binned_(at_least_one(binned)),
      meta_(name, most_rows * sizeof(RowMeta)),
      spare_rows_(name, most_rows * sizeof(uint32_t)),
      counters_(Device::kCuda, binned_.bins.count * static_cast<int64_t>(sizeof(KeyCounters))) {
  if (in_pages())
    pages_ = std::make_unique<GrowableMemory>(
        name, (most_rows / kPageRows + 1) * binned_.bins.count * sizeof(uint32_t));
  cuda_check(cudaMemsetAsync(counters_.data(), 0, counters_.size(), context.stream), "zeroing");
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
  empty_buckets_kernel<<<blocks_of(count, kFillThreads), kFillThreads, 0, context.stream>>>(
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
  space.bins = binned_.bins;
  space.page_rows = static_cast<uint32_t>(page_rows());
  if (in_pages()) space.pages = reinterpret_cast<uint32_t*>(pages_->data());
  return space;
}

int64_t KeySpaceMemory::page_rows() const {
  return in_pages() ? kPageRows : rows_ / binned_.bins.count;
}

int64_t KeySpaceMemory::bytes() const {
  return static_cast<int64_t>(meta_.bytes() + spare_rows_.bytes() +
                              (pages_ ? pages_->bytes() : 0)) +
         buckets_.size();
}

std::vector<KeyCounters> KeySpaceMemory::counters(const Context& context) const {
  std::vector<KeyCounters> counters(static_cast<size_t>(binned_.bins.count));
  ::emblem::detail::copy(context, counters.data(), counters_.data(),
                         counters.size() * sizeof(KeyCounters));
  context.synchronize();
  return counters;
}

int64_t KeySpaceMemory::size(const Context& context) const {
  int64_t size = 0;
  for (const KeyCounters& of : counters(context)) size += of.size;
  return size;
}

int64_t KeySpaceMemory::rows_end(const Context& context) const {
  const std::vector<KeyCounters> of = counters(context);
  if (of.size() == 1) return of[0].fresh;
  return in_pages() ? of[0].given_pages * kPageRows : rows_;
}

int64_t KeySpaceMemory::rows_with(const Context& context, int64_t keys) const {
  if (!in_pages()) return size(context) + keys;
  // Every bin may begin a page.
  return rows_end(context) + keys + binned_.bins.count * kPageRows;
}

void KeySpaceMemory::free_rows(const Context& context, int64_t begin, int64_t end) {
  if (begin >= end) return;
  free_rows_kernel<<<blocks_of(end - begin, kFillThreads), kFillThreads, 0, context.stream>>>(
      ref().meta, begin, end);
  cuda_check(cudaGetLastError(), "launching free_rows_kernel");
}

void KeySpaceMemory::grow(const Context& context, int64_t rows) {
  if (rows <= rows_) return;
  if (in_pages()) rows = (rows + kPageRows - 1) / kPageRows * kPageRows;
  Buffer<char> buckets = make_buckets(context, rows);
  meta_.grow_to(context, rows * sizeof(RowMeta));
  spare_rows_.grow_to(context, rows * sizeof(uint32_t));
  if (in_pages())
    pages_->grow_to(context, rows / kPageRows * binned_.bins.count * sizeof(uint32_t));
  context.synchronize();  // the old buckets are no longer in use
  const int64_t old_rows = rows_;
  buckets_ = std::move(buckets);
  rows_ = rows;
  free_rows(context, old_rows, rows);
  if (old_rows == 0) return;
  insert_all_kernel<<<blocks_of(old_rows, kFillThreads), kFillThreads, 0, context.stream>>>(ref());
  cuda_check(cudaGetLastError(), "launching insert_all_kernel");
}

void KeySpaceMemory::clear(const Context& context) {
  const KeySpace space = ref();
  empty_buckets_kernel<<<blocks_of(static_cast<int64_t>(space.bucket_count), kFillThreads),
                         kFillThreads, 0, context.stream>>>(space.buckets, space.bucket_count);
  cuda_check(cudaGetLastError(), "launching empty_buckets_kernel");
  cuda_check(cudaMemsetAsync(counters_.data(), 0, counters_.size(), context.stream), "zeroing");
  free_rows(context, 0, rows_);
}

}  // namespace emblem::cuda
