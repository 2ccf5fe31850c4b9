// init/column_kind.h - what the values of a column are: numbers, amounts, dates, lists, ids, text.
#pragma once

#include <optional>
#include <string>

#include "init/column_profile.h"

namespace emblem {

// All values are numbers, apart from texts that stand for missing ones.
bool is_all_numbers(const ColumnProfile& column);
// The same, apart from a few mistakes.
bool is_numeric(const ColumnProfile& column);
bool is_integer(const ColumnProfile& column);
// Numbers, of which some are too large for a float.
bool has_large_numbers(const ColumnProfile& column);
// Whole numbers, of which some do not fit 64 bits: a float would keep 7 of their digits.
bool has_wide_integers(const ColumnProfile& column);
// Hashes and the like: no count or amount is that large.
bool holds_large_keys(const ColumnProfile& column);
// Whole numbers that only tell things apart: ids and postcodes ("05064").
bool has_no_order(const ColumnProfile& column);
bool has_one_row_each(const ColumnProfile& column);

// How the numbers of a column of text are written, apart from a few mistakes; nothing when they are
// plain or there are none.
std::optional<config::NumberFormat> amount_format_of(const ColumnProfile& column);

// The dates of a column that holds dates; null for others.
const DateProfile* dates_of(const ColumnProfile& column);
// For such a column: "5/1/2024" is in January.
bool has_day_first(const ColumnProfile& column);

// The lists that a column of text holds; null when its fields are single values.
const ListProfile* list_of(const ColumnProfile& column);

// "integer", "number", "amount", "text", "list", "date", "vector", ...
std::string shape_of(const ColumnProfile& column);

}  // namespace emblem
