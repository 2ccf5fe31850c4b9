// data/format/block.h - what a decoder makes of a piece of a file: typed columns, before feature
// transforms.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/host_vector.h"
#include "data/format/value_type.h"

namespace emblem {

enum class ColumnType : uint8_t { kFloat, kInt64, kText };

// How columns are read for which no type is requested.
enum class NaturalTypes : uint8_t {
  kNumbers,  // for computations: numbers with a fraction are kFloat
  kExact,    // for copies: what a kFloat or kInt64 would change is kText
};

// Text `at` of several, one after the other, of which `ends` has the ends.
inline std::string_view text_in(std::string_view text, const HostVector<uint32_t>& ends,
                                size_t at) {
  const size_t begin = at == 0 ? 0 : ends[at - 1];
  return text.substr(begin, ends[at] - begin);
}

// The distinct values of a column of text, which rows refer to by code. What is made of an entry is
// made once and kept here. Used by one thread at a time.
struct TextDictionary {
  std::string text;           // the entries, one after the other
  HostVector<uint32_t> ends;  // entry i is text[ends[i - 1], ends[i])

  // Whether an entry holds several values (data/format/rows/column_fit.h), once that is known.
  std::optional<bool> has_separators;
  // Whether an entry was written otherwise in training (data/format/rows/trained_fit.h), once that
  // is known.
  std::optional<bool> spelled_otherwise;

  // The keys that one rule (data/feature/key_rule.h) makes of the entries, as far as they are
  // known.
  struct Keys {
    const void* rule = nullptr;
    HostVector<int64_t> keys;
  };
  std::vector<Keys> keys;

  std::string_view operator[](size_t entry) const { return text_in(text, ends, entry); }
};

// One input column, or what a feature makes of columns. A row holds one value unless `offsets` says
// otherwise. With `sequence_offsets` a row is a sequence of elements, and an element holds what a
// row holds without it: `offsets` then counts elements.
struct Column {
  ColumnType type = ColumnType::kFloat;
  HostVector<float> floats;        // kFloat: the values; a missing one is NaN
  HostVector<int64_t> ints;        // kInt64: the values
  std::string text;                // kText: the values, one after the other
  HostVector<uint32_t> text_ends;  // kText: value i is text[text_ends[i - 1], text_ends[i])
  HostVector<uint8_t> missing;     // kInt64: 1 where a value is missing; empty when none is
  HostVector<int32_t> offsets;  // [bags + 1] when rows or elements hold bags of values; else empty
  HostVector<float> weights;    // one a value, or empty
  HostVector<int32_t> sequence_offsets;  // [rows + 1]: row r's elements are
                                         // [sequence_offsets[r], sequence_offsets[r + 1]); or empty
  // kText, where ColumnRequest::codes allows it: value i is the entry codes[i], or missing where
  // that is -1; `text` and `text_ends` are empty then. Null: not coded.
  std::shared_ptr<TextDictionary> dictionary;
  HostVector<int32_t> codes;

  // No values of `type`, in memory that is kept.
  void clear(ColumnType of_type);
  // The first `count` values, or with room for more; bags and missing values stay as they are.
  void resize_values(size_t count);
  // For kInt64.
  bool is_marked_missing(size_t at) const { return !missing.empty() && missing[at] != 0; }
};

// Value `at` of a kText column without codes.
inline std::string_view text_at(const Column& column, size_t at) {
  return text_in(column.text, column.text_ends, at);
}

// Whether value `at` is missing: NaN, an empty text, or marked so.
bool is_missing_at(const Column& column, size_t at);

// Drops marks that mark nothing.
void drop_missing_if_none(Column& column);

// Values, in all rows.
size_t values_in(const Column& column);

// Replaces codes by the text that they stand for.
void expand_codes(Column& column);

struct ColumnSpec {
  std::string name;
  ColumnType type = ColumnType::kFloat;
  // What rows hold, for writers of formats with lists. 0: one value; 1: a bag of them; 2: a
  // sequence of bags; a sequence without bags is 1 as well.
  int lists = 0;
  bool weighted = false;
  // What the values are, for writers of formats with such types, where `type` says less. Of kText:
  // "double", the digits of numbers; "binary", bytes that need not be text. Of kInt64: "uint64",
  // their 64 bits; "null", none of them; "bool", "date32[day]", "timestamp[us]", "timestamp[ms,
  // tz=UTC]", "time64[us]" and "duration[ms]" as Arrow calls them.
  std::string stored;
  ValueType values{};  // type of the values in files whose columns have types
};

// Rows of a data set; columns.size() equals that of the schema they were decoded with.
struct Block {
  int64_t rows = 0;
  std::vector<Column> columns;
};

// The shape of Criteo-like data sets, which all binary formats have: label, I1..I<dense>,
// C1..C<sparse>.
std::vector<ColumnSpec> criteo_schema(int num_dense = 13, int num_sparse = 26);

}  // namespace emblem
