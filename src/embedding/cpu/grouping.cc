#include "embedding/cpu/grouping.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace emblem {
namespace {

constexpr int64_t kSliceKeys = 8192;
constexpr int64_t kPartKeys = 16384;  // a part's arrays fit into the L2 cache
constexpr int64_t kMostParts = 256;
constexpr uint32_t kFree = ~uint32_t{0};
// Odd numbers whose products with keys and rows have well mixed high bits.
constexpr uint64_t kPartFactor = 0x9e3779b97f4a7c15, kSlotFactor = 0xbf58476d1ce4e5b9;

bool has_coefficients(const Occurrences& feature) {
  return feature.keys.weights.size() != 0 ||
         (feature.pooling == Pooling::kMean && feature.keys.offsets.size() != 0);
}

// The factor of a bag's mean.
float bag_factor(const Occurrences& feature, int64_t begin, int64_t end) {
  if (feature.pooling == Pooling::kSum) return 1.0f;
  float total = 0.0f;
  for (int64_t i = begin; i < end; ++i) {
    total += feature.keys.weights.size() != 0 ? feature.keys.weights.data[i] : 1.0f;
  }
  return total != 0.0f ? 1.0f / total : 0.0f;
}

}  // namespace

int64_t Grouping::part_of(int64_t key) const {
  return static_cast<int64_t>((static_cast<uint64_t>(key) * kPartFactor >> 32) &
                              static_cast<uint64_t>(parts_ - 1));
}

// Returns the number of keys.
int64_t Grouping::cut_into_slices(std::span<const Occurrences> features) {
  features_ = features;
  int64_t keys = 0;
  weighted_ = false;
  slices_.clear();
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureKeys& of = features[f].keys;
    weighted_ |= has_coefficients(features[f]);
    keys += of.keys.size();
    const int64_t bags = bags_of(of);
    // A slice is a run of whole bags.
    int64_t begin = 0;
    for (int64_t bag = 0; bag < bags;) {
      int64_t last = std::min(bags, bag + kSliceKeys);
      int64_t end = last;
      if (of.offsets.size() != 0) {
        const int32_t* first = of.offsets.data + bag + 1;
        last = std::upper_bound(first, of.offsets.data + bags + 1, begin + kSliceKeys) -
               of.offsets.data - 1;
        last = std::clamp(last, bag + 1, bags);
        end = of.offsets.data[last];
      }
      if (end > begin) slices_.push_back({static_cast<int>(f), begin, end, bag});
      begin = end;
      bag = last;
    }
  }
  return keys;
}

void Grouping::start(std::span<const Occurrences> features) {
  const int64_t keys = cut_into_slices(features);
  const auto wanted = static_cast<uint64_t>((keys + kPartKeys - 1) / kPartKeys);
  parts_ = std::min<int64_t>(kMostParts, static_cast<int64_t>(std::bit_ceil(wanted)));
  if (groups_.size() < static_cast<size_t>(parts_)) groups_.resize(parts_);
  positions_.assign(slices_.size() * parts_, 0);
  if (parts_ == 1) groups_[0].row_of_occurrence.resize(keys);
  if (parts_ == 1) groups_[0].source_of_occurrence.resize(keys);
  if (parts_ == 1 && weighted_) groups_[0].coefficient_of_occurrence.resize(keys);
}

// Calls take(key number, row, source, coefficient) for the keys of a slice in order.
template <class Take>
void Grouping::visit(const Slice& slice, Take&& take) const {
  const Occurrences& feature = features_[slice.feature];
  const int64_t* keys = feature.keys.keys.data;
  const auto row = [&](int64_t i) {
    return feature.rows != nullptr ? feature.rows[i] : static_cast<uint32_t>(keys[i]);
  };
  const float* weights = feature.keys.weights.size() != 0 ? feature.keys.weights.data : nullptr;
  if (feature.keys.offsets.size() == 0) {
    for (int64_t i = slice.begin; i < slice.end; ++i) {
      float coefficient = 1.0f;
      if (weights != nullptr) coefficient = weights[i] * bag_factor(feature, i, i + 1);
      take(i, row(i), static_cast<uint32_t>(feature.first + i * feature.stride), coefficient);
    }
    return;
  }
  const int32_t* offsets = feature.keys.offsets.data;
  for (int64_t bag = slice.first_bag, i = slice.begin; i < slice.end; ++bag) {
    const float factor = bag_factor(feature, offsets[bag], offsets[bag + 1]);
    const auto source = static_cast<uint32_t>(feature.first + bag * feature.stride);
    for (; i < offsets[bag + 1]; ++i) {
      take(i, row(i), source, weights != nullptr ? weights[i] * factor : factor);
    }
  }
}

