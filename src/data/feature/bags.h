// data/feature/bags.h - which values of a column belong together: those of a row, or those of an
// element of a sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "data/format/block.h"

namespace emblem {

// Whether a value may be missing.
bool any_missing(const Column& column);

// Marks numbers that stand for missing values (data/format/text/number_text.h) as missing.
void mark_missing_numbers(Column& column);

// A view of the bags of a column. Borrows what it is made from.
class BagView {
 public:
  // One bag per row.
  BagView(const Column& column, int64_t rows)
      : count_(rows),
        begins_(column.offsets.empty() ? nullptr : column.offsets.data()),
        ends_(column.offsets.empty() ? nullptr : column.offsets.data() + 1) {}
  // Bag i holds the values [begins[i], ends[i]) and belongs to row rows[i]. A bag that begins at
  // kPadding is an element that the data does not have.
  BagView(const std::vector<int32_t>& begins, const std::vector<int32_t>& ends,
          const std::vector<int32_t>& rows)
      : count_(static_cast<int64_t>(begins.size())),
        begins_(begins.data()),
        ends_(ends.data()),
        rows_(rows.data()) {}

  static constexpr int32_t kPadding = -1;

  int64_t size() const { return count_; }
  // Bag i is value i, of row i.
  bool is_plain() const { return begins_ == nullptr; }
  int64_t begin(int64_t bag) const { return begins_ == nullptr ? bag : begins_[bag]; }
  int64_t end(int64_t bag) const { return ends_ == nullptr ? bag + 1 : ends_[bag]; }
  int64_t row(int64_t bag) const { return rows_ == nullptr ? bag : rows_[bag]; }
  bool is_padding(int64_t bag) const { return begins_ != nullptr && begins_[bag] == kPadding; }

 private:
  int64_t count_;
  const int32_t* begins_ = nullptr;
  const int32_t* ends_ = nullptr;
  const int32_t* rows_ = nullptr;
};

struct SequenceRule {
  int64_t max_length = 0;    // longer ones keep their first elements; 0: no limit
  bool has_element = false;  // a row without elements has one, which is empty
};

// The elements of a column as bags.
struct SequenceBags {
  std::vector<int32_t> offsets;             // [rows + 1]: row r has [offsets[r], offsets[r + 1])
  std::vector<int32_t> begins, ends, rows;  // [elements], see BagView
  int64_t cut = 0;                          // rows that were longer than max_length
  int64_t fitted = 0;                       // rows whose length was not that of `lengths`

  BagView view() const { return {begins, ends, rows}; }
};

// Overwrites `out`. A column without sequence_offsets has rows whose values are the elements. With
// `lengths` (offsets like those of `out`) rows are cut or padded to the same lengths.
void find_elements(const Column& column, int64_t rows, const SequenceRule& rule,
                   const std::vector<int32_t>* lengths, SequenceBags& out);

}  // namespace emblem
