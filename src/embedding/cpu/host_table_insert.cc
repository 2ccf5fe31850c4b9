// Insertion of unknown keys in training: count, admit, evict, insert.
#include <algorithm>

#include "core/memory/prefetch.h"
#include "embedding/cpu/host_table.h"
#include "embedding/cpu/lowest.h"

namespace emblem {
namespace {

constexpr size_t kAhead = 8;  // prefetch distance in keys or rows
// Groups of a growing index that are moved with every batch.
constexpr uint64_t kGroupsPerBatch = 256;
constexpr int64_t kEvictedShare = 20;  // a twentieth of the capacity is evicted at once

constexpr uint32_t kAdmitted = kNoRow - 1;  // placeholder for the row that a new key will get

}  // namespace

void HostTable::insert_missing(std::span<const KeyRun> runs) {
  try {
    collect_new_keys(runs);
    if (!new_keys_.empty()) insert_new_keys(runs);
  } catch (...) {  // keys that have got a row keep it
    std::replace(new_rows_.begin(), new_rows_.end(), kAdmitted, kNoRow);
    initialize_new_rows(0, new_rows());
    throw;
  }
  for (const Missing& missing : missing_) *missing.row = new_rows_[missing.number];
  touch(runs);
}

void HostTable::insert_new_keys(std::span<const KeyRun> runs) {
  make_room(admit_new_keys(), runs);
  if (index_.growing()) index_.move_groups(kGroupsPerBatch);
  for (size_t i = 0; i < new_keys_.size(); ++i) {
    if (i + kAhead < new_keys_.size()) index_.prefetch(new_keys_[i + kAhead]);
    if (new_rows_[i] == kAdmitted) new_rows_[i] = insert(new_keys_[i], new_scores_[i]);
  }
}

// Where there is no memory for a row, nothing changes.
uint32_t HostTable::insert(int64_t key, int64_t score) {
  meta_.grow_to(rows_.end() + 1);
  index_.make_room();
  bins_.make_room(key);
  const uint32_t row = rows_.take();
  meta(row) = {key, score, version_};
  index_.insert(key, row);
  bins_.add(key, row);
  return row;
}

void HostTable::collect_new_keys(std::span<const KeyRun> runs) {
  new_index_.forget();
  forget_new_rows();
  new_counts_.clear();
  missing_.clear();
  for (const KeyRun& run : runs) {
    for (size_t i = 0; i < run.keys.size(); ++i) {
      if (run.rows[i] != kNoRow) continue;
      const auto next = static_cast<uint32_t>(new_keys_.size());
      const uint32_t number = new_index_.insert(run.keys[i], next);
      if (number == next) {
        new_keys_.push_back(run.keys[i]);
        new_counts_.push_back(0);
      }
      new_counts_[number] += run.count(i);
      missing_.push_back({&run.rows[i], number});
    }
  }
  new_rows_.assign(new_keys_.size(), kAdmitted);
  new_scores_.assign(new_keys_.size(), 0);
}

// Marks the new keys that get no row yet; returns how many do get one.
int64_t HostTable::admit_new_keys() {
  if (admission_.open()) return static_cast<int64_t>(new_keys_.size());
  int64_t admitted = 0;
  for (size_t i = 0; i < new_keys_.size(); ++i) {
    const int64_t total = admission_.count(new_keys_[i], new_counts_[i]);
    if (total == 0) {
      new_rows_[i] = kNoRow;
      continue;
    }
    ++admitted;
    // Occurrences before admission count for LFU; touch adds those of this batch.
    if (settings_.eviction == Eviction::kLfu) new_scores_[i] = total - new_counts_[i];
  }
  admission_.prune();
  return admitted;
}

std::vector<int64_t> HostTable::wanted_by_bin(int64_t wanted) const {
  if (bins_.count() == 1) return {wanted};
  std::vector<int64_t> by_bin(bins_.count());
  for (size_t i = 0; i < new_keys_.size(); ++i)
    if (new_rows_[i] == kAdmitted) ++by_bin[bins_.of(new_keys_[i])];
  return by_bin;
}

void HostTable::make_room(int64_t wanted, std::span<const KeyRun> runs) {
  if (settings_.capacity == 0) return;
  const std::vector<int64_t> by_bin = wanted_by_bin(wanted);
  const auto excess = [&](size_t bin) { return size_of(bin) + by_bin[bin] - capacity_of_bin(); };
  size_t first = 0;  // that is full
  while (first < by_bin.size() && excess(first) <= 0) ++first;
  if (first == by_bin.size()) return;
  EMBLEM_REQUIRE(settings_.eviction != Eviction::kNone, "table ", settings_.name,
                 " is full: it has ", size(), " of ", settings_.capacity, " rows and ", wanted,
                 " new keys: raise its capacity or choose an eviction (lru, lfu, step, custom)");
  std::vector<bool> spared(rows_.end());
  std::vector<int64_t> candidates(by_bin.size());
  for (size_t bin = 0; bin < candidates.size(); ++bin) candidates[bin] = size_of(bin);
  for (const KeyRun& run : runs) {
    for (size_t i = 0; i < run.rows.size(); ++i) {
      const uint32_t row = run.rows[i];
      if (row == kNoRow || spared[row]) continue;
      spared[row] = true;
      --candidates[bins_.of(run.keys[i])];
    }
  }
  for (size_t bin = first; bin < by_bin.size(); ++bin) {
    if (excess(bin) <= 0) continue;
    if (excess(bin) > candidates[bin])
      refuse_batch(static_cast<int32_t>(bin), size_of(bin) - candidates[bin] + by_bin[bin]);
    const int64_t count = std::max(excess(bin), capacity_of_bin() / kEvictedShare);
    const int64_t evicted = std::min(candidates[bin], count);
    if (bins_.has_lists())
      evict_of_bin(bin, evicted, spared);
    else
      evict(evicted, candidates[bin], spared);
  }
}

void HostTable::evict(int64_t count, int64_t candidates, const std::vector<bool>& spared) {
  const auto for_each_row = [&](auto&& visit) {
    for (uint32_t row = 0; row < rows_.end(); ++row) {
      const Meta& of = meta(row);
      if (of.score != kUnused && !spared[row]) visit(ScoredKey{of.score, of.key}, row);
    }
  };
  const ScoredKey last = kth_lowest(candidates, count, [&](auto&& visit) {
    for_each_row([&](const ScoredKey& item, uint32_t) { visit(item); });
  });
  std::vector<uint32_t> victims;
  victims.reserve(count);
  for_each_row([&](const ScoredKey& item, uint32_t row) {
    if (item <= last) victims.push_back(row);
  });
  for (size_t i = 0; i < victims.size(); ++i) {
    if (i + kAhead < victims.size()) index_.prefetch(meta(victims[i + kAhead]).key);
    remove(meta(victims[i]).key, victims[i]);
  }
}

// The rows of a bin are anywhere in memory, so that each is visited once.
void HostTable::evict_of_bin(size_t bin, int64_t count, const std::vector<bool>& spared) {
  struct Candidate {
    ScoredKey item;
    uint32_t row;
  };
  std::vector<uint32_t>& rows = bins_.rows(bin);
  std::vector<Candidate> candidates;
  candidates.reserve(rows.size());
  size_t kept = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) prefetch(&meta(rows[i + kAhead]));
    if (spared[rows[i]])
      rows[kept++] = rows[i];
    else
      candidates.push_back({{meta(rows[i]).score, meta(rows[i]).key}, rows[i]});
  }
  const auto evicted = static_cast<size_t>(count);
  std::nth_element(candidates.begin(), candidates.begin() + count, candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.item < b.item; });
  for (size_t i = 0; i < evicted; ++i) {
    if (i + kAhead < evicted) index_.prefetch(candidates[i + kAhead].item.key);
    remove(candidates[i].item.key, candidates[i].row);
  }
  for (size_t i = evicted; i < candidates.size(); ++i) rows[kept++] = candidates[i].row;
  rows.resize(kept);
}

