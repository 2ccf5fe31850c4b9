#include "embedding/cpu/grouping.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/hash.h"

namespace emblem {
namespace {

constexpr int64_t kSliceKeys = 8192;
constexpr int64_t kPartKeys = 16384;  // a part's arrays fit into the L2 cache
constexpr int64_t kMostParts = 256;
constexpr uint64_t kFree = ~uint64_t{0};

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
  return static_cast<int64_t>(mix64(static_cast<uint64_t>(key)) &
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
  visit(of, [&](int64_t i, uint32_t row, uint32_t source, float coefficient) {
    const int64_t number = part_of(keys[i]);
    Part& part = groups_[number];
    const int64_t at = positions[number]++;
    part.row_of_occurrence[at] = row;
    part.source_of_occurrence[at] = source;
    if (weighted_) part.coefficient_of_occurrence[at] = coefficient;
  });
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

// Numbers the distinct rows; segment_of(row, next) returns the number of a row, `next` if it is
// new.
template <class SegmentOf>
void Grouping::number_rows(Part& part, SegmentOf&& segment_of) {
  const auto occurrences = static_cast<int64_t>(part.row_of_occurrence.size());
  uint32_t next = 0;
  for (int64_t i = 0; i < occurrences; ++i) {
    const uint32_t row = part.row_of_occurrence[i];
    if (row == kNoRow) {  // not admitted: its gradient is dropped
      part.segment_of_occurrence[i] = kNoRow;
      continue;
    }
    const uint32_t segment = segment_of(row, next);
    if (segment == next) {
      part.rows[next] = row;
      part.offsets[next + 1] = 0;
      ++next;
    }
    ++part.offsets[segment + 1];
    part.segment_of_occurrence[i] = segment;
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
  part.rows.resize(occurrences);
  part.offsets.resize(occurrences + 1);
  if (direct_rows_ != 0 && direct_rows_ <= 4 * kPartKeys) {
    if (static_cast<int64_t>(part.direct.size()) < direct_rows_)
      part.direct.assign(direct_rows_, 0);
    // An entry counts only if the segment it names has this row: stale entries need no clearing.
    number_rows(part, [&](uint32_t row, uint32_t next) {
      const uint32_t segment = part.direct[row];
      if (segment < next && part.rows[segment] == row) return segment;
      part.direct[row] = next;
      return next;
    });
  } else {
    const uint64_t slots = std::bit_ceil(2 * occurrences + 2);
    const int shift = 64 - std::countr_zero(slots);
    part.map.assign(slots, kFree);
    number_rows(part, [&](uint32_t row, uint32_t next) {
      uint64_t slot = (row * 0x9e3779b97f4a7c15ull) >> shift;
      for (;; slot = (slot + 1) & (slots - 1)) {
        const uint64_t entry = part.map[slot];
        if (entry == kFree) break;
        if (entry >> 32 == row) return static_cast<uint32_t>(entry);
      }
      part.map[slot] = uint64_t{row} << 32 | next;
      return next;
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