void Grouping::count_slice(int64_t slice) {
  const Slice& of = slices_[slice];
  int64_t* counts = positions_.data() + slice * parts_;
  const int64_t* keys = features_[of.feature].keys.keys.data;
  for (int64_t i = of.begin; i < of.end; ++i) ++counts[part_of(keys[i])];
}

void Grouping::place_slices() {
  for (int64_t part = 0; part < parts_; ++part) {
    int64_t position = 0;
    for (int64_t slice = 0; slice < slices(); ++slice) {
      position += std::exchange(positions_[slice * parts_ + part], position);
    }
    groups_[part].row_of_occurrence.resize(position);
    groups_[part].source_of_occurrence.resize(position);
    if (weighted_) groups_[part].coefficient_of_occurrence.resize(position);
  }
}

void Grouping::fill_slice(int64_t slice) {
  const Slice& of = slices_[slice];
  int64_t* positions = positions_.data() + slice * parts_;
  const int64_t* keys = features_[of.feature].keys.keys.data;
  uint32_t *rows[kMostParts], *sources[kMostParts];
  float* coefficients[kMostParts];
  for (int64_t number = 0; number < parts_; ++number) {
    Part& part = groups_[number];
    rows[number] = part.row_of_occurrence.data() + positions[number];
    sources[number] = part.source_of_occurrence.data() + positions[number];
    coefficients[number] = part.coefficient_of_occurrence.data() + positions[number];
  }
  const auto fill = [&](auto weighted) {
    visit(of, [&](int64_t i, uint32_t row, uint32_t source, float coefficient) {
      const int64_t number = part_of(keys[i]);
      *rows[number]++ = row;
      *sources[number]++ = source;
      if constexpr (weighted) *coefficients[number]++ = coefficient;
    });
  };
  if (weighted_)
    fill(std::true_type{});
  else
    fill(std::false_type{});
}

void Grouping::flatten_all() {
  Part& part = groups_[0];
  int64_t at = 0;
  for (const Slice& slice : slices_) {
    visit(slice, [&](int64_t, uint32_t row, uint32_t source, float coefficient) {
      part.row_of_occurrence[at] = row;
      part.source_of_occurrence[at] = source;
      if (weighted_) part.coefficient_of_occurrence[at] = coefficient;
      ++at;
    });
  }
}

// Numbers the distinct rows. find(row, next) returns a row's slot and number, `next` if it is new.
// Whether it is new is hard to predict, so the usual cases have no branch for it: every row is
// written as if it were.
template <class Find>
void Grouping::number_rows(Part& part, HostVector<uint32_t>& slots, Find&& find) {
  const auto occurrences = static_cast<int64_t>(part.row_of_occurrence.size());
  const uint32_t* const row_of = part.row_of_occurrence.data();
  uint32_t *const numbered = slots.data(), *const rows = part.rows.data(),
                  *const offsets = part.offsets.data(),
                  *const segment_of = part.segment_of_occurrence.data();
  uint32_t next = 0;
  for (int64_t i = 0; i < occurrences; ++i) {
    const uint32_t row = row_of[i];
    if (row == kNoRow) [[unlikely]] {  // not admitted: its gradient is dropped
      segment_of[i] = kNoRow;
      continue;
    }
    rows[next] = row;
    offsets[next + 1] = 0;
    const auto [slot, segment] = find(row, next);
    numbered[slot] = segment;
    ++offsets[segment + 1];
    segment_of[i] = segment;
    next += segment == next;
  }
  part.count = next;
}

