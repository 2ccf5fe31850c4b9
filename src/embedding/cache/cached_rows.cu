#include <algorithm>
#include <bit>

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "core/device/launch_early.cuh"
#include "core/files/shared_memory.h"
#include "core/memory/pinned.h"
#include "embedding/cache/cached_rows.cuh"
#include "embedding/cuda/table/occupancy.h"
#include "embedding/rows_ref.h"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kTileRows = 32;  // rows of a tile, of which a warp handles one feature
constexpr int kMaxWarps = 32;  // warps of a block, one per feature
// Threads of blocks that handle misses: barriers of few blocks are fast.
constexpr int kRowThreads = 1024;
constexpr int kInsertThreads = 256;
// Few warps saturate the bus, and their rows are close together in memory.
constexpr uint32_t kFetchingWarps = 512;
// Fewer rows are not worth sorting.
constexpr uint32_t kSortedFrom = 2048;

// The threads of all blocks of a pass; warps with consecutive numbers are in different blocks.
struct Workers {
  uint32_t warp, warps, thread, threads;

  __device__ Workers() {
    const uint32_t here = threadIdx.y * blockDim.x + threadIdx.x, each = blockDim.x * blockDim.y;
    warp = here / 32 * gridDim.x + blockIdx.x;
    warps = each / 32 * gridDim.x;
    thread = blockIdx.x * each + here;
    threads = each * gridDim.x;
  }
};

// A block handles kTileRows rows, so that it stores contiguous addresses; a warp handles one
// feature, or more where there are many. `found`: [kTileRows, features] in shared memory.
__device__ void find_addresses(const CachedBatch& batch, uint32_t first, const void** found) {
  const uint32_t rows = *batch.input.rows, row = first + threadIdx.x;
  const uint64_t tick = *const_cast<volatile unsigned long long*>(batch.cache.tick);
  for (int f = static_cast<int>(threadIdx.y); f < batch.features;
       f += static_cast<int>(blockDim.y)) {
    const int table = batch.feature_tables[f];
    const uint32_t position = f * batch.capacity + row;
    const int64_t key = row < rows ? batch.input.keys[position] : kNoKey;
    const bool there = key != kNoKey;
    const uint32_t slot =
        there ? find_slot(batch.cache, static_cast<uint32_t>(table), key, tick) : kNoSlot32;
    const bool miss = there && slot == kNoSlot32;
    const char* at = slot != kNoSlot32 ? batch.cache.row(slot) : batch.zeros;
    found[threadIdx.x * batch.features + f] = at;
    if (__any_sync(~0u, miss))
      batch.add_misses(position, table, key, row * batch.features + f, miss);
  }
  __syncthreads();
  const uint32_t thread = threadIdx.y * kTileRows + threadIdx.x;
  const uint32_t count = min(kTileRows, batch.capacity - first) * batch.features;
  for (uint32_t i = thread; i < count; i += blockDim.y * kTileRows)
    batch.addresses[first * batch.features + i] = found[i];
}

// What a key without a row reads as. Whole warp.
__device__ void write_missing(const CachedBatch& batch, const BackingTableRef& table, int64_t key,
                              char* to) {
  for (int64_t d = threadIdx.x % 32; d < table.dim; d += 32) {
    const float value = table.missing(table.seed, static_cast<uint64_t>(key), d);
    if (batch.dtype == DType::kF32)
      reinterpret_cast<float*>(to)[d] = value;
    else if (batch.dtype == DType::kF16)
      store_weight(reinterpret_cast<F16*>(to) + d, value);
    else
      store_weight(reinterpret_cast<Bf16*>(to) + d, value);
  }
}

// The staged row of a key: from host memory, or what a key without a row reads as. Whole warp.
__device__ void stage_row(const CachedBatch& batch, uint32_t number, int table, int64_t key) {
  char* to = batch.staged + number * batch.cache.row_bytes;
  if (batch.in_host_memory(table, key))
    copy_row(to, batch.tables[table].rows + key * batch.cache.row_bytes, batch.cache.row_bytes);
  else
    write_missing(batch, batch.tables[table], key, to);
}

