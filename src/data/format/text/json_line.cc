// Rows as JSON objects.
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "data/format/text/line_parser.h"
#include "data/format/text/number_text.h"
#include "data/format/text/spelling.h"
#include "data/format/text/text_scan.h"

namespace emblem {
namespace {

class JsonLineParser final : public LineParser {
 public:
  JsonLineParser(std::vector<ColumnRequest> requests, const std::vector<std::string>& na_strings)
      : LineParser(std::move(requests), na_strings) {
    for (size_t i = 0; i < this->requests().size(); ++i)
      targets_[this->requests()[i].name].push_back(static_cast<int>(i));
  }

 protected:
  std::string parse(std::string_view line, int64_t row, Block& block) const override;

 private:
  friend class JsonRow;
  std::unordered_map<std::string, std::vector<int>> targets_;  // key -> columns of the block
};

// The text of a number with a fraction or an exponent (docs/formats.md, "The text of a value");
// whole numbers beyond 64 bits keep their digits.
std::string text_of_number(double number, const std::string& digits) {
  if (digits.find_first_of(".eE") == digits.npos) return digits;
  std::string text;
  write_number(number, text);
  return text;
}

// The text of a bool. A label may be positive for one of its words.
std::string text_of_bool(bool value, const ColumnRequest& request) {
  const int positive =
      request.label == LabelText::kPositive ? truth_of(without_spaces(request.label_positive)) : -1;
  if (positive < 0) return value ? "1" : "0";
  return value == (positive == 1) ? request.label_positive : value ? "true" : "false";
}

// Gets what is in one line, in order, and fills a row with it.
class JsonRow {
 public:
  JsonRow(const JsonLineParser& parser, int64_t row, Block& block)
      : parser_(parser), row_(row), block_(block), seen_(parser.requests().size(), 0) {}

  std::string problem;  // "": none

  // Once the line is read: keys that were not there are missing values.
  void finish() {
    for (size_t i = 0; i < seen_.size() && problem.empty(); ++i) {
      if (seen_[i] != 0) continue;
      problem = in_column(i, fields(static_cast<int>(i)).add("", row_));
    }
  }

  // ---- what nlohmann::json::sax_parse calls; false ends it ----

  bool null() { return value(""); }
  bool boolean(bool set) {
    return for_each_target([&](int target) {
      return add(target, text_of_bool(set, parser_.requests()[static_cast<size_t>(target)]));
    });
  }
  bool number_integer(int64_t number) { return value(std::to_string(number)); }
  bool number_unsigned(uint64_t number) { return value(std::to_string(number)); }
  bool number_float(double number, const std::string& text) {
    return value(text_of_number(number, text));
  }
  bool string(std::string& text) { return value(text); }
  bool binary(std::vector<uint8_t>&) { return fail("holds binary data"); }

  bool start_object(size_t) {
    if (++depth_ == 1) return true;
    return for_each_target([&](int target) -> std::string {
      const ColumnRequest& request = parser_.requests()[static_cast<size_t>(target)];
      if (depth_ == 2 && request.weighted && request.sequence_delim.empty()) return {};
      return "is an object, which only a bag of weighted values may be";
    });
  }
  bool key(std::string& name) {
    if (depth_ > 1) {
      weighted_key_ = name;
      return true;
    }
    const auto found = parser_.targets_.find(name);
    targets_ = found == parser_.targets_.end() ? nullptr : &found->second;
    if (targets_ == nullptr) return true;
    for (const int target : *targets_)
      if (std::exchange(seen_[static_cast<size_t>(target)], 1) != 0)
        return fail(cat("the key ", in_quotes(name), " is a duplicate"));
    return true;
  }
  bool end_object() {
    --depth_;
    if (depth_ == 0) return true;
    weighted_key_.reset();
    return for_each_target([&](int target) {
      fields(target).end_bag();
      return std::string();
    });
  }

