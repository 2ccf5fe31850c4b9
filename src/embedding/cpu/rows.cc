#include "embedding/cpu/rows.h"

#include <algorithm>
#include <bit>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kSlabBytes = int64_t{8} << 20;

int64_t weight_bytes(int64_t dim, DType dtype) { return (dim * size_of(dtype) + 3) / 4 * 4; }

// Rows of up to 8 bytes are powers of two, larger ones multiples of 16: no vector load of a row's
// first weights crosses a cache line.
int64_t row_stride(int64_t dim, DType dtype, int64_t state_floats) {
  const int64_t bytes = weight_bytes(dim, dtype) + state_floats * 4;
  if (bytes <= 8) return bytes <= 4 ? 4 : 8;
  return (bytes + 15) / 16 * 16;
}

}  // namespace

Slabs::Slabs(int64_t stride, int64_t slab_elements) : stride_(stride) {
  shift_ = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(1, slab_elements)) - 1);
  slab_elements_ = int64_t{1} << shift_;
}

Slabs Slabs::fixed(int64_t stride, int64_t elements) {
  Slabs slabs(stride, 1);
  slabs.shift_ = 40;
  slabs.slab_elements_ = elements;
  slabs.grow_to(elements);
  return slabs;
}

void Slabs::grow_to(int64_t elements) {
  while (this->elements() < elements) {
    if (pointers_.size() == pointers_.capacity()) pointers_.reserve(2 * pointers_.size() + 1);
    slabs_.emplace_back(static_cast<size_t>(stride_ * slab_elements_));
    pointers_.push_back(slabs_.back().data());
  }
}

int64_t Slabs::bytes() const { return elements() * stride_; }

void Slabs::clear() {
  slabs_.clear();
  pointers_.clear();
}

Rows::Rows(int64_t dim, DType dtype, int64_t state_floats)
    : dim_(dim),
      dtype_(dtype),
      state_offset_(weight_bytes(dim, dtype)),
      slabs_(row_stride(dim, dtype, state_floats),
             kSlabBytes / row_stride(dim, dtype, state_floats)) {}

Rows Rows::fixed(int64_t dim, DType dtype, int64_t state_floats, int64_t rows) {
  Rows result(dim, dtype, state_floats);
  result.slabs_ = Slabs::fixed(result.slabs_.stride(), rows);
  result.end_ = rows;
  return result;
}

uint32_t Rows::take() {
  if (!free_.empty()) {
    const uint32_t row = free_.back();
    free_.pop_back();
    return row;
  }
  EMBLEM_REQUIRE(end_ < int64_t{kNoRow}, "a table holds at most ", kNoRow,
                 " rows: spread the keys over several tables");
  slabs_.grow_to(end_ + 1);
  return static_cast<uint32_t>(end_++);
}

void Rows::clear() {
  slabs_.clear();
  free_.clear();
  end_ = 0;
}

int64_t Rows::bytes() const {
  return slabs_.bytes() + static_cast<int64_t>(free_.capacity() * sizeof(uint32_t));
}

RowsRef Rows::ref() const {
  return {slabs_.pointers(), slabs_.shift(), slabs_.stride(), state_offset_, dim_, dtype_};
}

}  // namespace emblem
