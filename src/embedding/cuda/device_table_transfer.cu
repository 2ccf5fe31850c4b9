// Keys and rows between host memory and a table on the GPU.
#include <algorithm>
#include <unordered_map>

#include "core/cuda_check.h"
#include "embedding/cuda/device_lookup.h"
#include "embedding/cuda/device_table.h"
#include "embedding/cuda/device_table_ref.cuh"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kScannedAtOnce = 1 << 20;  // rows
constexpr int64_t kWrittenAtOnce = 1 << 16;  // rows

unsigned blocks_of(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

struct Listed {
  int64_t key;
  uint32_t row;
};

__global__ void list_keys_kernel(KeySpace keys, uint32_t begin, uint32_t end, int64_t since,
                                 Listed* listed, uint32_t* count) {
  const uint32_t row = begin + blockIdx.x * kThreads + threadIdx.x;
  if (row >= min(end, keys.counters->fresh) || keys.meta[row].score == kUnusedScore) return;
  if (since >= 0 && static_cast<int64_t>(keys.meta[row].mark >> 32) <= since) return;
  listed[atomicAdd(count, 1u)] = {keys.meta[row].key, row};
}

__global__ void list_static_kernel(const DeviceTableRef* table, uint32_t begin, uint32_t end,
                                   int64_t since, Listed* listed, uint32_t* count) {
  const uint32_t row = begin + blockIdx.x * kThreads + threadIdx.x;
  if (row >= end || static_cast<int64_t>(table->marks[row] >> 32) <= since) return;
  listed[atomicAdd(count, 1u)] = {row, row};
}

__global__ void find_kernel(const DeviceTableRef* table, const int64_t* keys, uint32_t count,
                            uint32_t* rows) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < count) rows[i] = table->find(keys[i]);
}

// A warp a row. Any of the outputs may be null.
__global__ void read_rows_kernel(const DeviceTableRef* of, const uint32_t* rows, uint32_t count,
                                 float* weights, float* states, int64_t* scores) {
  const DeviceTableRef& table = *of;
  const uint32_t i = blockIdx.x * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (i >= count || rows[i] == kNoRow) return;
  char* row = table.row(rows[i]);
  for (int64_t d = lane; d < table.dim; d += 32)
    weights[i * static_cast<int64_t>(table.dim) + d] = read_weight(table, row, d);
  if (states != nullptr) {
    for (int64_t d = lane; d < table.state_floats; d += 32)
      states[i * static_cast<int64_t>(table.state_floats) + d] = table.state(row)[d];
  }
  if (scores != nullptr && lane == 0) scores[i] = table.keys.meta[rows[i]].score;
}

__global__ void find_in_kernel(KeySpace keys, const int64_t* of, uint32_t count, uint32_t* rows,
                               uint32_t* tickets) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  rows[i] = keys.find(of[i]);
  if (rows[i] == kNoRow) tickets[i] = atomicAdd(&keys.counters->wanted, 1u);
}

__global__ void insert_kernel(KeySpace keys, const int64_t* wanted, uint32_t count,
                              const uint32_t* tickets, uint32_t* rows) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count || rows[i] != kNoRow) return;
  rows[i] = keys.new_row(tickets[i]);
  keys.meta[rows[i]] = {wanted[i], 0, 0, 0};
  keys.insert(wanted[i], rows[i]);
}

__global__ void take_rows_kernel(KeySpace keys) {
  keys.take_rows(keys.counters->wanted);
  keys.counters->wanted = 0;
}

__global__ void set_scores_kernel(KeySpace keys, const uint32_t* rows, const int64_t* scores,
                                  uint32_t count) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i < count) keys.meta[rows[i]].score = scores[i];
}

__global__ void write_rows_kernel(const DeviceTableRef* of, const uint32_t* rows, uint32_t count,
                                  const float* weights, const float* states,
                                  const int64_t* scores) {
  const DeviceTableRef& table = *of;
  const uint32_t i = blockIdx.x * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (i >= count) return;
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
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t row = keys.find<KeySpace::Read::kFresh>(erased[i]);
  if (row == kNoRow || !keys.remove(erased[i], row)) return;
  keys.give_back(row);
  atomicAdd(found, 1u);
}

__global__ void rescore_kernel(KeySpace keys, const int64_t* of, uint32_t count, int64_t score) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const uint32_t row = keys.find(of[i]);
  if (row != kNoRow) keys.meta[row].score = score;
}