// Numbers the distinct keys that missed in the order of `entries`, removes them from the map, and
// stages their rows.
__device__ void stage_rows(const CachedBatch& batch, const uint32_t* entries, uint32_t distinct,
                           const Workers& workers) {
  const uint32_t fetching = min(kFetchingWarps, workers.warps), lane = threadIdx.x % 32;
  if (workers.warp >= fetching) return;
  for (uint32_t first = workers.warp; first < distinct; first += 32 * fetching) {
    // Lanes look up 32 keys in parallel; then the warp stages their rows one by one.
    const uint32_t number = first + lane * fetching;
    int table = 0;
    int64_t key = 0;
    if (number < distinct) {
      const uint32_t entry = __ldcg(&entries[number]), position = __ldcg(&batch.map[entry]) - 1;
      table = batch.table_of(position);
      key = batch.input.keys[position];
      batch.map[entry] = 0;
      batch.index[entry] = number;
      batch.staged_keys[number] = key;
      batch.staged_tables[number] = table;
    }
    for (int i = 0; i < 32 && first + i * fetching < distinct; ++i)
      stage_row(batch, first + i * fetching, __shfl_sync(~0u, table, i), __shfl_sync(~0u, key, i));
  }
}

__device__ void point_occurrences(const CachedBatch& batch, uint32_t lookups,
                                  const Workers& workers) {
  for (uint32_t i = workers.thread; i < lookups; i += workers.threads) {
    const uint2 occurrence = __ldcg(&batch.occurrences[i]);
    batch.addresses[occurrence.x] =
        batch.staged + __ldcg(&batch.index[occurrence.y]) * batch.cache.row_bytes;
  }
}

// Reports misses to the host, with their keys for tables that only the host can read.
__device__ void report_misses(const CachedBatch& batch, uint32_t lookups, uint32_t distinct,
                              const Workers& workers) {
  for (uint32_t i = workers.thread; i < kAddressBins; i += workers.threads)
    batch.counters->bins[i] = 0;
  for (uint32_t i = workers.thread; i < static_cast<uint32_t>(batch.table_count);
       i += workers.threads) {
    batch.reported_misses[i] = __ldcg(&batch.table_misses[i]);
    batch.table_misses[i] = 0;
  }
  if (batch.missing_keys != nullptr) {
    for (uint32_t i = workers.thread; i < distinct; i += workers.threads) {
      batch.missing_keys[i] = __ldcg(&batch.staged_keys[i]);
      batch.missing_tables[i] = __ldcg(&batch.staged_tables[i]);
    }
  }
  if (workers.thread != 0) return;
  *batch.report = {lookups, distinct, __ldcg(&batch.counters->absent)};
  batch.counters->distinct = batch.counters->lookups = batch.counters->absent = 0;
}

__device__ void insert_staged(const CachedBatch& batch, uint32_t distinct, const Workers& workers) {
  const Insertion insertion = {
      RowCache::Existing::kKeep,
      Insertion::Busy::kGiveUp,
      *const_cast<volatile unsigned long long*>(batch.cache.tick),
      {__ldcg(&batch.counters->epochs.issued), __ldcg(&batch.counters->epochs.free_before)}};
  for (uint32_t i = workers.warp; i < distinct; i += workers.warps) {
    const int table = __ldcg(&batch.staged_tables[i]);
    const int64_t key = __ldcg(&batch.staged_keys[i]);
    if (batch.in_host_memory(table, key))
      insert_row(batch.cache, insertion, static_cast<uint32_t>(table), key,
                 batch.staged + i * batch.cache.row_bytes);
  }
}

