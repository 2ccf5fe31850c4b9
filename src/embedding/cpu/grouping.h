// embedding/cpu/grouping.h - groups the occurrences of a batch's keys by row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/memory/host_vector.h"
#include "embedding/cpu/segment_update.h"
#include "embedding/lookup.h"
#include "embedding/settings.h"

namespace emblem {

// The keys of one feature over the table, and where its gradients are: that of bag b begins at
// float first + b * stride.
struct Occurrences {
  FeatureKeys keys;
  const uint32_t* rows = nullptr;  // per key; null: keys are row numbers
  Pooling pooling = Pooling::kSum;
  int64_t first = 0;
  int64_t stride = 0;
};

// Groups the keys of one table: its distinct rows in the order of their first occurrence, each
// with its occurrences in the order of (feature, bag, position). Large batches are cut by the
// hash of the key into parts that depend only on the number of keys and can be grouped
// concurrently. Buffers are reused from batch to batch.
class Grouping {
 public:
  // `rows` > 0: row numbers are below it (and few enough for an array).
  explicit Grouping(int64_t rows = 0) : direct_rows_(rows) {}

  // 1. Sets the features (borrowed until the last step).
  void start(std::span<const Occurrences> features);
  // 2. For each slice, in any order or concurrently, when there is more than one part.
  int64_t slices() const { return static_cast<int64_t>(slices_.size()); }
  void count_slice(int64_t slice);
  // 3. Once.
  void place_slices();
  // 4. For each slice.
  void fill_slice(int64_t slice);
  // 5. For each part, in any order or concurrently. With one part, steps 2 to 4 are skipped.
  int64_t parts() const { return parts_; }
  void group_part(int64_t part);

  // Instead of all steps, where rows are numbered 0, 1, 2, ... and row r is known to occur
  // counts[r] times: one part, whose segment r is row r.
  void group_numbered(std::span<const Occurrences> features, std::span<const int32_t> counts);

  Segments segments(int64_t part) const;

 private:
  struct Slice {
    int feature;
    int64_t begin, end;  // range of its keys
    int64_t first_bag;
  };
  struct Part {
    HostVector<uint32_t> rows, offsets, sources, row_of_occurrence, segment_of_occurrence;
    HostVector<uint32_t> source_of_occurrence;
    HostVector<float> coefficient_of_occurrence, coefficients;
    HostVector<uint32_t> slots;   // open addressing: segments by the hash of their rows
    HostVector<uint32_t> direct;  // row -> segment, where rows are few
    int64_t count = 0;
  };

  template <class Take>
  void visit(const Slice& slice, Take&& take) const;
  int64_t part_of(int64_t key) const;
  int64_t cut_into_slices(std::span<const Occurrences> features);
  void flatten_all();
  template <class Find>
  void number_rows(Part& part, HostVector<uint32_t>& slots, Find&& find);
  void order_occurrences(Part& part) const;

  int64_t direct_rows_;
  std::span<const Occurrences> features_;
  int64_t parts_ = 1;
  bool weighted_ = false;
  std::vector<Slice> slices_;
  std::vector<int64_t> positions_;  // [slices, parts]: where a slice's occurrences of a part begin
  std::vector<Part> groups_;        // parts_ of them are in use
};

}  // namespace emblem
