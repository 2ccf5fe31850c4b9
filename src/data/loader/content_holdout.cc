#include "data/loader/content_holdout.h"

#include <bit>
#include <cmath>

#include "core/math/hash.h"
#include "core/math/random.h"
#include "data/format/rows/select_rows.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"

namespace emblem {
namespace {

// The first value counts in a row that holds several.
std::string text_of(const Column& column, int64_t row) {
  size_t at = static_cast<size_t>(row);
  if (!column.offsets.empty()) {
    if (column.offsets[at] == column.offsets[at + 1]) return "";
    at = static_cast<size_t>(column.offsets[at]);
  }
  std::string text;
  if (column.type == ColumnType::kText) text = text_at(column, at);
  if (column.type == ColumnType::kFloat && !std::isnan(column.floats[at]))
    write_number(column.floats[at], text);
  if (column.type == ColumnType::kInt64 && !column.is_marked_missing(at))
    write_integer(column.ints[at], text);
  return text;
}

}  // namespace

uint64_t content_hash(std::string_view text) {
  static const MissingTexts missing({});
  text = without_spaces(text);
  if (missing.is_missing_number(text) || text == "-9223372036854775808") text = {};
  if (text == "true" || text == "True" || text == "TRUE") text = "1";
  if (text == "false" || text == "False" || text == "FALSE") text = "0";
  // Whole numbers by all digits; others as floats, as files with types may hold no more.
  int64_t whole = 0;
  float number = 0;
  if (text.empty() || !parse_float(text, number)) return hash_string(text);
  if (!parse_integer(text, whole) && number == std::floor(number) && std::fabs(number) < 1e15f)
    whole = static_cast<int64_t>(number);
  else if (number != std::floor(number))
    whole = static_cast<int64_t>(std::bit_cast<uint32_t>(number)) | int64_t{1} << 40;
  return random_bits(0, 0x6e756d6265720000ull, static_cast<uint64_t>(whole));
}

ContentHoldout::ContentHoldout(const std::vector<std::string>& fields, double ratio, uint64_t seed,
                               RowPart part, std::vector<ColumnRequest>& requests)
    : ratio_(ratio), seed_(seed), part_(part) {
  for (const std::string& name : fields) {
    columns_.push_back(requests.size());
    requests.push_back({.name = name, .type = ColumnType::kText, .numbers_as_text = true});
  }
}

bool ContentHoldout::is_held_out(const Block& block, int64_t row) const {
  uint64_t hash = 0x636f6e74656e7400ull;
  for (const size_t column : columns_)
    hash = random_bits(seed_, hash, content_hash(text_of(block.columns[column], row)));
  return static_cast<double>(hash >> 11) * 0x1p-53 < ratio_;
}

void ContentHoldout::select(DecodedPiece& piece) const {
  if (keeps_all()) return;
  std::vector<int32_t> rows;
  for (int64_t row = 0; row < piece.block.rows; ++row)
    if (is_held_out(piece.block, row) == (part_ == RowPart::kHoldout))
      rows.push_back(static_cast<int32_t>(row));
  std::vector<RowProblem> none;
  Column scratch;
  take_rows(rows, none, scratch, piece);
}

}  // namespace emblem
