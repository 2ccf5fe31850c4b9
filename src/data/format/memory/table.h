// data/format/memory/table.h - rows of a data set in memory: columns that are handed over as Arrow
// arrays (the C data interface) or as spans. They are read where they are, without a copy of the
// table. LoaderOptions::tables and LoaderOptions::next_table read them as files are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/format/memory/arrow_c.h"

namespace emblem {

// Texts one after the other: text i is text[offsets[i], offsets[i + 1]).
struct TextSpan {
  std::string_view text;
  std::span<const int32_t> offsets;  // [texts + 1]
};

// A column of plain memory. A row holds one value, or with `offsets` a list of them, or with both
// offsets a sequence of lists.
struct ColumnSpan {
  std::string name;
  std::variant<std::span<const float>, std::span<const double>, std::span<const int32_t>,
               std::span<const int64_t>, TextSpan, std::span<const std::string>>
      values;  // strings are copied; the others are read where they are
  std::span<const uint8_t> missing =
      {};  // one a value, 1: missing; or empty. A NaN is missing, too
  std::span<const int32_t> offsets =
      {};  // [lists + 1]: list i is values [offsets[i], offsets[i + 1])
  std::span<const int32_t> sequence_offsets = {};  // [rows + 1]: row i is lists [.., ..)
  std::span<const float> weights = {};             // one a value of lists; or empty
  // "s", "ms", "us", "ns": values are int64, timestamps in this unit since 1970; "day": they are
  // int32, dates. Empty: they are numbers.
  std::string time_unit = {};
};

// Made once; const methods may run concurrently.
class ColumnTable {
 public:
  // A record batch: an array of structs, whose fields are the columns. Both are taken over, as the
  // interface says: `release` of what is given becomes null, and is called once, when the table
  // ends, or before an Error is thrown. Throws Error that names the column where sizes, children
  // or buffers are not what the interface promises.
  static std::shared_ptr<const ColumnTable> of_batch(ArrowSchema* schema, ArrowArray* array);

  // A column an array; `schemas` have their names. Taken over as above, all of them.
  static std::shared_ptr<const ColumnTable> of_arrays(std::span<ArrowSchema> schemas,
                                                      std::span<ArrowArray> arrays);

  // The memory of the spans lives as long as the table; `owner`, if any, is kept until then.
  // Throws Error that names the column where lengths differ or offsets are out of range.
  static std::shared_ptr<const ColumnTable> of_spans(const std::vector<ColumnSpan>& columns,
                                                     std::shared_ptr<const void> owner = nullptr);

  virtual ~ColumnTable() = default;
  ColumnTable(const ColumnTable&) = delete;
  ColumnTable& operator=(const ColumnTable&) = delete;

  int64_t rows() const { return array_->length; }
  const ArrowSchema& schema() const { return *schema_; }
  const ArrowArray& array() const { return *array_; }
  int64_t bytes() const { return bytes_; }  // without those of text

 protected:
  ColumnTable() = default;
  // Checks both, which live as long as this.
  void set(const ArrowSchema& schema, const ArrowArray& array);

 private:
  const ArrowSchema* schema_ = nullptr;
  const ArrowArray* array_ = nullptr;
  int64_t bytes_ = 0;
};

// Asked for the next rows of an epoch; null at its end. Where more epochs are read it is asked
// again, for the first rows of the next. Called by threads of a loader, one at a time, for the
// first time when the loader is made; a loader ends after a call that is under way. What it throws
// reaches Loader::next after the rows before, and it is not called again.
using NextTable = std::function<std::shared_ptr<const ColumnTable>()>;

// The record batches of a stream, which is taken over and is one epoch.
NextTable tables_of(ArrowArrayStream* stream);

}  // namespace emblem