template <class T>
Buffer<T> upload(const Context& context, std::span<const T> values) {
  Buffer<T> buffer(Device::kCuda, std::max<int64_t>(1, static_cast<int64_t>(values.size())));
  ::emblem::detail::copy(context, buffer.data(), values.data(), values.size_bytes());
  return buffer;
}

template <class T>
void download(const Context& context, const Buffer<T>& from, std::span<T> to) {
  ::emblem::detail::copy(context, to.data(), from.data(), to.size_bytes());
}

}  // namespace

Buffer<uint32_t> DeviceTable::find_row(int64_t key) const {
  const Buffer<int64_t> keys = upload<int64_t>(context_, {&key, 1});
  Buffer<uint32_t> row(Device::kCuda, 1);
  find_kernel<<<1, kThreads, 0, context_.stream>>>(ref(), keys.data(), 1, row.data());
  cuda_check(cudaGetLastError(), "launching find_kernel");
  context_.synchronize();  // keys go away
  return row;
}

bool DeviceTable::read(int64_t key, std::span<float> weights, std::span<float> state) const {
  settle_rows();
  check_room(weights, state);
  if (is_static() && (key < 0 || key >= settings_.capacity)) refuse({&key, 1});
  const Buffer<uint32_t> row = find_row(key);
  const uint32_t number = row.to_host(context_)[0];
  if (number == kNoRow) return false;
  Buffer<float> values(Device::kCuda, dim()),
      states(Device::kCuda, std::max<int64_t>(1, state_floats_));
  read_rows_kernel<<<1, kThreads, 0, context_.stream>>>(ref(), row.data(), 1, values.data(),
                                                        states.data(), nullptr);
  download<float>(context_, values, weights);
  download<float>(context_, states, state);
  context_.synchronize();
  return true;
}

std::optional<int64_t> DeviceTable::score(int64_t key) const {
  if (is_static()) return std::nullopt;
  const Buffer<uint32_t> row = find_row(key);
  const uint32_t number = row.to_host(context_)[0];
  if (number == kNoRow) return std::nullopt;
  RowMeta meta;
  ::emblem::detail::copy(context_, &meta, keys_->ref().meta + number, sizeof(meta));
  context_.synchronize();
  return meta.score;
}

void DeviceTable::lookup_rows(const Context& context, std::span<const int64_t> keys, Phase phase,
                              View<float> out) {
  EMBLEM_REQUIRE(out.rows == static_cast<int64_t>(keys.size()) && out.cols == dim(), "table ",
                 settings_.name, ": output is [", out.rows, ", ", out.cols, "], but ", keys.size(),
                 " keys need [", keys.size(), ", ", dim(), "]");
  const Buffer<int64_t> on_device = upload(context_, keys);
  Buffer<float> values(Device::kCuda, std::max<int64_t>(1, out.rows), dim());
  const LookupFeature feature{this};
  DeviceLookup lookup(context_, {&feature, 1});
  FeatureKeys of;
  of.keys = {on_device.data(), out.rows, 1, Device::kCuda};
  lookup.forward(context_, {&of, 1}, phase, {values.data(), out.rows, dim(), Device::kCuda});
  ::emblem::detail::copy(context_, out.data, values.data(), out.size() * sizeof(float));
  lookup.check(context);
}

int64_t DeviceTable::erase(std::span<const int64_t> keys) {
  settle_rows();
  check_dynamic();
  const Buffer<int64_t> on_device = upload(context_, keys);
  const uint32_t none = 0;
  Buffer<uint32_t> found = upload<uint32_t>(context_, {&none, 1});
  erase_kernel<<<blocks_of(static_cast<int64_t>(keys.size()) + 1), kThreads, 0, context_.stream>>>(
      keys_->ref(), on_device.data(), static_cast<uint32_t>(keys.size()), found.data());
  cuda_check(cudaGetLastError(), "launching erase_kernel");
  return found.to_host(context_)[0];
}

void DeviceTable::set_score(std::span<const int64_t> keys, int64_t score) {
  check_scores(score);
  const Buffer<int64_t> on_device = upload(context_, keys);
  rescore_kernel<<<blocks_of(static_cast<int64_t>(keys.size()) + 1), kThreads, 0,
                   context_.stream>>>(keys_->ref(), on_device.data(),
                                      static_cast<uint32_t>(keys.size()), score);
  cuda_check(cudaGetLastError(), "launching rescore_kernel");
  context_.synchronize();
}

