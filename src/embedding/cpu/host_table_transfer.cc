// Export and import of rows.
#include <algorithm>
#include <iterator>

#include "core/threads/thread_pool.h"
#include "embedding/cpu/host_table.h"

namespace emblem {
namespace {

constexpr int64_t kSortedAtOnce = 1 << 20;  // keys; more are exported in ranges of keys
constexpr int64_t kSamples = 1 << 16;

struct KeyRow {
  int64_t key;
  uint32_t row;
};

// Borders that cut the keys into ranges of about `keys_per_range`, found from a sample: range r
// holds the keys in (borders[r - 1], borders[r]].
std::vector<int64_t> range_borders(const KeyIndex& index, int64_t keys_per_range) {
  const int64_t ranges = (index.size() + keys_per_range - 1) / keys_per_range;
  std::vector<int64_t> sample, borders;
  const int64_t stride = std::max<int64_t>(1, index.size() / kSamples);
  int64_t seen = 0;
  if (ranges > 1) {
    index.for_each([&](int64_t key, uint32_t) {
      if (seen++ % stride == 0) sample.push_back(key);
    });
    std::sort(sample.begin(), sample.end());
    for (int64_t r = 1; r < ranges; ++r) borders.push_back(sample[sample.size() * r / ranges]);
  }
  borders.push_back(INT64_MAX);
  return borders;
}

}  // namespace

void HostTable::export_rows(const Context& context, int64_t batch_rows,
                            const std::function<void(const RowBatch&)>& take,
                            std::optional<int64_t> since) const {
  EMBLEM_REQUIRE(batch_rows > 0, "table ", settings_.name,
                 ": rows are exported at least 1 at a time");
  std::vector<int64_t> keys(std::min(batch_rows, size())), scores(is_static() ? 0 : keys.size());
  std::vector<float> weights(keys.size() * dim()), states(keys.size() * state_floats_);
  const auto hand_over = [&](int64_t count, auto&& item) {
    parallel_for(context, count, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const KeyRow from = item(i);
        keys[i] = from.key;
        if (!is_static()) scores[i] = meta(from.row).score;
        read_row(from.row, weights.data() + i * dim(), states.data() + i * state_floats_);
      }
    });
    const auto n = static_cast<size_t>(count);
    take({std::span(keys).first(n), std::span(weights).first(n * dim()),
          std::span(states).first(n * state_floats_),
          std::span(scores).first(is_static() ? 0 : n)});
  };
  const auto wanted = [&](uint32_t row) { return !since || changed(row) > *since; };
  std::vector<KeyRow> range;
  const auto hand_over_range = [&] {
    const auto count = static_cast<int64_t>(range.size());
    for (int64_t begin = 0; begin < count; begin += batch_rows) {
      hand_over(std::min(batch_rows, count - begin), [&](int64_t i) { return range[begin + i]; });
    }
    range.clear();
  };
  if (is_static()) {
    for (int64_t key = 0; key < settings_.capacity; ++key) {
      if (!settings_.held.contains(part_of_static_key(key))) continue;
      if (wanted(row_of(key))) range.push_back({key, row_of(key)});
      if (static_cast<int64_t>(range.size()) == batch_rows) hand_over_range();
    }
    hand_over_range();
    return;
  }
  const int64_t keys_per_range = std::max(kSortedAtOnce, size() / 16);
  int64_t border = INT64_MIN;
  bool first = true;  // the first range includes its lower border
  for (const int64_t next : range_borders(index_, keys_per_range)) {
    index_.for_each([&](int64_t key, uint32_t row) {
      if ((first || key > border) && key <= next && wanted(row)) range.push_back({key, row});
    });
    std::sort(range.begin(), range.end(), [](auto& a, auto& b) { return a.key < b.key; });
    hand_over_range();
    border = next;
    first = false;
  }
}

// The row of key i of the batch, which is new if the key had none.
uint32_t HostTable::row_of_imported(const RowBatch& batch, int64_t i) {
  const int64_t key = batch.keys[i];
  uint32_t row = find(key);
  if (row == kNoRow) row = insert(key, 0);
  if (!is_static()) meta(row).score = batch.scores.empty() ? 0 : batch.scores[i];
  note_change(row);
  return row;
}

// Before any row changes.
void HostTable::check_room_to_import(std::span<const int64_t> keys) const {
  if (is_static() || settings_.capacity == 0 || bins_.has_lists()) return;
  if (size() + static_cast<int64_t>(keys.size()) <= settings_.capacity) return;
  std::vector<int64_t> added;
  std::ranges::copy_if(keys, std::back_inserter(added),
                       [&](int64_t key) { return find(key) == kNoRow; });
  std::ranges::sort(added);
  added.erase(std::ranges::unique(added).begin(), added.end());
  EMBLEM_REQUIRE(size() + static_cast<int64_t>(added.size()) <= settings_.capacity, "table ",
                 settings_.name, ": more than its capacity of ", settings_.capacity,
                 " keys are being imported");
}

void HostTable::import_rows(const Context& context, const RowBatch& batch) {
  const auto count = static_cast<int64_t>(batch.keys.size());
  check_rows(batch);
  check_room_to_import(batch.keys);
  next_version();
  lookup_numbers_.resize(count);
  // Duplicate keys share a row: they are written in order.
  const auto write = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      write_row(lookup_numbers_[i], batch.weights.data() + i * dim(),
                batch.states.empty() ? nullptr : batch.states.data() + i * state_floats_);
    }
  };
  int64_t placed = 0;
  try {
    for (; placed < count; ++placed) lookup_numbers_[placed] = row_of_imported(batch, placed);
  } catch (...) {  // no key has a row without values
    write(0, placed);
    throw;
  }
  const bool ascending = std::adjacent_find(batch.keys.begin(), batch.keys.end(),
                                            std::greater_equal<>()) == batch.keys.end();
  if (ascending)
    parallel_for(context, count, 1024, write);
  else
    write(0, count);
  drop_excess_rows();
}

void HostTable::import_admission(std::span<const KeyCount> counts) {
  admission_.restore(counts);
  if (settings_.bins > 0) admission_.prune();
}

}  // namespace emblem
