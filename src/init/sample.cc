#include "init/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/math/hash.h"
#include "core/text/utf8.h"
#include "data/format/block.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/format/decoder.h"
#include "data/format/file_kind.h"
#include "data/format/text/date_text.h"
#include "data/format/text/number_text.h"
#include "data/format/text/text_file.h"
#include "data/format/text/text_scan.h"
#include "data/source/remote_storage.h"

namespace emblem {
namespace {

// As parse_date reads it.
void write_date(int64_t value, int64_t units, std::string& text) {
  const DateTime time = date_of_units(value, units);
  // Years of four digits.
  constexpr int64_t kFirst = -719162, kLast = 2932896;
  if (time.days < kFirst || time.days > kLast) return write_integer(value, text);
  const std::chrono::year_month_day date{
      std::chrono::sys_days{std::chrono::days{static_cast<int32_t>(time.days)}}};
  text += fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  if (units == 1) return;
  const auto seconds = static_cast<int>(time.seconds);
  text += fmt::format(" {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (const double fraction = time.seconds - seconds; fraction > 0)
    text += fmt::format("{:.9f}", fraction).substr(1);
}

void write_integer_of(const ColumnSpec& spec, int64_t units, int64_t value, std::string& text) {
  if (units > 0) return write_date(value, units, text);
  if (spec.stored == "uint64") return write_integer(static_cast<uint64_t>(value), text);
  write_integer(value, text);
}

// Numbers become decimal ones, dates and timestamps begin with "2026-11-18". One value per row.
void typed_as_text(const ColumnSpec& spec, Column& column) {
  if (column.type == ColumnType::kText) return;
  Column text;
  text.clear(ColumnType::kText);
  const int64_t units = units_in_a_day(spec.stored);
  const size_t count = values_in(column);
  for (size_t at = 0; at < count; ++at) {
    if (column.type == ColumnType::kFloat) {
      if (!std::isnan(column.floats[at])) write_number(column.floats[at], text.text);
    } else if (column.missing.empty() || column.missing[at] == 0) {
      write_integer_of(spec, units, column.ints[at], text.text);
    }
    text.text_ends.push_back(static_cast<uint32_t>(text.text.size()));
  }
  column = std::move(text);
}

constexpr int64_t kPieceBytes = int64_t{64} << 10;
constexpr int64_t kPieceRecords = 1024;

[[noreturn]] void refuse_encoding(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

// Requests to a server are UTF-8: a model of values in another encoding would not know theirs.
void require_utf8_start(const DataSource& source) {
  if (source.type != config::CsvDataset && source.type != config::CriteoTsvDataset &&
      source.type != config::LibfmDataset)
    return;
  for (const std::string& path : expand_inputs(source.input, source.storage)) {
    const std::string start = read_text_start(path, kEncodingBytes, source.storage);
    if (const std::string problem = not_utf8_problem(start, path); !problem.empty())
      refuse_encoding(problem);
  }
}

// Whether each value of a column occurs with one value of the label only. Gives up on columns with
// many values: in those that says nothing.
class LabelLink {
 public:
  void add(uint64_t value, uint64_t label) {
    if (!is_open_) return;
    ++rows_;
    labels_.insert(label);
    const auto [at, is_new] = label_of_.emplace(value, label);
    is_open_ = at->second == label && label_of_.size() <= 64 && labels_.size() <= 64;
  }
  bool tells() const {
    return is_open_ && labels_.size() > 1 && rows_ >= 10 * static_cast<int64_t>(label_of_.size());
  }

 private:
  bool is_open_ = true;
  int64_t rows_ = 0;
  std::unordered_map<uint64_t, uint64_t> label_of_;
  std::unordered_set<uint64_t> labels_;
};

class Sampler {
 public:
  Sampler(const DataSource& source, const std::string& label) {
    profile_.source = source;
    make_decoder_of(source);
    for (const ColumnSpec& spec : decoder_->columns()) {
      if (spec.name == label) label_ = static_cast<int>(profile_.columns.size());
      ColumnProfile& column = profile_.columns.emplace_back();
      column.name = spec.name;
      column.is_list = is_columnar_ && spec.lists > 0;
      column.is_text_file = is_columnar_ ? !column.is_list : spec.type == ColumnType::kText;
      column.is_typed = is_columnar_ && (spec.type != ColumnType::kText || spec.stored == "double");
      if (column.is_list && spec.lists > 1)
        column.unusable = "list of lists; see sequence_feature";
      else if (column.is_list && spec.weighted)
        column.unusable = "weighted values; see weighted";
    }
    links_.resize(profile_.columns.size());
  }

  DataProfile read(int64_t rows) {
    const std::vector<Piece> pieces = cut();
    read_piece(pieces[0]);
    const double rows_of_piece = std::max<double>(1, static_cast<double>(profile_.rows_read));
    const double wanted = std::ceil(static_cast<double>(rows) / rows_of_piece);
    const size_t count = rows == 0 || wanted >= static_cast<double>(pieces.size())
                             ? pieces.size()
                             : std::max<size_t>(1, static_cast<size_t>(wanted));
    // The first piece, which is read already, the last one, and between them at equal distances.
    for (size_t i = 1; i < count; ++i) read_piece(pieces[i * (pieces.size() - 1) / (count - 1)]);
    profile_.all_read = count == pieces.size();
    profile_.total_rows = static_cast<double>(profile_.rows_read) / units_read_ * units_;
    profile_.distinct_rows = contents_.estimate();
    for (size_t i = 0; i < links_.size(); ++i)
      if (links_[i].tells()) profile_.tell_label.push_back(profile_.columns[i].name);
    return std::move(profile_);
  }

 private:
  struct Piece {
    int file = 0;
    Extent range;
  };

  void make_decoder_of(const DataSource& source) {
    is_columnar_ = is_columnar(source.type);
    if (is_columnar_) {
      DataSource exact = source;
      exact.natural = NaturalTypes::kExact;
      decoder_ = make_decoder(exact, nullptr);
      return;
    }
    if (source.type != config::CsvDataset) {
      decoder_ = make_decoder(source, nullptr);
      return;
    }
    std::vector<ColumnRequest> requests;
    for (const std::string& name : csv_names(source)) {
      if (name.empty()) {
        ++profile_.unnamed_columns;
      } else {
        requests.push_back({.name = name, .type = ColumnType::kText});
      }
    }
    EMBLEM_REQUIRE(!requests.empty(), source.input, " has no column with a name in its header");
    decoder_ = make_decoder(source, &requests);
  }

  std::vector<Piece> cut() {
    std::vector<Piece> pieces;
    const int64_t size = decoder_->unit() == ExtentUnit::kBytes ? kPieceBytes : kPieceRecords;
    for (int file = 0; file < static_cast<int>(decoder_->files().size()); ++file) {
      for (const Extent& part : decoder_->parts(file)) {
        units_ += static_cast<double>(part.end - part.begin);
        for (int64_t at = part.begin; at < part.end; at += size)
          pieces.push_back({file, {at, std::min(part.end, at + size)}});
      }
    }
    EMBLEM_REQUIRE(!pieces.empty(), profile_.source.input, " has no rows");
    return pieces;
  }

  void read_piece(const Piece& from) {
    decoder_->decode(from.file, from.range, RowSample{}, nullptr, piece_);
    profile_.bad_rows += piece_.bad.count;
    if (piece_.bad.count > 0 && first_bad_.empty())
      first_bad_ = decoder_->describe(from.file, piece_.bad);
    if (profile_.bad_rows > profile_.source.max_bad_rows)
      throw Error(
          ErrorCode::kCorruption,
          cat(first_bad_, "; fix the row, or skip up to N such rows with --max-bad-rows N"));
    if (is_columnar_) {
      read_as_text();
    } else {
      require_utf8(from.file);
    }
    units_read_ += static_cast<double>(from.range.end - from.range.begin);
    profile_.rows_read += piece_.block.rows;
    const std::vector<uint64_t> labels = label_hashes();
    std::vector<uint64_t> contents(static_cast<size_t>(piece_.block.rows));
    for (size_t i = 0; i < profile_.columns.size(); ++i) {
      profile_.columns[i].begin_piece();
      add_column(piece_.block.columns[i], profile_.columns[i]);
      if (static_cast<int>(i) == label_ || !profile_.columns[i].is_text_file) continue;
      const std::vector<uint64_t> values = text_hashes(piece_.block.columns[i]);
      for (size_t row = 0; row < contents.size(); ++row)
        contents[row] = mix64(contents[row] ^ values[row]) + i;
      for (size_t row = 0; row < labels.size(); ++row) links_[i].add(values[row], labels[row]);
    }
    for (const uint64_t content : contents) contents_.add(content);
  }

  // For a columnar file: columns of one value per row become text, to which the rules of text
  // files apply.
  void read_as_text() {
    for (size_t i = 0; i < profile_.columns.size(); ++i) {
      Column& column = piece_.block.columns[i];
      const ColumnSpec& spec = decoder_->columns()[i];
      if (column.type == ColumnType::kText && spec.stored != "double" &&
          find_invalid_utf8(column.text) != std::string_view::npos)
        profile_.columns[i].unusable =
            spec.stored == "binary" ? "binary" : "text that is not UTF-8";
      if (spec.lists == 0) typed_as_text(spec, column);
    }
  }

  // Checks the values that were just read.
  void require_utf8(int file) const {
    for (const Column& column : piece_.block.columns) {
      if (find_invalid_utf8(column.text) == std::string_view::npos) continue;
      for (size_t row = 0; row < column.text_ends.size(); ++row) {
        const std::string_view text = text_at(column, row);
        const size_t at = find_invalid_utf8(text);
        if (at != std::string_view::npos)
          refuse_encoding(not_utf8_problem(decoder_->locate(file, piece_.positions[row]), text[at],
                                           decoder_->files()[static_cast<size_t>(file)]));
      }
    }
  }

  std::vector<uint64_t> label_hashes() const {
    if (label_ < 0 || !profile_.columns[static_cast<size_t>(label_)].is_text_file ||
        piece_.block.columns[label_].type != ColumnType::kText)
      return {};
    return text_hashes(piece_.block.columns[label_]);
  }

  std::vector<uint64_t> text_hashes(const Column& column) const {
    std::vector<uint64_t> hashes(static_cast<size_t>(piece_.block.rows));
    for (size_t row = 0; row < hashes.size(); ++row)
      hashes[row] = hash_string(without_spaces(text_at(column, row)));
    return hashes;
  }

  void add_column(const Column& column, ColumnProfile& profile) const {
    for (int64_t row = 0; row < piece_.block.rows; ++row) {
      const auto at = static_cast<size_t>(row);
      if (profile.is_list) {
        add_list(column, at, profile);
      } else if (column.type == ColumnType::kText) {
        profile.add_text(text_at(column, at));
      } else if (column.offsets.empty()) {
        add_value(column, at, profile);
      } else {
        add_bag(column, at, profile);
      }
    }
  }

  static void add_value(const Column& column, size_t at, ColumnProfile& profile) {
    if (column.type == ColumnType::kFloat) {
      profile.add_number(column.floats[at]);
    } else if (column.is_marked_missing(at)) {
      profile.add_missing();
    } else {
      profile.add_key(column.ints[at]);
    }
  }

  static void add_list(const Column& column, size_t row, ColumnProfile& profile) {
    if (!profile.unusable.empty()) return profile.add_missing();
    const auto begin = static_cast<size_t>(column.offsets[row]);
    const auto end = static_cast<size_t>(column.offsets[row + 1]);
    int64_t added = 0;
    for (size_t at = begin; at < end; ++at) {
      if (is_missing_at(column, at)) continue;
      ++added;
      if (column.type != ColumnType::kText) {
        add_value(column, at, profile);
      } else if (double number = 0; profile.is_typed && parse_double(text_at(column, at), number)) {
        profile.add_number(number);
      } else {
        profile.add_list_text(text_at(column, at));
      }
    }
    profile.add_list(static_cast<int64_t>(end - begin), added);
  }

  static void add_bag(const Column& column, size_t row, ColumnProfile& profile) {
    const auto begin = static_cast<size_t>(column.offsets[row]);
    const auto end = static_cast<size_t>(column.offsets[row + 1]);
    const int64_t rows = profile.rows + 1;
    profile.bags += end - begin != 1;
    if (begin == end) profile.add_missing();
    for (size_t at = begin; at < end; ++at) add_value(column, at, profile);
    profile.rows = rows;
  }

  DataProfile profile_;
  std::unique_ptr<Decoder> decoder_;
  DecodedPiece piece_;
  std::vector<LabelLink> links_;
  DistinctCount contents_;  // distinct whole rows
  std::string first_bad_;
  int label_ = -1;
  bool is_columnar_ = false;
  double units_ = 0, units_read_ = 0;
};

}  // namespace

const ColumnProfile* DataProfile::find(const std::string& name) const {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const ColumnProfile& column) { return column.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

DataProfile profile_data(const DataSource& source, int64_t rows, const std::string& label) {
  require_utf8_start(source);
  return Sampler(source, label).read(rows);
}

}  // namespace emblem
