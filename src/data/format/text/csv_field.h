// data/format/text/csv_field.h - what the text of one CSV field means: a number, an id, text, a bag
// of them, a label, or nothing. Shared by the decoder of CSV files and by requests to a server, so
// that both read the same text as the same values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/format/decoder.h"

namespace emblem {

// Texts that stand for a missing value, in addition to the empty text.
class MissingTexts {
 public:
  // `configured` applies to all columns; when it is empty, common texts ("NA", "null", ...) apply
  // to numeric ones.
  explicit MissingTexts(const std::vector<std::string>& configured);

  // The common texts.
  static std::vector<std::string> defaults();

  // Configured texts may be numbers ("-999"), so that they are looked for before a field is read.
  bool are_configured() const { return !in_ids_.empty(); }
  bool is_missing_number(std::string_view text) const { return contains(in_numbers_, text); }
  // Whether a value that is not text is a configured number.
  bool is_missing_value(int64_t value) const;
  bool is_missing_value(double value) const;
  bool is_missing(std::string_view text, const ColumnRequest& request) const {
    return contains(request.na_is_missing ? in_numbers_ : in_ids_, text) ||
           contains(request.number_form.na_strings, text);
  }

 private:
  static bool contains(const std::vector<std::string>& texts, std::string_view text);

  std::vector<std::string> in_numbers_, in_ids_;
  std::vector<int64_t> integers_;  // configured texts that are whole numbers of 64 bits
  std::vector<double> numbers_;    // and that are numbers
};

// The number of a label in words: 1 of true, t, yes and y, 0 of false, f, no and n, in any case.
bool parse_label_word(std::string_view text, float& value);

// Adds fields to a column as its request says. Borrows what it is given.
class CsvFieldParser {
 public:
  CsvFieldParser(const ColumnRequest& request, const MissingTexts& missing, Column& column)
      : request_(request), missing_(missing), column_(column) {}

  // Sets or appends row `row`. Returns what is wrong with the text, or "". Values that were
  // appended before a problem was found are the caller's to take back.
  std::string add(std::string_view text, int64_t row) const;

  // For requests with bags: the values of the field, in the bag that end_bag() ends. Empty values
  // are skipped.
  std::string add_values(std::string_view text) const;
  std::string add_value(std::string_view text) const;  // one, whatever characters it holds
  void end_bag() const;

  // For requests of sequences: the elements of the field, in the row that end_sequence() ends. An
  // empty field has none; else there is one more than delimiters, and each may be empty.
  std::string add_elements(std::string_view text) const;
  void end_sequence() const;

  // As MissingTexts::is_missing_value.
  template <class Number>
  bool is_missing_value(Number value) const {
    return missing_.is_missing_value(value);
  }

 private:
  // Why a value is not of the type that is declared for the column, or "".
  std::string contradiction(std::string_view text) const;
  // Makes of `text` what it was in training; it may then be in `buffer`. Returns why it was nothing
  // there, or "".
  std::string as_trained(std::string_view& text, std::string& buffer) const;
  void add_text(std::string_view text) const;
  bool parse_number(std::string_view text, float& value) const;
  bool parse_key(std::string_view text, int64_t& key) const;
  bool is_missing(std::string_view text) const { return missing_.is_missing(text, request_); }
  std::string not_a_number(std::string_view text) const;
  std::string not_a_key(std::string_view text) const;

  const ColumnRequest& request_;
  const MissingTexts& missing_;
  Column& column_;
};

}  // namespace emblem
