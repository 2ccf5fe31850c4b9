#include <algorithm>
#include <bit>

#include "core/cuda_check.h"
#include "core/launch_early.cuh"
#include "core/pinned.h"
#include "embedding/cache/cached_rows.cuh"
#include "embedding/cuda/occupancy.h"
#include "embedding/rows_ref.h"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kTileRows = 32;      // a warp takes a feature of so many rows
constexpr int kMostFeatures = 32;  // warps of a block
constexpr int kThreads = 1024;     // of blocks that settle misses: few blocks meet quickly
constexpr int kInsertThreads = 256;
// Few warps fill the bus, and keep the rows that are on their way close together.
constexpr uint32_t kFetchingWarps = 512;
// Fewer rows come in any order sooner than they are sorted.
constexpr uint32_t kSortedFrom = 2048;

// The threads of all blocks that work on a pass, by warps; neighbours are in different blocks.
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

// A block takes kTileRows rows, so that addresses leave it side by side; a warp a feature, or more
// where there are many. `found`: [kTileRows, features] in shared memory.
__device__ void find_addresses(const CachedBatch& pass, uint32_t first, const void** found) {
  const uint32_t rows = *pass.input.rows, row = first + threadIdx.x;
  const uint64_t tick = *const_cast<volatile unsigned long long*>(pass.cache.tick);
  for (int f = static_cast<int>(threadIdx.y); f < pass.features;
       f += static_cast<int>(blockDim.y)) {
    const int table = pass.feature_tables[f];
    const uint32_t position = f * pass.capacity + row;
    const int64_t key = row < rows ? pass.input.keys[position] : kNoKey;
    const bool there = key != kNoKey;
    const uint32_t slot =
        there ? find_slot(pass.cache, static_cast<uint32_t>(table), key, tick) : kNoSlot32;
    const bool miss = there && slot == kNoSlot32;
    const char* at = slot != kNoSlot32 ? pass.cache.row(slot) : pass.zeros;
    found[threadIdx.x * pass.features + f] = at;
    if (__any_sync(~0u, miss)) pass.note(position, table, key, row * pass.features + f, miss);
  }
  __syncthreads();
  const uint32_t thread = threadIdx.y * kTileRows + threadIdx.x;
  const uint32_t count = min(kTileRows, pass.capacity - first) * pass.features;
  for (uint32_t i = thread; i < count; i += blockDim.y * kTileRows)
    pass.addresses[first * pass.features + i] = found[i];
}

// What a key without a row reads as. Whole warp.
__device__ void write_missing(const CachedBatch& pass, const BackingTableRef& table, int64_t key,
                              char* to) {
  for (int64_t d = threadIdx.x % 32; d < table.dim; d += 32) {
    const float value = table.missing(table.seed, static_cast<uint64_t>(key), d);
    if (pass.dtype == DType::kF32)
      reinterpret_cast<float*>(to)[d] = value;
    else if (pass.dtype == DType::kF16)
      store_weight(reinterpret_cast<F16*>(to) + d, value);
    else
      store_weight(reinterpret_cast<Bf16*>(to) + d, value);
  }
}

// The staged row of a key: from host memory, or what a key without a row reads as. Whole warp.
__device__ void bring_row(const CachedBatch& pass, uint32_t number, int table, int64_t key) {
  char* to = pass.staged + number * pass.cache.row_bytes;
  if (pass.in_host_memory(table, key))
    copy_row(to, pass.tables[table].rows + key * pass.cache.row_bytes, pass.cache.row_bytes);
  else
    write_missing(pass, pass.tables[table], key, to);
}

// Numbers the distinct keys that missed in the order of `entries`, empties the map of them, and
// stages their rows.
__device__ void stage_rows(const CachedBatch& pass, const uint32_t* entries, uint32_t distinct,
                           const Workers& workers) {
  const uint32_t fetching = min(kFetchingWarps, workers.warps), lane = threadIdx.x % 32;
  if (workers.warp >= fetching) return;
  for (uint32_t first = workers.warp; first < distinct; first += 32 * fetching) {
    // Lanes find out at once what the warp brings one after the other.
    const uint32_t number = first + lane * fetching;
    int table = 0;
    int64_t key = 0;
    if (number < distinct) {
      const uint32_t entry = __ldcg(&entries[number]), position = __ldcg(&pass.map[entry]) - 1;
      table = pass.table_of(position);
      key = pass.input.keys[position];
      pass.map[entry] = 0;
      pass.index[entry] = number;
      pass.staged_keys[number] = key;
      pass.staged_tables[number] = table;
    }
    for (int i = 0; i < 32 && first + i * fetching < distinct; ++i)
      bring_row(pass, first + i * fetching, __shfl_sync(~0u, table, i), __shfl_sync(~0u, key, i));
  }
}

