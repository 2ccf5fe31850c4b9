#include "embedding/cuda/table/device_table.h"

#include <algorithm>
#include <cstring>

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "core/math/divide.h"
#include "core/memory/pinned.h"
#include "embedding/cuda/table/device_table_ref.cuh"
#include "embedding/growth.h"
#include "embedding/transfer/host_transfer.h"

namespace emblem::cuda {
namespace {

constexpr int kIndexThreads = 256;
constexpr int kIndexWarps = kIndexThreads / 32;
constexpr int64_t kInitialRows = 1 << 16;  // rows for keys that wait for admission
constexpr int64_t kHostSlots = 1 << 20;    // with Placement::kHost: enough for the rows of a pass

__global__ void initialize_static_kernel(const DeviceTableRef* table) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kIndexWarps + threadIdx.x / 32;
  if (row < table->capacity)
    initialize_row(*table, table->row(static_cast<uint32_t>(row)), table->key_of_static_row(row));
}

size_t device_bytes() {
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for device memory");
  return total;
}

}  // namespace

std::unique_ptr<Table> make_table(const Context& context, TableSettings settings) {
  return std::make_unique<DeviceTable>(context, std::move(settings));
}

DeviceTable::DeviceTable(const Context& context, TableSettings settings)
    : Table(std::move(settings)),
      context_(context),
      clocks_(Device::kCuda, sizeof(TableClocks)),
      ref_(Device::kCuda, sizeof(DeviceTableRef)) {
  const std::string name = cat("table ", settings_.name);
  state_offset_ = round_up(dim() * size_of(settings_.dtype), 16);
  const int64_t row_bytes = state_offset_ + state_floats_ * 4;
  stride_ = round_up(row_bytes, row_bytes >= 256 ? 32 : 16);  // long rows are whole sectors
  const auto most_rows = static_cast<int64_t>(device_bytes() / stride_);
  const int64_t rows = is_static() ? std::max<int64_t>(1, static_rows())
                       : settings_.capacity != 0
                           ? settings_.capacity
                           : std::max(settings_.initial_capacity, kFirstDeviceRows);
  const bool grows = !is_static() && settings_.capacity == 0;
  const int64_t most = grows ? std::max(most_rows, rows) : rows;
  if (has_cache()) {
    make_cache(rows);
  } else {
    rows_ = std::make_unique<GrowableMemory>(name, most * stride_);
    rows_->grow_to(context_, rows * stride_);
  }
  cuda_check(cudaMemsetAsync(clocks_.data(), 0, clocks_.size(), context_.stream), "zeroing");
  errors_memory_ = std::make_unique<PinnedMemory>(sizeof(TableErrors));
  errors_ = errors_memory_->data();
  std::memset(errors_, 0, sizeof(TableErrors));
  if (is_static()) {
    marks_ = Buffer<unsigned long long>(Device::kCuda, rows);
    cuda_check(cudaMemsetAsync(marks_.data(), 0, rows * 8, context_.stream), "zeroing");
  } else {
    keys_ = std::make_unique<KeySpaceMemory>(
        context_, name, rows, most,
        evicts_in_bins() ? BinnedRows{held_bins(settings_)} : BinnedRows{});
    if (settings_.admission_threshold > 1)
      waiting_ = std::make_unique<KeySpaceMemory>(context_, name + " (admission)", kInitialRows,
                                                  int64_t{1} << 31,
                                                  BinnedRows{held_bins(settings_), true});
    if (waiting_) waiting_bound_ = waiting_->rows_with(context_, 0);
  }
  publish_ref();
  if (is_static()) initialize_static();
  context_.synchronize();
}

void DeviceTable::make_cache(int64_t rows) {
  const std::string name = cat("table ", settings_.name);
  EMBLEM_REQUIRE(settings_.capacity != 0, name,
                 ": a table in host memory needs a capacity, because its memory is pinned from the "
                 "start; set one");
  int64_t slots =
      settings_.placement == Placement::kHost ? kHostSlots : settings_.device_bytes / stride_;
  EMBLEM_REQUIRE(slots > 0, name, ": ", settings_.device_bytes,
                 " bytes of device memory are too few for a row of ", stride_,
                 " bytes; increase device_bytes");
  slots = std::min(slots, rows);
  host_rows_ = std::make_unique<HostRows>(context_, name, rows, stride_, slots);
  rows_ = std::make_unique<GrowableMemory>(name, slots * stride_);
  rows_->grow_to(context_, slots * stride_);
}

