// retrieval/item_rows.h - vectors of items as an index stores them, and the score that they have.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/math/half.h"
#include "core/memory/host_vector.h"

namespace emblem {

enum class Similarity { kInnerProduct, kCosine };

constexpr const char* name_of(Similarity similarity) {
  return similarity == Similarity::kInnerProduct ? "inner_product" : "cosine";
}

// What lengths of vectors are limited to: products of two are finite in fp32.
inline constexpr double kLongestVector = 1e18;

// The length of a vector; infinite or NaN where an element is.
double length_of(std::span<const float> vector);

// Divides a vector, whose length is above 0, by its length.
void normalize(std::span<float> vector);

// Makes of a vector what is compared: normalized for cosine. Throws kInvalidArgument for one with
// NaN or infinite elements, above kLongestVector, or of zeros for cosine; `whose`: "query 3".
void check_and_normalize(std::span<float> vector, Similarity similarity, const std::string& whose);

// A row as it is stored: an int8 element k stands for scale * k.
struct StoredRow {
  const std::byte* data;
  float scale;
};

// Rows of one type: fp32, fp16, bf16, or int8 with a scale for each row, whose largest element
// becomes 127. Thread-compatible.
class ItemRows {
 public:
  ItemRows() = default;
  ItemRows(DType type, int64_t dim) : type_(type), dim_(dim) {}

  DType type() const { return type_; }
  int64_t dim() const { return dim_; }
  int64_t count() const { return count_; }
  int64_t row_bytes() const { return dim_ * size_of(type_); }

  // Rounds a finite vector of `dim` elements to the type. fp16: throws for elements above 65504.
  void append(std::span<const float> vector);
  // Copies a row of the same type and dim as it is.
  void append(const ItemRows& from, int64_t row);
  void reserve(int64_t rows);

  // What the row stands for, in floats.
  void read(int64_t row, float* to) const;

  // The score of a row: fma(query[k], row[k], sum) from k = 0 on, in fp32. It is the same on all
  // devices and in any batch: results of searches are these.
  float score(const float* query, int64_t row) const;
  StoredRow stored(int64_t row) const;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const float> scales() const { return scales_; }  // int8 only
  // For rows read from a file: `bytes` of whole rows, and scales of int8.
  void assign(HostVector<std::byte> bytes, HostVector<float> scales);

 private:
  const std::byte* at(int64_t row) const { return bytes_.data() + row * row_bytes(); }

  DType type_ = DType::kF32;
  int64_t dim_ = 0, count_ = 0;
  HostVector<std::byte> bytes_;
  HostVector<float> scales_;
};

// ItemRows::score of rows of a type, from any ItemRows: several at a time, which is faster.
void score_rows(DType type, std::span<const float> query, std::span<const StoredRow> rows,
                float* scores);

}  // namespace emblem
