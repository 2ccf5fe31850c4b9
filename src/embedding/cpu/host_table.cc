#include "embedding/cpu/host_table.h"

#include <algorithm>
#include <cstring>

#include "core/threads/thread_pool.h"
#include "embedding/cpu/gather_pool.h"
#include "embedding/cpu/initialize_rows.h"
#include "embedding/cpu/lowest.h"
#include "emblem/error.h"

namespace emblem {
namespace {

void drop_lowest(KeyIndex& counts, int64_t excess) {
  const auto for_each = [&](auto&& visit) {
    counts.for_each([&](int64_t key, uint32_t count) { visit(ScoredKey{count, key}); });
  };
  const ScoredKey last = kth_lowest(counts.size(), excess, for_each);
  std::vector<int64_t> dropped;
  dropped.reserve(excess);
  for_each([&](const ScoredKey& item) {
    if (item <= last) dropped.push_back(item.key);
  });
  for (const int64_t key : dropped) counts.erase(key);
}

constexpr int64_t kMetaSlab = 1 << 17;

int64_t most_waiting_in_a_bin(const TableSettings& settings) {
  return settings.most_waiting() / std::max(held_bins(settings).count, 1);
}

}  // namespace

int64_t Admission::count(int64_t key, int64_t occurrences) {
  if (open()) return occurrences;
  KeyIndex& counts = counts_[bins_.of(key)];
  const uint32_t before = counts.find(key);
  const int64_t total = occurrences + (before == KeyIndex::kNone ? 0 : int64_t{before});
  if (total < threshold_) {
    counts.assign(key, static_cast<uint32_t>(total));
    return 0;
  }
  if (before != KeyIndex::kNone) counts.erase(key);
  return total;
}

void Admission::prune() {
  if (capacity_ == 0) return;
  for (KeyIndex& counts : counts_)
    if (counts.size() > capacity_) drop_lowest(counts, counts.size() - capacity_ + capacity_ / 20);
}

int64_t Admission::bytes() const {
  int64_t bytes = 0;
  for (const KeyIndex& counts : counts_) bytes += counts.bytes();
  return bytes;
}

void Admission::clear() {
  for (KeyIndex& counts : counts_) counts.clear();
}

std::vector<KeyCount> Admission::sorted() const {
  std::vector<KeyCount> all;
  for (const KeyIndex& counts : counts_)
    counts.for_each([&](int64_t key, uint32_t count) { all.push_back({key, count}); });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return all;
}

void Admission::restore(std::span<const KeyCount> counts) {
  clear();
  if (open()) return;  // the threshold was lowered: the next occurrence admits
  for (const auto& [key, count] : counts) {
    EMBLEM_REQUIRE(count > 0, "admission: key ", key, " has the count ", count,
                   ", but counts begin at 1");
    counts_[bins_.of(key)].assign(key, static_cast<uint32_t>(std::min(count, threshold_ - 1)));
  }
}

HostTable::HostTable(const Context& context, TableSettings settings)
    : Table(std::move(settings)),
      rows_(make_rows()),
      meta_(sizeof(Meta), kMetaSlab),
      index_(is_static() ? 0 : settings_.initial_capacity),
      bins_(settings_),
      admission_(settings_.admission_threshold, most_waiting_in_a_bin(settings_),
                 held_bins(settings_)) {
  if (!is_static()) return;
  changed_.resize(rows_.end());
  std::fill(changed_.begin(), changed_.end(), 0);
  initialize_all(Context{.threads = context.threads});
}

void HostTable::initialize_all(const Context& context) {
  initialize_rows(context, {.rows = rows_.ref(),
                            .held = settings_.held,
                            .count = rows_.end(),
                            .initializer = settings_.initializer,
                            .seed = settings_.seed,
                            .state = first_state(),
                            .state_floats = state_floats_});
}

Rows HostTable::make_rows() const {
  return is_static() ? Rows::fixed(dim(), settings_.dtype, state_floats_,
                                   local_rows(settings_.capacity, settings_.held))
                     : Rows(dim(), settings_.dtype, state_floats_);
}

int64_t HostTable::bytes() const {
  const auto held = [](const auto& values) {
    return static_cast<int64_t>(values.capacity() * sizeof(values[0]));
  };
  return rows_.bytes() + meta_.bytes() + index_.bytes() + bins_.bytes() + admission_.bytes() +
         held(changed_) + new_index_.bytes() + held(missing_) + held(new_keys_) +
         held(new_counts_) + held(new_scores_) + held(new_rows_) + held(lookup_numbers_);
}

uint32_t HostTable::find(int64_t key) const {
  if (!is_static()) return index_.find(key);
  if (key < 0 || key >= settings_.capacity) refuse({&key, 1});
  return row_of(key);
}

void HostTable::read_row(uint32_t row, float* weights, float* state) const {
  const RowsRef ref = rows_.ref();
  char* at = ref.row(row);
  with_weight_type(settings_.dtype, [&](auto type) {
    for (int64_t d = 0; d < dim(); ++d) {
      weights[d] = load_weight(reinterpret_cast<const decltype(type)*>(at) + d);
    }
  });
  if (state != nullptr) std::memcpy(state, ref.state(at), state_floats_ * sizeof(float));
}

void HostTable::write_row(uint32_t row, const float* weights, const float* state) {
  const RowsRef ref = rows_.ref();
  char* at = ref.row(row);
  with_weight_type(settings_.dtype, [&](auto type) {
    for (int64_t d = 0; d < dim(); ++d) {
      store_weight(reinterpret_cast<decltype(type)*>(at) + d, weights[d]);
    }
  });
  if (state != nullptr)
    std::memcpy(ref.state(at), state, state_floats_ * sizeof(float));
  else
    std::fill_n(ref.state(at), state_floats_, first_state());
}

bool HostTable::read(int64_t key, std::span<float> weights, std::span<float> state) const {
  check_room(weights, state);
  const uint32_t row = find(key);
  if (row == kNoRow) return false;
  read_row(row, weights.data(), state.empty() ? nullptr : state.data());
  return true;
}

std::optional<int64_t> HostTable::score(int64_t key) const {
  if (is_static()) return std::nullopt;
  const uint32_t row = index_.find(key);
  if (row == kNoRow) return std::nullopt;
  return meta(row).score;
}

void HostTable::lookup_rows(const Context& context, std::span<const int64_t> keys, Phase phase,
                            View<float> out) {
  EMBLEM_REQUIRE(out.rows == static_cast<int64_t>(keys.size()) && out.cols == dim(), "table ",
                 settings_.name, ": output is [", out.rows, ", ", out.cols, "], but ", keys.size(),
                 " keys need [", keys.size(), ", ", dim(), "]");
  lookup_numbers_.resize(keys.size());
  const std::span<uint32_t> numbers(lookup_numbers_);
  if (is_static()) {
    for (size_t i = 0; i < keys.size(); ++i) numbers[i] = find(keys[i]);
  } else {
    find(keys, numbers);
  }
  if (!is_static() && phase == Phase::kTrain) {
    const KeyRun run{keys, numbers};
    insert_missing({&run, 1});
    initialize_new_rows(0, new_rows());
  }
  GatherPool op{.rows = rows_.ref(),
                .keys = keys.data(),
                .row_numbers = numbers.data(),
                .bags = out.rows,
                .absent = absent(phase),
                .seed = settings_.seed,
                .out = out.data,
                .out_stride = out.cols};
  gather_pool(Context{.threads = context.threads}, op);
}

int64_t HostTable::erase(std::span<const int64_t> keys) {
  check_dynamic();
  int64_t erased = 0;
  for (const int64_t key : keys) {
    const uint32_t row = index_.find(key);
    if (row == kNoRow) continue;
    bins_.remove(key, row);
    remove(key, row);
    ++erased;
  }
  return erased;
}

void HostTable::remove(int64_t key, uint32_t row) {
  index_.erase(key);
  meta(row).score = kUnused;
  rows_.give_back(row);
}

void HostTable::clear() {
  clock_ = next_score_ = 0;
  if (is_static()) {
    initialize_all(Context{});
    return;
  }
  rows_.clear();
  meta_.clear();
  index_.clear();
  bins_.clear();
  admission_.clear();
}

void HostTable::initialize_new_rows(int64_t begin, int64_t end) {
  const InitializeRows op{.rows = rows_.ref(),
                          .row_numbers = new_rows_.data(),
                          .keys = new_keys_.data(),
                          .count = new_rows(),
                          .initializer = settings_.initializer,
                          .seed = settings_.seed,
                          .state = first_state(),
                          .state_floats = state_floats_};
  cpu::initialize_rows(op, begin, end);
}

void HostTable::set_next_score(int64_t score) {
  check_scores(score);
  next_score_ = score;
}

void HostTable::set_score(std::span<const int64_t> keys, int64_t score) {
  check_scores(score);
  for (const int64_t key : keys) {
    if (const uint32_t row = index_.find(key); row != kNoRow) meta(row).score = score;
  }
}

}  // namespace emblem
