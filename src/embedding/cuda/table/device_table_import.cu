// Inserts, overwrites and erases rows of a table on the GPU.
#include <algorithm>
#include <unordered_map>

#include "core/device/blocks.h"
#include "embedding/cuda/table/device_table.h"
#include "embedding/cuda/table/device_table_ref.cuh"
#include "embedding/cuda/table/evict_for_import.h"
#include "embedding/cuda/table/table_copies.cuh"

namespace emblem::cuda {
namespace {

constexpr int64_t kWrittenAtOnce = 1 << 16;  // rows

__global__ void find_in_kernel(KeySpace keys, ImportedKeys of) {
  const uint32_t i = blockIdx.x * kTableThreads + threadIdx.x;
  if (i >= of.count) return;
  of.rows[i] = keys.find(of.keys[i]);
  if (of.rows[i] == kNoRow) of.tickets[i] = keys.take_ticket(of.keys[i]);
}

__global__ void insert_kernel(KeySpace keys, ImportedKeys of) {
  const uint32_t i = blockIdx.x * kTableThreads + threadIdx.x;
  if (i >= of.count || of.rows[i] != kNoRow || of.tickets[i] == kNotImported) return;
  const int64_t key = of.keys[i];
  const uint32_t row = keys.new_row(keys.bin_of(key), of.tickets[i]);
  of.rows[i] = row;
  keys.meta[row] = {key, 0, 0, 0};
  keys.insert(key, row);
}

// One thread a bin.
__global__ void add_pages_kernel(KeySpace keys) {
  if (threadIdx.x < keys.bin_count()) keys.add_pages(threadIdx.x);
}
__global__ void take_rows_kernel(KeySpace keys) {
  if (threadIdx.x < keys.bin_count()) keys.take_rows(threadIdx.x);
}
__global__ void give_up_kernel(KeySpace keys) {
  if (threadIdx.x < keys.bin_count()) keys.counters[threadIdx.x].wanted = 0;
}

__global__ void set_scores_kernel(KeySpace keys, const uint32_t* rows, const int64_t* scores,
                                  uint32_t count) {
  const uint32_t i = blockIdx.x * kTableThreads + threadIdx.x;
  if (i < count) keys.meta[rows[i]].score = scores[i];
}

__global__ void write_rows_kernel(const DeviceTableRef* of, const uint32_t* rows, uint32_t count,
                                  const float* weights, const float* states,
                                  const int64_t* scores) {
  const DeviceTableRef& table = *of;
  const uint32_t i = blockIdx.x * kTableWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (i >= count || rows[i] == kNoRow) return;
  char* row = table.row(rows[i]);
  for (int64_t d = lane; d < table.dim; d += 32)
    write_weight(table, row, d, weights[i * static_cast<int64_t>(table.dim) + d]);
  for (int64_t d = lane; d < table.state_floats; d += 32)
    table.state(row)[d] = states != nullptr
                              ? states[i * static_cast<int64_t>(table.state_floats) + d]
                              : table.first_state;
  if (lane != 0) return;
  if (table.slots != nullptr) {
    if (table.slots[rows[i]] != kNoRow) table.cache.changed[table.slots[rows[i]]] = 1;
    if (!table.is_static()) table.keys.meta[rows[i]].is_new = 0;
  }
  *table.mark(rows[i]) = static_cast<unsigned long long>(table.clocks->version) << 32;
  if (!table.is_static()) table.keys.meta[rows[i]].score = scores != nullptr ? scores[i] : 0;
}

__global__ void next_version_kernel(const DeviceTableRef* table) { ++table->clocks->version; }

__global__ void erase_kernel(KeySpace keys, const int64_t* erased, uint32_t count,
                             uint32_t* found) {
  const uint32_t i = blockIdx.x * kTableThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t row = keys.find<KeySpace::Read::kFresh>(erased[i]);
  if (row == kNoRow || !keys.remove(erased[i], row)) return;
  keys.give_back(erased[i], row);
  atomicAdd(found, 1u);
}

__global__ void count_missing_kernel(KeySpace keys, const int64_t* of, uint32_t count,
                                     uint32_t* missing) {
  const uint32_t i = blockIdx.x * kTableThreads + threadIdx.x;
  if (i < count && keys.find(of[i]) == kNoRow) atomicAdd(missing, 1u);
}

// How many different keys have no row.
int64_t count_missing(const Context& context, KeySpace space, std::span<const int64_t> keys) {
  std::vector<int64_t> different(keys.begin(), keys.end());
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  const Buffer<int64_t> on_device = upload<int64_t>(context, different);
  const uint32_t none = 0;
  Buffer<uint32_t> missing = upload<uint32_t>(context, {&none, 1});
  count_missing_kernel<<<blocks_of(static_cast<int64_t>(different.size()), kTableThreads),
                         kTableThreads, 0, context.stream>>>(
      space, on_device.data(), static_cast<uint32_t>(different.size()), missing.data());
  cuda_check(cudaGetLastError(), "launching count_missing_kernel");
  return missing.to_host(context)[0];
}

__global__ void rescore_kernel(KeySpace keys, const int64_t* of, uint32_t count, int64_t score) {
  const uint32_t i = blockIdx.x * kTableThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t row = keys.find(of[i]);
  if (row != kNoRow) keys.meta[row].score = score;
}

}  // namespace

int64_t DeviceTable::erase(std::span<const int64_t> keys) {
  wait_for_transfers();
  check_dynamic();
  const Buffer<int64_t> on_device = upload(context_, keys);
  const uint32_t none = 0;
  Buffer<uint32_t> found = upload<uint32_t>(context_, {&none, 1});
  erase_kernel<<<blocks_of(static_cast<int64_t>(keys.size()) + 1, kTableThreads), kTableThreads, 0,
                 context_.stream>>>(keys_->ref(), on_device.data(),
                                    static_cast<uint32_t>(keys.size()), found.data());
  cuda_check(cudaGetLastError(), "launching erase_kernel");
  return found.to_host(context_)[0];
}

void DeviceTable::set_score(std::span<const int64_t> keys, int64_t score) {
  check_scores(score);
  const Buffer<int64_t> on_device = upload(context_, keys);
  rescore_kernel<<<blocks_of(static_cast<int64_t>(keys.size()) + 1, kTableThreads), kTableThreads,
                   0, context_.stream>>>(keys_->ref(), on_device.data(),
                                         static_cast<uint32_t>(keys.size()), score);
  cuda_check(cudaGetLastError(), "launching rescore_kernel");
  context_.synchronize();
}

void DeviceTable::make_room_to_import(KeySpaceMemory& space, const ImportedKeys& keys,
                                      int64_t limit) {
  int64_t wanted = 0;
  bool is_over = false;
  const std::vector<KeyCounters> counters = space.counters(context_);
  const int64_t share = limit / static_cast<int64_t>(counters.size());
  for (const KeyCounters& of : counters) {
    wanted += of.wanted;
    is_over |= limit != 0 && int64_t{of.size} + of.wanted > share;
  }
  if (is_over && evicts_in_bins()) return evict_for_import(context_, space.ref(), share, keys);
  EMBLEM_REQUIRE(!is_over, "table ", settings_.name, ": more than its capacity of ", limit,
                 " keys are being imported");
  const int64_t rows = space.rows_with(context_, wanted);
  if (limit != 0 || rows <= space.rows()) return;
  if (&space == keys_.get()) return reserve(rows);
  space.grow(context_, rows);
  publish_ref();
}

Buffer<uint32_t> DeviceTable::rows_of(KeySpaceMemory& space, const Buffer<int64_t>& keys,
                                      const int64_t* scores, uint32_t count, int64_t limit) {
  Buffer<uint32_t> rows(Device::kCuda, std::max<uint32_t>(1, count)),
      tickets(Device::kCuda, std::max<uint32_t>(1, count));
  const ImportedKeys imported{keys.data(), scores, count, rows.data(), tickets.data()};
  find_in_kernel<<<blocks_of(count, kTableThreads), kTableThreads, 0, context_.stream>>>(
      space.ref(), imported);
  cuda_check(cudaGetLastError(), "launching find_in_kernel");
  try {
    make_room_to_import(space, imported, limit);
  } catch (...) {
    give_up_kernel<<<1, kMostBins, 0, context_.stream>>>(space.ref());
    throw;
  }
  add_pages_kernel<<<1, kMostBins, 0, context_.stream>>>(space.ref());
  insert_kernel<<<blocks_of(count, kTableThreads), kTableThreads, 0, context_.stream>>>(space.ref(),
                                                                                        imported);
  take_rows_kernel<<<1, kMostBins, 0, context_.stream>>>(space.ref());
  cuda_check(cudaGetLastError(), "launching insert_kernel");
  context_.synchronize();  // before the tickets are freed
  return rows;
}

void DeviceTable::write_rows(const RowBatch& batch) {
  const auto count = static_cast<uint32_t>(batch.keys.size());
  if (count == 0) return;
  const Buffer<int64_t> keys = upload(context_, batch.keys);
  const Buffer<float> weights = upload(context_, batch.weights);
  const Buffer<float> states = upload(context_, batch.states);
  const Buffer<int64_t> scores = upload(context_, batch.scores);
  std::vector<uint32_t> numbers;  // row numbers of a static table
  for (const int64_t key : batch.keys) numbers.push_back(static_cast<uint32_t>(static_row(key)));
  const Buffer<uint32_t> rows =
      is_static() ? upload<uint32_t>(context_, numbers)
                  : rows_of(*keys_, keys, batch.scores.empty() ? nullptr : scores.data(), count,
                            settings_.capacity);
  write_rows_kernel<<<blocks_of(count, kTableWarps), kTableThreads, 0, context_.stream>>>(
      ref(), rows.data(), count, weights.data(), batch.states.empty() ? nullptr : states.data(),
      batch.scores.empty() ? nullptr : scores.data());
  cuda_check(cudaGetLastError(), "launching write_rows_kernel");
  context_.synchronize();
}

void DeviceTable::import_rows(const Context&, const RowBatch& batch) {
  wait_for_transfers();
  check_rows(batch);
  // Rows are written in pieces: all of them fit, or none is written.
  const bool is_limited = !is_static() && settings_.capacity != 0 && !evicts_in_bins();
  const int64_t rows = is_limited ? size() : 0, most = settings_.capacity;
  EMBLEM_REQUIRE(!is_limited || rows + static_cast<int64_t>(batch.keys.size()) <= most ||
                     rows + count_missing(context_, keys_->ref(), batch.keys) <= most,
                 "table ", settings_.name, ": more than its capacity of ", most,
                 " keys are being imported");
  next_version_kernel<<<1, 1, 0, context_.stream>>>(ref());
  const bool ascending = std::adjacent_find(batch.keys.begin(), batch.keys.end(),
                                            std::greater_equal<>()) == batch.keys.end();
  // Duplicate keys: rows are written in pieces without duplicates, in order.
  std::unordered_map<int64_t, size_t> seen;
  size_t begin = 0;
  const auto write = [&](size_t end) {
    const size_t n = end - begin;
    write_rows({batch.keys.subspan(begin, n), batch.weights.subspan(begin * dim(), n * dim()),
                batch.states.empty()
                    ? batch.states
                    : batch.states.subspan(begin * state_floats_, n * state_floats_),
                batch.scores.empty() ? batch.scores : batch.scores.subspan(begin, n)});
    begin = end;
    seen.clear();
  };
  for (size_t i = 0; i < batch.keys.size(); ++i) {
    if (!ascending && !seen.emplace(batch.keys[i], i).second) {
      write(i);
      seen.emplace(batch.keys[i], i);
    }
    if (static_cast<int64_t>(i - begin) == kWrittenAtOnce) write(i);
  }
  write(batch.keys.size());
  size_bound_ = is_static() ? 0 : size();
}

void DeviceTable::import_admission(std::span<const KeyCount> counts) {
  if (!waiting_) return;
  clear_waiting();
  std::vector<int64_t> keys, scores;
  for (const KeyCount& of : counts) {
    keys.push_back(of.key);
    scores.push_back(of.count);
  }
  if (keys.empty()) return;
  const auto count = static_cast<uint32_t>(keys.size());
  const auto keys_there = upload<int64_t>(context_, keys);
  const auto scores_there = upload<int64_t>(context_, scores);
  const Buffer<uint32_t> rows = rows_of(*waiting_, keys_there, nullptr, count, 0);
  set_scores_kernel<<<blocks_of(count, kTableThreads), kTableThreads, 0, context_.stream>>>(
      waiting_->ref(), rows.data(), scores_there.data(), count);
  cuda_check(cudaGetLastError(), "launching set_scores_kernel");
  if (settings_.bins > 0 && make_ref().admission_capacity > 0)
    prune_imported(context_, waiting_->ref(), make_ref().admission_capacity);
  waiting_bound_ = waiting_->rows_with(context_, 0);
}

}  // namespace emblem::cuda