  bool start_array(size_t) {
    if (depth_ == 0) return fail("is an array, expected an object");
    ++depth_;
    return for_each_target([&](int target) -> std::string {
      const ColumnRequest& request = parser_.requests()[static_cast<size_t>(target)];
      const int most = !request.sequence_delim.empty() ? 3 : request.has_bags() ? 2 : 1;
      if (depth_ <= most) return {};
      return most == 1 ? "is an array, expected one value"
                       : "holds arrays that are nested too deep";
    });
  }
  bool end_array() {
    --depth_;
    return for_each_target([&](int target) {
      const CsvFieldParser to = fields(target);
      const bool sequence = is_sequence(target);
      if (sequence && depth_ == 1)
        to.end_sequence();
      else
        to.end_bag();
      return std::string();
    });
  }

  bool parse_error(size_t position, const std::string&, const std::exception&) {
    return fail(cat("is not valid JSON at byte ", position));
  }

 private:
  bool fail(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return false;
  }
  std::string in_column(size_t column, const std::string& what) const {
    if (what.empty()) return {};
    return cat("column ", printable(parser_.requests()[column].name), ": ", what);
  }
  CsvFieldParser fields(int target) const { return parser_.field_parser(target, block_); }
  bool is_sequence(int target) const {
    return !parser_.requests()[static_cast<size_t>(target)].sequence_delim.empty();
  }

  // Calls act(column of the block) for those that the key at hand fills.
  template <class Act>
  bool for_each_target(Act&& act) {
    if (depth_ == 0) return fail("is one value, expected an object");
    if (targets_ == nullptr) return true;
    for (const int target : *targets_) {
      const std::string what = act(target);
      if (!what.empty()) return fail(in_column(static_cast<size_t>(target), what));
    }
    return true;
  }

  bool value(const std::string& text) {
    return for_each_target([&](int target) { return add(target, text); });
  }
  // A value of a row, of a bag or of a sequence, by how deep it is.
  std::string add(int target, const std::string& text) {
    const CsvFieldParser to = fields(target);
    if (depth_ == 1) return to.add(text, row_);
    std::string what = to.add_value(weighted_key_ ? *weighted_key_ + ":" + text : text);
    if (what.empty() && depth_ == 2 && is_sequence(target)) to.end_bag();
    return what;
  }

  const JsonLineParser& parser_;
  int64_t row_;
  Block& block_;
  std::vector<uint8_t> seen_;                  // by column
  const std::vector<int>* targets_ = nullptr;  // targets of the key at hand
  std::optional<std::string> weighted_key_;    // within an object of weights
  int depth_ = 0;                              // depth of objects and arrays
};

std::string JsonLineParser::parse(std::string_view line, int64_t row, Block& block) const {
  JsonRow found(*this, row, block);
  nlohmann::json::sax_parse(line.begin(), line.end(), &found);
  if (found.problem.empty()) found.finish();
  return found.problem;
}

}  // namespace

std::unique_ptr<LineParser> make_json_line_parser(std::vector<ColumnRequest> requests,
                                                  const std::vector<std::string>& na_strings) {
  return std::make_unique<JsonLineParser>(std::move(requests), na_strings);
}

std::string read_json_filtered(std::string_view line, const TextFilters& filters,
                               std::vector<std::string>& values) {
  values.assign(filters.size(), "");
  const auto row = nlohmann::json::parse(line.begin(), line.end(), shallow_json, false);
  if (!row.is_object()) return "is not a JSON object";
  for (size_t i = 0; i < filters.size(); ++i) {
    const auto found = row.find(filters[i].column());
    if (found == row.end() || found->is_null()) continue;
    if (found->is_string()) {
      values[i] = found->get<std::string>();
    } else if (found->is_boolean()) {
      values[i].assign(1, found->get<bool>() ? '1' : '0');
    } else if (found->is_number_float()) {
      write_number(found->get<double>(), values[i]);
    } else if (found->is_primitive()) {
      values[i] = found->dump();
    } else {
      return cat("column ", printable(filters[i].column()), " holds several values; the filter ",
                 in_quotes(filters[i].text()), " expects one value");
    }
  }
  return {};
}

}  // namespace emblem