std::vector<DeviceTable::KeyRow> DeviceTable::list_keys(const KeySpaceMemory* space,
                                                        int64_t since) const {
  std::vector<KeyRow> all;
  Buffer<Listed> listed(Device::kCuda, kScannedAtOnce);
  Buffer<uint32_t> count(Device::kCuda, 1);
  const int64_t end = space != nullptr ? space->counters(context_).fresh : settings_.capacity;
  for (int64_t begin = 0; begin < end; begin += kScannedAtOnce) {
    const auto from = static_cast<uint32_t>(begin);
    const auto to = static_cast<uint32_t>(std::min(end, begin + kScannedAtOnce));
    cuda_check(cudaMemsetAsync(count.data(), 0, 4, context_.stream), "zeroing");
    if (space != nullptr)
      list_keys_kernel<<<blocks_of(to - from), kThreads, 0, context_.stream>>>(
          space->ref(), from, to, since, listed.data(), count.data());
    else
      list_static_kernel<<<blocks_of(to - from), kThreads, 0, context_.stream>>>(
          ref(), from, to, since, listed.data(), count.data());
    cuda_check(cudaGetLastError(), "launching list_keys_kernel");
    const size_t found = count.to_host(context_)[0];
    std::vector<Listed> part(found);
    download<Listed>(context_, listed, part);
    context_.synchronize();
    for (const Listed& of : part) all.push_back({of.key, of.row});
  }
  std::sort(all.begin(), all.end(), [](const KeyRow& a, const KeyRow& b) { return a.key < b.key; });
  return all;
}

void DeviceTable::export_rows(const Context&, int64_t batch_rows,
                              const std::function<void(const RowBatch&)>& take,
                              std::optional<int64_t> since) const {
  settle_rows();
  EMBLEM_REQUIRE(batch_rows > 0, "table ", settings_.name,
                 ": rows are exported at least 1 at a time");
  const std::vector<KeyRow> all = list_keys(keys_.get(), since.value_or(-1));
  const auto total = static_cast<int64_t>(all.size());
  const int64_t most = std::max<int64_t>(1, std::min(batch_rows, total));
  std::vector<int64_t> keys(most), scores(is_static() ? 0 : most);
  std::vector<uint32_t> rows(most);
  std::vector<float> weights(most * dim()), states(most * state_floats_);
  Buffer<float> weights_there(Device::kCuda, most, dim());
  Buffer<float> states_there(Device::kCuda, most, std::max<int64_t>(1, state_floats_));
  Buffer<int64_t> scores_there(Device::kCuda, most);
  for (int64_t begin = 0; begin < total; begin += batch_rows) {
    const auto n = static_cast<size_t>(std::min(batch_rows, total - begin));
    for (size_t i = 0; i < n; ++i) {
      keys[i] = all[begin + i].key;
      rows[i] = all[begin + i].row;
    }
    const auto rows_there = upload<uint32_t>(context_, std::span(rows).first(n));
    read_rows_kernel<<<static_cast<unsigned>((n + kWarps - 1) / kWarps), kThreads, 0,
                       context_.stream>>>(ref(), rows_there.data(), static_cast<uint32_t>(n),
                                          weights_there.data(), states_there.data(),
                                          is_static() ? nullptr : scores_there.data());
    cuda_check(cudaGetLastError(), "launching read_rows_kernel");
    download<float>(context_, weights_there, std::span(weights).first(n * dim()));
    download<float>(context_, states_there, std::span(states).first(n * state_floats_));
    if (!is_static()) download<int64_t>(context_, scores_there, std::span(scores).first(n));
    context_.synchronize();
    take({std::span(keys).first(n), std::span(weights).first(n * dim()),
          std::span(states).first(n * state_floats_),
          std::span(scores).first(is_static() ? 0 : n)});
  }
}

// Rows of keys, made where there are none.
Buffer<uint32_t> DeviceTable::rows_of(KeySpaceMemory& space, const Buffer<int64_t>& keys,
                                      uint32_t count, int64_t limit, const char* doing) {
  Buffer<uint32_t> rows(Device::kCuda, std::max<uint32_t>(1, count)),
      tickets(Device::kCuda, std::max<uint32_t>(1, count));
  find_in_kernel<<<blocks_of(count), kThreads, 0, context_.stream>>>(
      space.ref(), keys.data(), count, rows.data(), tickets.data());
  cuda_check(cudaGetLastError(), "launching find_in_kernel");
  const KeyCounters counters = space.counters(context_);
  const int64_t wanted = static_cast<int64_t>(counters.size) + counters.wanted;
  const auto give_up = [&] {
    cuda_check(cudaMemsetAsync(&space.ref().counters->wanted, 0, 4, context_.stream), "zeroing");
  };
  if (limit != 0 && wanted > limit) {
    give_up();
    EMBLEM_REQUIRE(false, "table ", settings_.name, ": more than its capacity of ", limit,
                   " keys are being ", doing);
  }
  try {
    if (&space == keys_.get())
      reserve(std::max(wanted, std::min(wanted * 2, keys_->rows())));
    else
      space.grow(context_, wanted);
  } catch (...) {
    give_up();
    throw;
  }
  publish_ref();
  insert_kernel<<<blocks_of(count), kThreads, 0, context_.stream>>>(space.ref(), keys.data(), count,
                                                                    tickets.data(), rows.data());
  take_rows_kernel<<<1, 1, 0, context_.stream>>>(space.ref());
  cuda_check(cudaGetLastError(), "launching insert_kernel");
  return rows;
}