DeviceTable::~DeviceTable() {
  cudaStreamSynchronize(context_.stream);
  if (has_cache()) finish_host_transfers();
}

DeviceTableRef DeviceTable::make_ref() const {
  DeviceTableRef ref;
  if (keys_) ref.keys = keys_->ref();
  if (waiting_) ref.waiting = waiting_->ref();
  ref.marks = const_cast<unsigned long long*>(marks_.data());
  ref.clocks = reinterpret_cast<TableClocks*>(const_cast<char*>(clocks_.data()));
  ref.errors = reinterpret_cast<TableErrors*>(errors_);
  ref.rows = rows_->data();
  if (has_cache()) {
    ref.host_rows = host_rows_->data();
    ref.slots = host_rows_->slot_of_row();
    ref.cache = {host_rows_->slot_rows(), host_rows_->slot_used(), host_rows_->slot_changed(),
                 static_cast<uint32_t>(host_rows_->slots())};
    ref.scatters = host_rows_->scatters();
    ref.scattered = host_rows_->scattered();
  }
  ref.stride = stride_;
  ref.state_offset = state_offset_;
  ref.dim = static_cast<int32_t>(dim());
  ref.first_column = static_cast<int32_t>(settings_.columns.first);
  ref.state_floats = static_cast<int32_t>(state_floats_);
  ref.dtype = settings_.dtype;
  ref.first_state = first_state();
  ref.kind = settings_.kind;
  ref.eviction = settings_.eviction;
  ref.capacity = is_static() ? static_rows() : settings_.capacity;
  ref.held = settings_.held;
  ref.keys_end = settings_.capacity;
  ref.admission_threshold = settings_.admission_threshold;
  ref.admission_capacity = settings_.most_waiting() / std::max(held_bins(settings_).count, 1);
  ref.initializer = settings_.initializer;
  ref.missing = settings_.missing;
  ref.seed = settings_.seed;
  ref.updates_all_rows = settings_.trainable && settings_.l2_on_all_rows && settings_.l2 != 0.0f;
  return ref;
}

void DeviceTable::publish_ref() {
  const DeviceTableRef ref = make_ref();
  ++ref_version_;
  ::emblem::detail::copy(context_, ref_.data(), &ref, sizeof(ref));
  context_.synchronize();
}

void DeviceTable::initialize_static() {
  if (static_rows() == 0) return;
  initialize_static_kernel<<<blocks_of(static_rows(), kIndexWarps), kIndexThreads, 0,
                             context_.stream>>>(ref());
  cuda_check(cudaGetLastError(), "launching initialize_static_kernel");
}

int64_t DeviceTable::size() const {
  if (is_static()) return keys_held(settings_.capacity, settings_.held);
  return keys_->size(context_);
}

int64_t DeviceTable::bytes() const {
  return static_cast<int64_t>(rows_->bytes()) + (host_rows_ ? host_rows_->bytes() : 0) +
         marks_.size() * 8 + (keys_ ? keys_->bytes() : 0) + (waiting_ ? waiting_->bytes() : 0);
}

void DeviceTable::reserve(int64_t rows) {
  if (is_static() || evicts_in_bins() || rows <= keys_->rows()) return;
  rows_->grow_to(context_, rows * stride_);
  keys_->grow(context_, rows);
  publish_ref();
}

void DeviceTable::ensure_waiting(int64_t keys) {
  waiting_bound_ += keys;
  if (!captured_ && waiting_bound_ <= waiting_->rows()) return;
  waiting_bound_ = waiting_->rows_with(context_, keys);
  if (waiting_bound_ <= waiting_->rows()) return;
  waiting_->grow(context_, std::max(waiting_bound_, waiting_->rows() * 2));
  publish_ref();
}