__device__ void point_occurrences(const CachedBatch& pass, uint32_t lookups,
                                  const Workers& workers) {
  for (uint32_t i = workers.thread; i < lookups; i += workers.threads) {
    const uint2 waiting = __ldcg(&pass.occurrences[i]);
    pass.addresses[waiting.x] = pass.staged + __ldcg(&pass.index[waiting.y]) * pass.cache.row_bytes;
  }
}

// For the host: what missed, and with tables that it has alone, which keys.
__device__ void report_misses(const CachedBatch& pass, uint32_t lookups, uint32_t distinct,
                              const Workers& workers) {
  for (uint32_t i = workers.thread; i < kPlaces; i += workers.threads) pass.counters->places[i] = 0;
  for (uint32_t i = workers.thread; i < static_cast<uint32_t>(pass.table_count);
       i += workers.threads) {
    pass.reported_misses[i] = __ldcg(&pass.table_misses[i]);
    pass.table_misses[i] = 0;
  }
  if (pass.missing_keys != nullptr) {
    for (uint32_t i = workers.thread; i < distinct; i += workers.threads) {
      pass.missing_keys[i] = __ldcg(&pass.staged_keys[i]);
      pass.missing_tables[i] = __ldcg(&pass.staged_tables[i]);
    }
  }
  if (workers.thread != 0) return;
  *pass.report = {lookups, distinct, __ldcg(&pass.counters->absent)};
  pass.counters->distinct = pass.counters->lookups = pass.counters->absent = 0;
}

__device__ void insert_staged(const CachedBatch& pass, uint32_t distinct, const Workers& workers) {
  const Insertion insertion = {
      RowCache::Existing::kKeep,
      Insertion::Busy::kGiveUp,
      *const_cast<volatile unsigned long long*>(pass.cache.tick),
      {__ldcg(&pass.counters->epochs.issued), __ldcg(&pass.counters->epochs.free_before)}};
  for (uint32_t i = workers.warp; i < distinct; i += workers.warps) {
    const int table = __ldcg(&pass.staged_tables[i]);
    const int64_t key = __ldcg(&pass.staged_keys[i]);
    if (pass.in_host_memory(table, key))
      insert_row(pass.cache, insertion, static_cast<uint32_t>(table), key,
                 pass.staged + i * pass.cache.row_bytes);
  }
}

// Everything that missed gets a row beside the cache, and rows that came from host memory are put
// into the cache. Ends at once when all rows were there. `group` is all threads that take part;
// `sort` orders the entries of many misses by the places of their rows in host memory.
template <class Group, class Sort>
__device__ void settle_misses(const CachedBatch& pass, const Group& group, Sort&& sort) {
  const Workers workers;
  const uint32_t distinct = __ldcg(&pass.counters->distinct),
                 lookups = __ldcg(&pass.counters->lookups);
  if (workers.thread == 0) atomicAdd(pass.cache.tick, 1ull);
  if (distinct == 0) return;
  if (workers.thread == workers.threads - 1)  // host memory is far away: once
    pass.counters->epochs = {pass.cache.epochs->issued, pass.cache.epochs->free_before};
  stage_rows(pass, sort(distinct), distinct, workers);
  group.sync();
  point_occurrences(pass, lookups, workers);
  report_misses(pass, lookups, distinct, workers);
  insert_staged(pass, distinct, workers);
}

__global__ void __launch_bounds__(kTileRows* kMostFeatures)
    find_addresses_kernel(const __grid_constant__ CachedBatch pass) {
  extern __shared__ const void* found[];
  find_addresses(pass, blockIdx.x * kTileRows, found);
}

__global__ void __launch_bounds__(kThreads, 1)
    settle_misses_kernel(const __grid_constant__ CachedBatch pass) {
  const cg::grid_group grid = cg::this_grid();
  const auto place = [&](uint32_t entry) -> uint32_t {
    const uint32_t position = pass.map[entry] - 1;
    const int table = pass.table_of(position);
    const int64_t key = pass.input.keys[position];
    if (!pass.in_host_memory(table, key)) return 0;
    const auto in_table = static_cast<uint32_t>(key * kPlaces / pass.tables[table].count);
    return (table * kPlaces + in_table) / pass.table_count;
  };
  settle_misses(pass, grid, [&](uint32_t distinct) -> const uint32_t* {
    if (distinct < kSortedFrom) return pass.entries;
    sort_by_place<kThreads>(pass.entries, distinct, pass.sorted, pass.counters->places, grid,
                            place);
    grid.sync();
    return pass.sorted;
  });
}