// Stages the rows of all misses, and inserts those from host memory into the cache. Returns at once
// when there are none. `group`: all participating threads; `sort` sorts the entries of many misses
// by the addresses of their rows in host memory.
template <class Group, class Sort>
__device__ void handle_misses(const CachedBatch& batch, const Group& group, Sort&& sort) {
  const Workers workers;
  const uint32_t distinct = __ldcg(&batch.counters->distinct),
                 lookups = __ldcg(&batch.counters->lookups);
  if (workers.thread == 0) atomicAdd(batch.cache.tick, 1ull);
  if (distinct == 0) return;
  if (workers.thread == workers.threads - 1)  // reading host memory is slow: once
    batch.counters->epochs = {batch.cache.epochs->issued, batch.cache.epochs->free_before};
  stage_rows(batch, sort(distinct), distinct, workers);
  group.sync();
  point_occurrences(batch, lookups, workers);
  report_misses(batch, lookups, distinct, workers);
  insert_staged(batch, distinct, workers);
}

__global__ void __launch_bounds__(kTileRows* kMaxWarps)
    find_addresses_kernel(const __grid_constant__ CachedBatch batch) {
  extern __shared__ const void* found[];
  find_addresses(batch, blockIdx.x * kTileRows, found);
}

__global__ void __launch_bounds__(kRowThreads, 1)
    handle_misses_kernel(const __grid_constant__ CachedBatch batch) {
  const cg::grid_group grid = cg::this_grid();
  const auto bin_of = [&](uint32_t entry) -> uint32_t {
    const uint32_t position = batch.map[entry] - 1;
    const int table = batch.table_of(position);
    const int64_t key = batch.input.keys[position];
    if (!batch.in_host_memory(table, key)) return 0;
    const auto in_table = static_cast<uint32_t>(key * kAddressBins / batch.tables[table].count);
    return (table * kAddressBins + in_table) / batch.table_count;
  };
  handle_misses(batch, grid, [&](uint32_t distinct) -> const uint32_t* {
    if (distinct < kSortedFrom) return batch.entries;
    sort_by_address<kRowThreads>(batch.entries, distinct, batch.sorted, batch.counters->bins, grid,
                                 bin_of);
    grid.sync();
    return batch.sorted;
  });
}

// find_addresses and handle_misses in one block, for few rows.
__global__ void __launch_bounds__(kTileRows* kMaxWarps)
    find_few_addresses_kernel(const __grid_constant__ CachedBatch batch) {
  extern __shared__ const void* found[];
  let_the_next_kernel_start();
  find_addresses(batch, 0, found);
  __syncthreads();
  handle_misses(batch, cg::this_thread_block(), [&](uint32_t) { return batch.entries; });
}

__global__ void __launch_bounds__(kInsertThreads)
    insert_staged_kernel(const __grid_constant__ CachedBatch batch, ReadEpochs epochs,
                         const uint8_t* insert, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (kInsertThreads / 32) + threadIdx.x / 32;
  if (i >= count || insert[i] == 0) return;
  insert_row(batch.cache,
             {RowCache::Existing::kKeep, Insertion::Busy::kWait, *batch.cache.tick, epochs},
             static_cast<uint32_t>(batch.staged_tables[i]), batch.staged_keys[i],
             batch.staged + i * batch.cache.row_bytes);
}

}  // namespace