void Grouping::group_part(int64_t number) {
  if (parts_ == 1) flatten_all();
  Part& part = groups_[number];
  const size_t occurrences = part.row_of_occurrence.size();
  part.segment_of_occurrence.resize(occurrences);
  part.sources.resize(occurrences);
  if (weighted_) part.coefficients.resize(occurrences);
  part.rows.resize(occurrences + 1);
  part.offsets.resize(occurrences + 2);
  const uint32_t* const rows = part.rows.data();
  if (direct_rows_ != 0 && direct_rows_ <= 4 * kPartKeys) {
    // An entry counts only if the segment it names has this row: stale entries need no clearing.
    if (static_cast<int64_t>(part.direct.size()) < direct_rows_)
      part.direct.assign(direct_rows_, 0);
    const uint32_t* const numbered = part.direct.data();
    number_rows(part, part.direct, [=](uint32_t row, uint32_t next) {
      const uint32_t segment = std::min(numbered[row], next);
      return std::pair(size_t{row}, rows[segment] == row ? segment : next);
    });
  } else {
    const size_t slots = std::bit_ceil(2 * occurrences + 2), mask = slots - 1;
    const int shift = 64 - std::countr_zero(slots);
    part.slots.assign(slots, kFree);
    const uint32_t* const numbered = part.slots.data();
    number_rows(part, part.slots, [=](uint32_t row, uint32_t next) {
      size_t slot = (row * kSlotFactor) >> shift;
      uint32_t segment = std::min(numbered[slot], next);  // free: next
      while (rows[segment] != row) [[unlikely]] {
          slot = (slot + 1) & mask;
          segment = std::min(numbered[slot], next);
        }
      return std::pair(slot, segment);
    });
  }
  order_occurrences(part);
}

void Grouping::order_occurrences(Part& part) const {
  // offsets[s + 1] holds the count of s; after this loop, where the next occurrence of s goes.
  part.offsets[0] = 0;
  uint32_t position = 0;
  for (int64_t s = 0; s < part.count; ++s) position += std::exchange(part.offsets[s + 1], position);
  const size_t occurrences = part.row_of_occurrence.size();
  for (size_t i = 0; i < occurrences; ++i) {
    const uint32_t segment = part.segment_of_occurrence[i];
    if (segment == kNoRow) continue;
    const uint32_t at = part.offsets[segment + 1]++;
    part.sources[at] = part.source_of_occurrence[i];
    if (weighted_) part.coefficients[at] = part.coefficient_of_occurrence[i];
  }
}

void Grouping::group_numbered(std::span<const Occurrences> features,
                              std::span<const int32_t> counts) {
  const auto keys = static_cast<size_t>(cut_into_slices(features));
  parts_ = 1;
  if (groups_.empty()) groups_.resize(1);
  Part& part = groups_[0];
  part.count = static_cast<int64_t>(counts.size());
  part.rows.resize(counts.size());
  part.offsets.resize(counts.size() + 1);
  part.sources.resize(keys);
  if (weighted_) part.coefficients.resize(keys);
  // offsets[r + 1] is where the next occurrence of r goes, and in the end where those of r end.
  part.offsets[0] = 0;
  uint32_t position = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    part.rows[r] = static_cast<uint32_t>(r);
    part.offsets[r + 1] = position;
    position += static_cast<uint32_t>(counts[r]);
  }
  for (const Slice& slice : slices_) {
    visit(slice, [&](int64_t, uint32_t row, uint32_t source, float coefficient) {
      const uint32_t at = part.offsets[row + 1]++;
      part.sources[at] = source;
      if (weighted_) part.coefficients[at] = coefficient;
    });
  }
}

Segments Grouping::segments(int64_t number) const {
  const Part& part = groups_[number];
  return {part.rows.data(), part.offsets.data(), part.sources.data(),
          weighted_ ? part.coefficients.data() : nullptr, part.count};
}

}  // namespace emblem