void DeviceTable::make_ready(const Context& context, int64_t lookups) {
  if (is_static()) return;
  if (is_capturing(context)) {
    captured_ = true;
    return;
  }
  if (waiting_) ensure_waiting(lookups);
  if (settings_.capacity != 0) return;
  size_bound_ += lookups;
  if (!captured_ && size_bound_ <= keys_->rows()) return;
  size_bound_ = size() + lookups;
  if (size_bound_ > keys_->rows()) reserve(grown_rows(keys_->rows(), size_bound_));
}

void DeviceTable::check_errors() const {
  auto* errors = reinterpret_cast<volatile TableErrors*>(errors_);
  if (errors->outside != 0) {
    const int64_t key = errors->outside_key;
    errors->outside = 0;
    refuse({&key, 1});
  }
  if (const unsigned long long lost = errors->uncounted; lost != 0) {
    errors->uncounted = 0;
    throw Error(ErrorCode::kOutOfMemory,
                cat("table ", settings_.name, ": ", lost,
                    " keys could not be counted for admission, because a captured pass cannot "
                    "grow the table: run passes outside of the graph from time to time"));
  }
  if (errors->full == 0) return;
  const unsigned long long wanted = errors->full, overfull = errors->overfull;
  errors->full = 0;
  errors->overfull = 0;
  EMBLEM_REQUIRE(settings_.eviction != Eviction::kNone, "table ", settings_.name,
                 " is full: it has ", size(), " of ", rows_end(), " rows and ", wanted,
                 " new keys: raise its capacity or choose an eviction (lru, lfu, step, custom)");
  const auto bin = static_cast<int32_t>(overfull >> TableErrors::kKeyBits) - 1;
  refuse_batch(bin, static_cast<int64_t>(overfull & ((1ull << TableErrors::kKeyBits) - 1)));
}

void DeviceTable::wait_for_transfers() const {
  wait_for_prefetch(context_);
  if (!has_cache()) return;
  context_.synchronize();
  finish_host_transfers();
}

void DeviceTable::clear() {
  wait_for_transfers();
  if (has_cache()) host_rows_->clear_slots(context_);
  cuda_check(cudaMemsetAsync(clocks_.data(), 0, clocks_.size(), context_.stream), "zeroing");
  if (is_static()) {
    cuda_check(cudaMemsetAsync(marks_.data(), 0, marks_.size() * 8, context_.stream), "zeroing");
    initialize_static();
  } else {
    keys_->clear(context_);
    size_bound_ = 0;
    if (waiting_) clear_waiting();
  }
  context_.synchronize();
}

void DeviceTable::clear_waiting() {
  waiting_->clear(context_);
  waiting_bound_ = waiting_->rows_with(context_, 0);
}

namespace {

// One value of a TableClocks in device memory.
int64_t read_clock(const Context& context, const Buffer<char>& clocks, size_t offset) {
  int64_t value = 0;
  ::emblem::detail::copy(context, &value, clocks.data() + offset, sizeof(value));
  context.synchronize();
  return value;
}
void write_clock(const Context& context, Buffer<char>& clocks, size_t offset, int64_t value) {
  ::emblem::detail::copy(context, clocks.data() + offset, &value, sizeof(value));
  context.synchronize();
}

}  // namespace

int64_t DeviceTable::clock() const {
  return read_clock(context_, clocks_, offsetof(TableClocks, clock));
}
void DeviceTable::set_clock(int64_t clock) {
  write_clock(context_, clocks_, offsetof(TableClocks, clock), clock);
}
int64_t DeviceTable::version() const {
  return read_clock(context_, clocks_, offsetof(TableClocks, version));
}
Table::CacheUse DeviceTable::cache_use() const {
  wait_for_prefetch(context_);
  return {read_clock(context_, clocks_, offsetof(TableClocks, staged)),
          read_clock(context_, clocks_, offsetof(TableClocks, missed)),
          read_clock(context_, clocks_, offsetof(TableClocks, prefetched))};
}
int64_t DeviceTable::next_score() const {
  return read_clock(context_, clocks_, offsetof(TableClocks, next_score));
}
void DeviceTable::set_next_score(int64_t score) {
  check_scores(score);
  write_clock(context_, clocks_, offsetof(TableClocks, next_score), score);
}

}  // namespace emblem::cuda
