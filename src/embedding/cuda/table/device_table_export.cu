// Reads and exports rows of a table on the GPU.
#include <algorithm>

#include "core/device/blocks.h"
#include "embedding/cuda/lookup/device_lookup.h"
#include "embedding/cuda/table/device_table.h"
#include "embedding/cuda/table/device_table_ref.cuh"
#include "embedding/cuda/table/table_copies.cuh"

namespace emblem::cuda {

// Which rows are listed.
struct RowFilter {
  int64_t since = -1;                                   // changed after this version; -1: all
  int64_t first_key = INT64_MIN, last_key = INT64_MAX;  // both included
  uint32_t stride = 1;                                  // row numbers that are multiples of it
};

namespace {

constexpr int64_t kScannedAtOnce = 1 << 20;  // rows
constexpr int64_t kSortedAtOnce = 1 << 20;   // keys; more are exported in ranges of keys
constexpr int64_t kMostRanges = 16;
constexpr int64_t kSamples = 1 << 16;

__global__ void find_kernel(const DeviceTableRef* table, const int64_t* keys, uint32_t count,
                            uint32_t* rows) {
  const uint32_t i = blockIdx.x * kTableThreads + threadIdx.x;
  if (i < count) rows[i] = table->find(keys[i]);
}

// One row per warp. `states` may be null.
__global__ void read_rows_kernel(const DeviceTableRef* of, const uint32_t* rows, uint32_t count,
                                 float* weights, float* states) {
  const DeviceTableRef& table = *of;
  const uint32_t i = blockIdx.x * kTableWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (i >= count || rows[i] == kNoRow) return;
  char* row = table.row(rows[i]);
  for (int64_t d = lane; d < table.dim; d += 32)
    weights[i * static_cast<int64_t>(table.dim) + d] = read_weight(table, row, d);
  if (states != nullptr) {
    for (int64_t d = lane; d < table.state_floats; d += 32)
      states[i * static_cast<int64_t>(table.state_floats) + d] = table.state(row)[d];
  }
}

// Rows [begin, end) of the key space, or of the static table when it has none.
__global__ void list_rows_kernel(const DeviceTableRef* of, KeySpace keys, uint32_t begin,
                                 uint32_t end, RowFilter wanted, ListedRow* listed,
                                 uint32_t* count) {
  const uint32_t row = begin + blockIdx.x * kTableThreads + threadIdx.x;
  if (row >= end || row % wanted.stride != 0) return;
  ListedRow entry{keys.meta == nullptr ? of->key_of_static_row(row) : 0, 0, row};
  if (keys.meta != nullptr) {
    const RowMeta& meta = keys.meta[row];
    if (meta.score == kUnusedScore) return;
    if (static_cast<int64_t>(meta.mark >> 32) <= wanted.since) return;
    entry = {meta.key, meta.score, row};
  } else if (entry.key >= of->keys_end ||
             static_cast<int64_t>(of->marks[row] >> 32) <= wanted.since) {
    return;
  }
  if (entry.key < wanted.first_key || entry.key > wanted.last_key) return;
  listed[atomicAdd(count, 1u)] = entry;
}

}  // namespace

Buffer<uint32_t> DeviceTable::find_row(int64_t key) const {
  const Buffer<int64_t> keys = upload<int64_t>(context_, {&key, 1});
  Buffer<uint32_t> row(Device::kCuda, 1);
  find_kernel<<<1, kTableThreads, 0, context_.stream>>>(ref(), keys.data(), 1, row.data());
  cuda_check(cudaGetLastError(), "launching find_kernel");
  context_.synchronize();  // before the keys are freed
  return row;
}

bool DeviceTable::read(int64_t key, std::span<float> weights, std::span<float> state) const {
  wait_for_transfers();
  check_room(weights, state);
  if (is_static() && (key < 0 || key >= settings_.capacity)) refuse({&key, 1});
  const Buffer<uint32_t> row = find_row(is_static() ? static_row(key) : key);
  const uint32_t number = row.to_host(context_)[0];
  if (number == kNoRow) return false;
  Buffer<float> values(Device::kCuda, dim()),
      states(Device::kCuda, std::max<int64_t>(1, state_floats_));
  read_rows_kernel<<<1, kTableThreads, 0, context_.stream>>>(ref(), row.data(), 1, values.data(),
                                                             states.data());
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
  std::vector<int64_t> rows(keys.begin(), keys.end());
  if (is_static())
    for (int64_t& key : rows) key = static_row(key);
  const Buffer<int64_t> on_device = upload<int64_t>(context_, rows);
  Buffer<float> values(Device::kCuda, std::max<int64_t>(1, out.rows), dim());
  const LookupFeature feature{this};
  DeviceLookup lookup(context_, {&feature, 1});
  FeatureKeys of;
  of.keys = {on_device.data(), out.rows, 1, Device::kCuda};
  lookup.forward(context_, {&of, 1}, phase, {values.data(), out.rows, dim(), Device::kCuda});
  ::emblem::detail::copy(context_, out.data, values.data(), out.size() * sizeof(float));
  lookup.check(context);
}

int64_t DeviceTable::rows_used(const KeySpaceMemory* space) const {
  return space != nullptr ? space->rows_end(context_) : static_rows();
}

void DeviceTable::list_rows(const KeySpaceMemory* space, int64_t begin, int64_t end,
                            const RowFilter& wanted, std::vector<ListedRow>& into) const {
  Buffer<ListedRow> listed(Device::kCuda, std::min(end - begin, kScannedAtOnce));
  Buffer<uint32_t> count(Device::kCuda, 1);
  for (; begin < end; begin += kScannedAtOnce) {
    const auto from = static_cast<uint32_t>(begin);
    const auto to = static_cast<uint32_t>(std::min(end, begin + kScannedAtOnce));
    cuda_check(cudaMemsetAsync(count.data(), 0, 4, context_.stream), "zeroing");
    list_rows_kernel<<<blocks_of(to - from, kTableThreads), kTableThreads, 0, context_.stream>>>(
        ref(), space != nullptr ? space->ref() : KeySpace{}, from, to, wanted, listed.data(),
        count.data());
    cuda_check(cudaGetLastError(), "launching list_rows_kernel");
    const size_t found = count.to_host(context_)[0], before = into.size();
    into.resize(before + found);
    download<ListedRow>(context_, listed, std::span(into).subspan(before));
    context_.synchronize();
  }
  std::sort(into.begin(), into.end(),
            [](const ListedRow& a, const ListedRow& b) { return a.key < b.key; });
}

// The last key of each range. Ranges have about the same number of keys, found from a sample.
std::vector<int64_t> DeviceTable::range_ends(const KeySpaceMemory* space, int64_t rows,
                                             int64_t since) const {
  std::vector<int64_t> ends;
  const int64_t ranges = std::min((rows + kSortedAtOnce - 1) / kSortedAtOnce, kMostRanges);
  if (ranges > 1) {
    std::vector<ListedRow> sample;
    const auto stride = static_cast<uint32_t>(std::max<int64_t>(1, rows / kSamples));
    list_rows(space, 0, rows, {.since = since, .stride = stride}, sample);
    for (int64_t r = 1; r < ranges && !sample.empty(); ++r)
      ends.push_back(sample[sample.size() * r / ranges].key);
  }
  ends.push_back(INT64_MAX);
  return ends;
}

void DeviceTable::for_each_range(
    const KeySpaceMemory* space, int64_t since,
    const std::function<void(std::span<const ListedRow>)>& visit) const {
  const int64_t rows = rows_used(space);
  std::vector<ListedRow> range;
  if (space == nullptr) {  // a static table's blocks of kParts keys are in their order
    const int64_t block = std::max(1, settings_.held.count());
    const int64_t step = std::max(block, kSortedAtOnce / block * block);
    for (int64_t begin = 0; begin < rows; begin += step) {
      range.clear();
      list_rows(space, begin, std::min(rows, begin + step), {.since = since}, range);
      visit(range);
    }
    return;
  }
  int64_t first = INT64_MIN;
  for (const int64_t last : range_ends(space, rows, since)) {
    range.clear();
    list_rows(space, 0, rows, {.since = since, .first_key = first, .last_key = last}, range);
    visit(range);
    if (last == INT64_MAX) return;  // the sample may have that key
    first = last + 1;
  }
}

void DeviceTable::export_rows(const Context&, int64_t batch_rows,
                              const std::function<void(const RowBatch&)>& take,
                              std::optional<int64_t> since) const {
  wait_for_transfers();
  EMBLEM_REQUIRE(batch_rows > 0, "table ", settings_.name,
                 ": rows are exported at least 1 at a time");
  const int64_t most = std::clamp<int64_t>(size(), 1, batch_rows);
  std::vector<int64_t> keys(most), scores(is_static() ? 0 : most);
  std::vector<uint32_t> rows(most);
  std::vector<float> weights(most * dim()), states(most * state_floats_);
  Buffer<float> weights_there(Device::kCuda, most, dim());
  Buffer<float> states_there(Device::kCuda, most, std::max<int64_t>(1, state_floats_));
  const auto hand_over = [&](std::span<const ListedRow> batch) {
    const size_t n = batch.size();
    for (size_t i = 0; i < n; ++i) {
      keys[i] = batch[i].key;
      rows[i] = batch[i].row;
      if (!is_static()) scores[i] = batch[i].score;
    }
    const auto rows_there = upload<uint32_t>(context_, std::span(rows).first(n));
    read_rows_kernel<<<blocks_of(n, kTableWarps), kTableThreads, 0, context_.stream>>>(
        ref(), rows_there.data(), static_cast<uint32_t>(n), weights_there.data(),
        states_there.data());
    cuda_check(cudaGetLastError(), "launching read_rows_kernel");
    download<float>(context_, weights_there, std::span(weights).first(n * dim()));
    download<float>(context_, states_there, std::span(states).first(n * state_floats_));
    context_.synchronize();
    take({std::span(keys).first(n), std::span(weights).first(n * dim()),
          std::span(states).first(n * state_floats_),
          std::span(scores).first(is_static() ? 0 : n)});
  };
  for_each_range(keys_.get(), since.value_or(-1), [&](std::span<const ListedRow> range) {
    for (; !range.empty(); range = range.subspan(std::min<size_t>(range.size(), most)))
      hand_over(range.first(std::min<size_t>(range.size(), most)));
  });
}

std::vector<KeyCount> DeviceTable::export_admission() const {
  std::vector<KeyCount> counts;
  if (!waiting_) return counts;
  for_each_range(waiting_.get(), -1, [&](std::span<const ListedRow> range) {
    for (const ListedRow& of : range) counts.push_back({of.key, of.score});
  });
  return counts;
}

}  // namespace emblem::cuda