// The arguments of the kernels of a pass, without its keys.
struct CachedRows::Parts {
  static CachedBatch batch(CachedRows& of) {
    CachedBatch batch{};
    batch.cache = of.settings_.cache->ref();
    batch.features = static_cast<int32_t>(of.features());
    batch.table_count = static_cast<int32_t>(of.settings_.tables.size());
    batch.feature_tables = of.feature_tables_.data();
    batch.tables = reinterpret_cast<const BackingTableRef*>(of.tables_.data());
    batch.addresses = of.addresses_.data();
    batch.zeros = of.staged_.data() + of.positions_ * batch.cache.row_bytes;
    batch.map = of.map_.data();
    batch.map_mask = static_cast<uint32_t>(of.map_.size() - 1);
    batch.entries = of.entries_.data();
    batch.sorted = of.sorted_.data();
    batch.index = of.index_.data();
    batch.occurrences = reinterpret_cast<uint2*>(of.occurrences_.data());
    batch.counters = reinterpret_cast<MissCounters*>(of.counters_.data());
    batch.table_misses = of.table_misses_.data();
    batch.staged = of.staged_.data();
    batch.staged_keys = of.staged_keys_.data();
    batch.staged_tables = of.staged_tables_.data();
    batch.dtype = of.settings_.dtype;
    batch.report = reinterpret_cast<MissReport*>(of.report_->data());
    batch.reported_misses = reinterpret_cast<uint32_t*>(batch.report + 1);
    if (!of.gpu_reads_host_) {
      batch.missing_keys = reinterpret_cast<int64_t*>(of.missing_->data());
      batch.missing_tables = reinterpret_cast<int32_t*>(batch.missing_keys + of.positions_);
    }
    return batch;
  }
};

CachedRows::CachedRows(const Context& context, CachedRowsSettings settings)
    : settings_(std::move(settings)) {
  const int64_t row_bytes = settings_.cache->settings().row_bytes;
  EMBLEM_REQUIRE(settings_.tables.size() == settings_.cache->settings().table_rows.size(),
                 "rows of ", settings_.tables.size(), " tables through a cache of ",
                 settings_.cache->settings().table_rows.size());
  std::vector<BackingTableRef> refs;
  for (const BackingTable& table : settings_.tables) {
    EMBLEM_REQUIRE(table.dim * size_of(settings_.dtype) <= row_bytes, "rows of ", table.dim, " ",
                   name_of(settings_.dtype), " do not fit into the ", row_bytes,
                   " bytes that the cache has for one");
    gpu_reads_host_ |= table.rows != nullptr;
    refs.push_back({table.missing, table.seed, table.rows, table.rows == nullptr ? 0 : table.count,
                    table.dim});
  }
  for (const BackingTable& table : settings_.tables)
    EMBLEM_REQUIRE((table.rows != nullptr) == gpu_reads_host_,
                   "some tables have rows that the GPU can read, others do not; all or none must");
  positions_ = settings_.max_rows * features();
  EMBLEM_REQUIRE(positions_ > 0 && positions_ < (int64_t{1} << 30), "a batch of ",
                 settings_.max_rows, " rows has ", positions_, " lookups; up to 2^30 are possible");
  const auto map = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * positions_)));
  addresses_ = Buffer<const void*>(Device::kCuda, positions_);
  tables_ =
      Buffer<char>(Device::kCuda, static_cast<int64_t>(refs.size() * sizeof(BackingTableRef)));
  ::emblem::detail::copy(context, tables_.data(), refs.data(),
                         refs.size() * sizeof(BackingTableRef));
  feature_tables_ = Buffer<int>::from(context, settings_.features);
  map_ = Buffer<uint32_t>::zeros(context, map);
  index_ = Buffer<uint32_t>(Device::kCuda, map);
  entries_ = Buffer<uint32_t>(Device::kCuda, positions_);
  sorted_ = Buffer<uint32_t>(Device::kCuda, positions_);
  occurrences_ = Buffer<char>(Device::kCuda, positions_ * static_cast<int64_t>(sizeof(uint2)));
  counters_ = Buffer<char>::zeros(context, sizeof(MissCounters));
  staged_ = Buffer<char>::zeros(context, positions_ + 1, row_bytes);
  staged_keys_ = Buffer<int64_t>(Device::kCuda, positions_);
  staged_tables_ = Buffer<int32_t>(Device::kCuda, positions_);
  table_misses_ = Buffer<uint32_t>::zeros(context, static_cast<int64_t>(refs.size()));
  report_ = std::make_shared<PinnedMemory>(sizeof(MissReport) + refs.size() * sizeof(uint32_t));
  if (!gpu_reads_host_)
    missing_ = std::make_shared<PinnedMemory>(static_cast<size_t>(positions_) * 12);
  clear_report();
  context.synchronize();
}