void HostTable::drop_excess_rows() {
  if (!bins_.has_lists()) return;
  const std::vector<bool> spared(rows_.end());
  for (size_t bin = 0; bin < bins_.count(); ++bin)
    if (const int64_t excess = size_of(bin) - capacity_of_bin(); excess > 0)
      evict_of_bin(bin, excess, spared);
}

void HostTable::touch(std::span<const KeyRun> runs) {
  const Eviction eviction = settings_.eviction;
  if (eviction == Eviction::kNone) return;
  if (eviction == Eviction::kLru || eviction == Eviction::kStep) ++clock_;
  for (const KeyRun& run : runs) {
    for (size_t i = 0; i < run.rows.size(); ++i) {
      if (i + kAhead < run.rows.size() && run.rows[i + kAhead] != kNoRow) {
        prefetch_to_write(&meta(run.rows[i + kAhead]));
      }
      if (run.rows[i] == kNoRow) continue;
      int64_t& score = meta(run.rows[i]).score;
      switch (eviction) {
        case Eviction::kLru:
        case Eviction::kStep:
          score = clock_;
          break;
        case Eviction::kLfu:
          score += run.count(i);
          break;
        case Eviction::kCustom:
          score = next_score_;
          break;
        case Eviction::kNone:
          break;
      }
    }
  }
}

}  // namespace emblem
