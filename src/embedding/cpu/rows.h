// embedding/cpu/rows.h - storage for rows of equal size that never move: slabs are added, never
// reallocated.
//
// Thread-compatible: const methods may run concurrently; others need a lock.
#pragma once

#include <cstdint>
#include <vector>

#include "embedding/cpu/pages.h"
#include "embedding/rows_ref.h"

namespace emblem {

// An array of elements of `stride` bytes that grows in slabs. New elements are zero.
class Slabs {
 public:
  // `slab_elements` is rounded up to a power of two.
  Slabs(int64_t stride, int64_t slab_elements);
  // One slab of exactly `elements`, allocated at once.
  static Slabs fixed(int64_t stride, int64_t elements);

  void grow_to(int64_t elements);  // at least that many
  int64_t elements() const { return static_cast<int64_t>(slabs_.size()) * slab_elements_; }
  int64_t bytes() const;
  void clear();

  char* at(uint64_t element) const {
    return pointers_[element >> shift_] + (element & ((uint64_t{1} << shift_) - 1)) * stride_;
  }
  char* const* pointers() const { return pointers_.data(); }
  int shift() const { return shift_; }
  int64_t stride() const { return stride_; }

 private:
  int64_t stride_;
  int64_t slab_elements_;
  int shift_ = 0;
  std::vector<Pages> slabs_;
  std::vector<char*> pointers_;
};

// Rows of a table: weights, then optimizer state; with a free list.
class Rows {
 public:
  Rows(int64_t dim, DType dtype, int64_t state_floats);
  // Rows 0 ... rows - 1 are in use from the start and no others.
  static Rows fixed(int64_t dim, DType dtype, int64_t state_floats, int64_t rows);

  // A free row number. Its bytes are not initialized.
  uint32_t take();
  void give_back(uint32_t row) { free_.push_back(row); }
  void clear();

  int64_t used() const { return end_ - static_cast<int64_t>(free_.size()); }
  int64_t end() const { return end_; }  // all row numbers in use are below
  int64_t bytes() const;
  int64_t stride() const { return slabs_.stride(); }
  RowsRef ref() const;

 private:
  int64_t dim_;
  DType dtype_;
  int64_t state_offset_;
  Slabs slabs_;
  int64_t end_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace emblem
