// data/loader/content_holdout.h - which rows are held out, by what they hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/format/decoder.h"

namespace emblem {

// Rows with equal values in some columns are all held out or all trained on, whatever the format of
// the file and the place of a row: numbers are compared by value, `true` and `True` are 1. Made
// once; select may run concurrently.
class ContentHoldout {
 public:
  // Keeps all rows.
  ContentHoldout() = default;
  // Appends its columns to `requests`. `part` is not kAll.
  ContentHoldout(const std::vector<std::string>& fields, double ratio, uint64_t seed, RowPart part,
                 std::vector<ColumnRequest>& requests);

  bool keeps_all() const { return columns_.empty(); }
  // Removes the rows of the other part.
  void select(DecodedPiece& piece) const;

 private:
  bool is_held_out(const Block& block, int64_t row) const;

  std::vector<size_t> columns_;  // columns of the block
  double ratio_ = 0;
  uint64_t seed_ = 0;
  RowPart part_ = RowPart::kAll;
};

// Equal for equal values of files of any format: "0.10" and 0.1, "7" and 7.0, "True" and 1, "NA"
// and nothing.
uint64_t content_hash(std::string_view text);

}  // namespace emblem