// Both in one block, for few rows.
__global__ void __launch_bounds__(kTileRows* kMostFeatures)
    find_few_addresses_kernel(const __grid_constant__ CachedBatch pass) {
  extern __shared__ const void* found[];
  let_the_next_kernel_start();
  find_addresses(pass, 0, found);
  __syncthreads();
  settle_misses(pass, cg::this_thread_block(), [&](uint32_t) { return pass.entries; });
}

__global__ void __launch_bounds__(kInsertThreads)
    insert_staged_kernel(const __grid_constant__ CachedBatch pass, ReadEpochs epochs,
                         const uint8_t* insert, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (kInsertThreads / 32) + threadIdx.x / 32;
  if (i >= count || insert[i] == 0) return;
  insert_row(pass.cache,
             {RowCache::Existing::kKeep, Insertion::Busy::kWait, *pass.cache.tick, epochs},
             static_cast<uint32_t>(pass.staged_tables[i]), pass.staged_keys[i],
             pass.staged + i * pass.cache.row_bytes);
}

}  // namespace

// What the kernels of a pass are given, but for its keys.
struct CachedRows::Parts {
  static CachedBatch pass(CachedRows& of) {
    CachedBatch pass{};
    pass.cache = of.settings_.cache->ref();
    pass.features = static_cast<int32_t>(of.features());
    pass.table_count = static_cast<int32_t>(of.settings_.tables.size());
    pass.feature_tables = of.feature_tables_.data();
    pass.tables = reinterpret_cast<const BackingTableRef*>(of.tables_.data());
    pass.addresses = of.addresses_.data();
    pass.zeros = of.staged_.data() + of.positions_ * pass.cache.row_bytes;
    pass.map = of.map_.data();
    pass.map_mask = static_cast<uint32_t>(of.map_.size() - 1);
    pass.entries = of.entries_.data();
    pass.sorted = of.sorted_.data();
    pass.index = of.index_.data();
    pass.occurrences = reinterpret_cast<uint2*>(of.occurrences_.data());
    pass.counters = reinterpret_cast<MissCounters*>(of.counters_.data());
    pass.table_misses = of.table_misses_.data();
    pass.staged = of.staged_.data();
    pass.staged_keys = of.staged_keys_.data();
    pass.staged_tables = of.staged_tables_.data();
    pass.dtype = of.settings_.dtype;
    pass.report = reinterpret_cast<MissReport*>(of.report_->data());
    pass.reported_misses = reinterpret_cast<uint32_t*>(pass.report + 1);
    if (!of.gpu_reads_host_) {
      pass.missing_keys = reinterpret_cast<int64_t*>(of.missing_->data());
      pass.missing_tables = reinterpret_cast<int32_t*>(pass.missing_keys + of.positions_);
    }
    return pass;
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
                   "rows of some tables are where the GPU reads them, and of others not");
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
  CachedBatch pass = Parts::pass(*this);
  pass.input = keys;
  pass.capacity = static_cast<uint32_t>(rows);
  const auto warps = static_cast<unsigned>(std::min<int64_t>(features(), kMostFeatures));
  const size_t shared = static_cast<size_t>(features()) * kTileRows * sizeof(void*);
  if (shared > 48 * 1024) {
    for (auto* kernel : {find_addresses_kernel, find_few_addresses_kernel})
      cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shared)),
                 "asking for shared memory");
  }
  const dim3 threads(kTileRows, warps);
  static_assert(kRowsOfOneKernel <= kTileRows);
  if (rows <= kRowsOfOneKernel) {
    find_few_addresses_kernel<<<1, threads, shared, context.stream>>>(pass);
    return cuda_check(cudaGetLastError(), "launching find_few_addresses_kernel");
  }
  find_addresses_kernel<<<static_cast<unsigned>((rows + kTileRows - 1) / kTileRows), threads,
                          shared, context.stream>>>(pass);
  cuda_check(cudaGetLastError(), "launching find_addresses_kernel");
  const auto* kernel = reinterpret_cast<const void*>(settle_misses_kernel);
  void* arguments[] = {&pass};
  const int64_t useful = (rows * features() + kThreads - 1) / kThreads;
  const auto blocks =
      static_cast<int>(std::clamp<int64_t>(resident_blocks(kernel, kThreads), 1, useful));
  cuda_check(cudaLaunchCooperativeKernel(kernel, blocks, kThreads, arguments, 0, context.stream),
             "launching settle_misses_kernel");
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
  insert_staged_kernel<<<static_cast<unsigned>((count + kEach - 1) / kEach), kInsertThreads, 0,
                         context.stream>>>(Parts::pass(*this), settings_.cache->epochs(), insert,
                                           count);
  cuda_check(cudaGetLastError(), "launching insert_staged_kernel");
}

}  // namespace emblem::cuda