void DeviceTable::write_rows(const RowBatch& batch) {
  const auto count = static_cast<uint32_t>(batch.keys.size());
  if (count == 0) return;
  const Buffer<int64_t> keys = upload(context_, batch.keys);
  const Buffer<float> weights = upload(context_, batch.weights);
  const Buffer<float> states = upload(context_, batch.states);
  const Buffer<int64_t> scores = upload(context_, batch.scores);
  Buffer<uint32_t> rows;
  if (is_static()) {
    rows = Buffer<uint32_t>(Device::kCuda, count);
    find_kernel<<<blocks_of(count), kThreads, 0, context_.stream>>>(ref(), keys.data(), count,
                                                                    rows.data());
  } else {
    rows = rows_of(*keys_, keys, count, settings_.capacity, "imported");
  }
  write_rows_kernel<<<static_cast<unsigned>((count + kWarps - 1) / kWarps), kThreads, 0,
                      context_.stream>>>(ref(), rows.data(), count, weights.data(),
                                         batch.states.empty() ? nullptr : states.data(),
                                         batch.scores.empty() ? nullptr : scores.data());
  cuda_check(cudaGetLastError(), "launching write_rows_kernel");
  context_.synchronize();
}

void DeviceTable::import_rows(const Context&, const RowBatch& batch) {
  settle_rows();
  check_rows(batch);
  for (const int64_t key : batch.keys) {
    if (is_static() && (key < 0 || key >= settings_.capacity)) refuse({&key, 1});
  }
  for (size_t i = 0; i < batch.scores.size(); ++i) {
    EMBLEM_REQUIRE(batch.scores[i] != kUnused, "table ", settings_.name, ": ", batch.scores[i],
                   " of key ", batch.keys[i], " is not a score");
  }
  next_version_kernel<<<1, 1, 0, context_.stream>>>(ref());
  const bool ascending = std::adjacent_find(batch.keys.begin(), batch.keys.end(),
                                            std::greater_equal<>()) == batch.keys.end();
  // Equal keys name one row: then rows are written in pieces without equal keys, in order.
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

std::vector<KeyCount> DeviceTable::export_admission() const {
  std::vector<KeyCount> counts;
  if (!waiting_) return counts;
  const KeySpace space = waiting_->ref();
  const std::vector<KeyRow> all = list_keys(waiting_.get(), -1);
  std::vector<RowMeta> meta(waiting_->counters(context_).fresh);
  ::emblem::detail::copy(context_, meta.data(), space.meta, meta.size() * sizeof(RowMeta));
  context_.synchronize();
  for (const KeyRow& of : all) counts.push_back({of.key, meta[of.row].score});
  return counts;
}

void DeviceTable::import_admission(std::span<const KeyCount> counts) {
  if (!waiting_) return;
  waiting_->clear(context_);
  std::vector<int64_t> keys, scores;
  for (const KeyCount& of : counts) {
    keys.push_back(of.key);
    scores.push_back(of.count);
  }
  waiting_bound_ = static_cast<int64_t>(keys.size());
  if (keys.empty()) return;
  const auto count = static_cast<uint32_t>(keys.size());
  const auto keys_there = upload<int64_t>(context_, keys);
  const auto scores_there = upload<int64_t>(context_, scores);
  const Buffer<uint32_t> rows = rows_of(*waiting_, keys_there, count, 0, "waiting");
  set_scores_kernel<<<blocks_of(count), kThreads, 0, context_.stream>>>(
      waiting_->ref(), rows.data(), scores_there.data(), count);
  cuda_check(cudaGetLastError(), "launching set_scores_kernel");
  context_.synchronize();
}

}  // namespace emblem::cuda