CachedRows::~CachedRows() = default;

int64_t CachedRows::dim(int64_t feature) const {
  return settings_.tables[static_cast<size_t>(settings_.features[static_cast<size_t>(feature)])]
      .dim;
}

void CachedRows::find(const Context& context, const KeysOnDevice& keys, int64_t rows) {
  EMBLEM_REQUIRE(rows > 0 && rows <= settings_.max_rows, "a batch of ", rows,
                 " rows, but there is room for ", settings_.max_rows);
  CachedBatch batch = Parts::batch(*this);
  batch.input = keys;
  batch.capacity = static_cast<uint32_t>(rows);
  const auto warps = static_cast<unsigned>(std::min<int64_t>(features(), kMaxWarps));
  const size_t shared = static_cast<size_t>(features()) * kTileRows * sizeof(void*);
  for (auto* kernel : {find_addresses_kernel, find_few_addresses_kernel}) {
    const size_t room = allow_shared_memory(kernel);
    EMBLEM_REQUIRE(shared <= room, "a lookup of ", features(), " features needs ", shared,
                   " bytes of shared memory, but a block of this GPU has ", room,
                   "; use fewer features, or --device cpu");
  }
  const dim3 threads(kTileRows, warps);
  static_assert(kRowsOfOneKernel <= kTileRows);
  if (rows <= kRowsOfOneKernel) {
    find_few_addresses_kernel<<<1, threads, shared, context.stream>>>(batch);
    return cuda_check(cudaGetLastError(), "launching find_few_addresses_kernel");
  }
  find_addresses_kernel<<<blocks_of(rows, kTileRows), threads, shared, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching find_addresses_kernel");
  const auto* kernel = reinterpret_cast<const void*>(handle_misses_kernel);
  void* arguments[] = {&batch};
  const int64_t useful = (rows * features() + kRowThreads - 1) / kRowThreads;
  const auto blocks =
      static_cast<int>(std::clamp<int64_t>(resident_blocks(kernel, kRowThreads), 1, useful));
  cuda_check(cudaLaunchCooperativeKernel(kernel, blocks, kRowThreads, arguments, 0, context.stream),
             "launching handle_misses_kernel");
}

void CachedRows::clear_report() { *reinterpret_cast<MissReport*>(report_->data()) = {}; }
MissReport CachedRows::report() const {
  return *reinterpret_cast<const MissReport*>(report_->data());
}

std::span<const uint32_t> CachedRows::missed_of_tables() const {
  const auto* report = reinterpret_cast<const MissReport*>(report_->data());
  return {reinterpret_cast<const uint32_t*>(report + 1), settings_.tables.size()};
}

std::span<const int64_t> CachedRows::missing_keys() const {
  return {reinterpret_cast<const int64_t*>(missing_->data()), report().distinct};
}
std::span<const int32_t> CachedRows::missing_tables() const {
  return {reinterpret_cast<const int32_t*>(missing_->data() + positions_ * 8), report().distinct};
}

char* CachedRows::staged_row(int64_t i) {
  return staged_.data() + i * settings_.cache->settings().row_bytes;
}

void CachedRows::insert_staged(const Context& context, const uint8_t* insert, int64_t count) {
  if (count == 0) return;
  constexpr int64_t kEach = kInsertThreads / 32;
  insert_staged_kernel<<<blocks_of(count, kEach), kInsertThreads, 0, context.stream>>>(
      Parts::batch(*this), settings_.cache->epochs(), insert, count);
  cuda_check(cudaGetLastError(), "launching insert_staged_kernel");
}

}  // namespace emblem::cuda
