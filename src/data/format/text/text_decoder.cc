#include "data/format/text/text_decoder.h"

#include <algorithm>
#include <cstring>

#include "core/files/file.h"
#include "core/system/warn_once.h"
#include "data/format/file_kind.h"
#include "data/format/rows/files_without_rows.h"
#include "data/format/rows/kept_columns.h"
#include "data/format/text/csv_rows.h"
#include "data/format/text/text_file.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Bytes after the last line that scanners may read.
constexpr int64_t kSlack = 64;
constexpr int64_t kLongestLine = int64_t{64} << 20;

const char* find_newline(const char* begin, const char* end) {
  return static_cast<const char*>(std::memchr(begin, '\n', static_cast<size_t>(end - begin)));
}

// TextDecoder::read_rows where rows are lines.
std::string_view read_lines(const InputFile& file, int64_t text_begin, Extent range,
                            HostVector<char>& buffer, int64_t& offset) {
  // The byte before shows whether a line starts at range.begin.
  const int64_t from = std::max(range.begin - 1, text_begin);
  int64_t filled = 0;
  int64_t wanted = range.end - from;
  const char* line_end = nullptr;
  int64_t last_start = range.end - 1 - from;  // the last line starts here or before
  while (line_end == nullptr) {
    wanted = std::min(wanted, file.bytes() - from);
    buffer.resize(static_cast<size_t>(wanted + kSlack));
    file.read(from + filled, wanted - filled, buffer.data() + filled);
    const int64_t search = std::max(filled, last_start);
    line_end = find_newline(buffer.data() + search, buffer.data() + wanted);
    filled = wanted;
    if (line_end == nullptr && from + filled == file.bytes()) {
      buffer[static_cast<size_t>(filled)] = '\n';
      line_end = buffer.data() + filled;
    }
    EMBLEM_REQUIRE(line_end != nullptr || wanted - last_start < kLongestLine, file.path(),
                   " has a line of more than 64 MiB near byte ", range.begin,
                   "; expected lines of text");
    wanted += std::max<int64_t>(4096, wanted - last_start);
  }
  const char* begin = buffer.data();
  if (range.begin > text_begin) begin = find_newline(begin, line_end + 1) + 1;
  offset = from + (begin - buffer.data());
  if (offset >= range.end) return {};
  return {begin, static_cast<size_t>(line_end + 1 - begin)};
}

// A file's bytes around a range, as many as are needed.
class RangeText {
 public:
  RangeText(const InputFile& file, int64_t begin, int64_t end, HostVector<char>& buffer)
      : file_(file), begin_(begin), end_(begin), buffer_(buffer) {
    read_until(end);
  }

  CsvWindow window() const {
    return {buffer_.data(), buffer_.data() + (buffer_.size() - kSlack), end_ == file_.bytes()};
  }
  const char* at(int64_t position) const { return buffer_.data() + (position - begin_); }
  int64_t position_of(const char* at) const { return begin_ + (at - buffer_.data()); }

  // The first row near `position` or after it.
  int64_t find_row_start(int64_t position, std::string_view delimiter) {
    for (int64_t more = kMostQuotedBytes + 1; true; more *= 2) {
      const char* const start = emblem::find_row_start(window(), at(position), delimiter);
      if (start != nullptr) return std::min(position_of(start), file_.bytes());
      EMBLEM_REQUIRE(more <= kLongestLine, file_.path(),
                     " has a row of more than 64 MiB near byte ", position,
                     "; expected lines of text");
      read_until(std::max(end_, position) + more);
    }
  }

 private:
  void read_until(int64_t end) {
    end = std::min(end, file_.bytes());
    const auto have = static_cast<size_t>(end_ - begin_), size = static_cast<size_t>(end - begin_);
    buffer_.resize(size + kSlack + 1);
    file_.read(end_, end - end_, buffer_.data() + have);
    end_ = end;
    const bool lacks_line_end = end == file_.bytes() && (size == 0 || buffer_[size - 1] != '\n');
    if (lacks_line_end) buffer_[size] = '\n';
    buffer_.resize(size + (lacks_line_end ? 1 : 0) + kSlack);
  }

  const InputFile& file_;
  int64_t begin_, end_;  // range that is read
  HostVector<char>& buffer_;
};

// TextDecoder::read_rows where fields may be in quotes.
std::string_view read_quoted_rows(const InputFile& file, int64_t text_begin, Extent range,
                                  std::string_view delimiter, HostVector<char>& buffer,
                                  int64_t& offset) {
  const int64_t from = std::max(range.begin - kBytesBeforeRowStart, text_begin);
  RangeText text(file, from, range.end + 1, buffer);
  const auto start_of = [&](int64_t position) {
    return position <= text_begin ? text_begin : text.find_row_start(position, delimiter);
  };
  const int64_t end = start_of(range.end);
  offset = start_of(range.begin);
  if (offset >= end) return {};
  const char* const last = end == file.bytes() ? text.window().end : text.at(end);
  return {text.at(offset), static_cast<size_t>(last - text.at(offset))};
}

// Counts in bytes as long as these cannot overflow: 16 at a time in vector code.
int64_t count_newlines(const char* at, const char* end) {
  int64_t total = 0;
  while (at < end) {
    const char* stop = end - at > 240 ? at + 240 : end;
    uint8_t count = 0;
    for (; at < stop; ++at) count = static_cast<uint8_t>(count + (*at == '\n'));
    total += count;
  }
  return total;
}

// A model only needs equal bytes in training and serving, so that other encodings are readable.
// Once for each data set, which is opened for every evaluation.
void warn_of_other_encodings(const std::string& input, const std::vector<InputFile>& files) {
  for (const InputFile& file : files) {
    std::string start(static_cast<size_t>(std::min(file.bytes(), kEncodingBytes)), '\0');
    file.read(0, static_cast<int64_t>(start.size()), start.data());
    const std::string problem = not_utf8_problem(start, file.path());
    if (problem.empty()) continue;
    warn_once("encoding: " + input,
              cat(problem, " (requests to a server are UTF-8, and their values would differ)"));
    return;
  }
}

bool is_blank(const char* at) { return *at == '\n' || (*at == '\r' && at[1] == '\n'); }

}  // namespace

const char* TextDecoder::row_end(const char* at, const char* end) const {
  return quoted_by_.empty() ? find_newline(at, end) : find_row_end(at, end, quoted_by_);
}

std::string_view TextDecoder::row_at(const char* at, const char* end, const char*& next) const {
  const char* last = row_end(at, end);
  next = last + 1;
  if (last > at && last[-1] == '\r') --last;
  return {at, static_cast<size_t>(last - at)};
}

std::string_view TextDecoder::read_rows(const InputFile& file, int64_t text_begin, Extent range,
                                        HostVector<char>& buffer, int64_t& offset) const {
  return quoted_by_.empty() ? read_lines(file, text_begin, range, buffer, offset)
                            : read_quoted_rows(file, text_begin, range, quoted_by_, buffer, offset);
}

TextDecoder::TextDecoder(const DataSource& source, Header header, char delimiter)
    : filters_(source.filters, source.na_strings),
      quoted_by_(delimiter == 0 ? 0 : 1, delimiter),
      kept_columns_(source.keep.size()) {
  std::vector<std::string> names = expand_inputs(source.input, source.storage);
  EMBLEM_REQUIRE(!names.empty(), "no files in ", in_quotes(source.input),
                 "; give files, folders or globs");
  std::vector<InputFile> files = open_text_files(names, source.threads, source.storage);
  FilesWithoutRows without_rows(source.input);
  for (size_t i = 0; i < files.size(); ++i) {
    std::string start(static_cast<size_t>(std::min(files[i].bytes(), kTextPrefixBytes)), '\0');
    files[i].read(0, std::ssize(start), start.data());
    const int64_t text_begin = text_prefix(start);
    if (text_begin == files[i].bytes()) {
      without_rows.add(files[i].path(), kEmptyFile);
      continue;
    }
    const int64_t begin = data_begin(files[i], text_begin, header);
    if (begin == files[i].bytes()) {
      without_rows.add(names[i], "has no rows: nothing follows its header line");
      continue;
    }
    text_begin_.push_back(text_begin);
    data_begin_.push_back(begin);
    names_.push_back(std::move(names[i]));
    files_.push_back(std::move(files[i]));
  }
  without_rows.finish(files.size());
  warn_of_other_encodings(source.input, files_);
}

std::string TextDecoder::read_directly() {
  std::string refused;
  for (InputFile& file : files_)
    if (!file.read_directly() && refused.empty()) refused = file.path();
  return refused;
}

void TextDecoder::decode(int file, Extent range, const RowSample& sample, const Random* shuffle,
                         DecodedPiece& out) const {
  int64_t offset = 0;
  const std::string_view lines =
      read_rows(files_[file], text_begin_[file], range, out.buffer, offset);
  const char* const end = lines.data() + lines.size();
  out.file = file;
  out.bytes = static_cast<int64_t>(lines.size());
  out.bad = {};
  out.bad_positions.clear();
  out.kept.clear();
  const int64_t most_rows = count_newlines(lines.data(), end);
  out.positions.resize(static_cast<size_t>(most_rows));
  begin_block(most_rows, out.block);
  int64_t rows = 0;
  std::string problem;
  // Reads one line and returns where the next one starts.
  const auto read_line = [&](const char* at) {
    const int64_t position = offset + (at - lines.data());
    const bool is_row = keeps_blank_lines_ || !is_blank(at);
    if (!is_row || (!sample.keeps_all() && !sample.keeps(file, position)))
      return row_end(at, end) + 1;
    const char* const line = at;
    if (!filters_.empty() && is_filtered_out(row_at(line, end, at), problem)) return at;
    if (problem.empty()) at = parse_line(line, end, rows, out.block, problem);
    if (kept_columns_ > 0) keep_line(row_at(line, end, at), out.kept);
    if (problem.empty()) [[likely]] {
      out.positions[static_cast<size_t>(rows++)] = position;
    } else {
      if (position == text_begin_[file])
        problem += " (is line 1 a header? Then set data_config.with_header)";
      out.bad.add(position, std::exchange(problem, {}));
      out.bad_positions.push_back(position);
    }
    return at;
  };
  if (shuffle == nullptr) {
    for (const char* at = lines.data(); at < end;) at = read_line(at);
  } else {
    std::vector<const char*> starts;
    starts.reserve(static_cast<size_t>(most_rows));
    for (const char* at = lines.data(); at < end; at = row_end(at, end) + 1) starts.push_back(at);
    shuffle_items(starts, *shuffle);
    for (const char* at : starts) read_line(at);
  }
  out.positions.resize(static_cast<size_t>(rows));
  end_block(rows, out.block);
  out.block.rows = rows;
}

void TextDecoder::keep_line(std::string_view line, TextColumn& kept) const {
  std::vector<std::string> values(kept_columns_);
  read_kept(line, values);
  kept.append(csv_line(values));
}

// False where that cannot be said: a line that does not divide into columns is a bad row, and so is
// one with a `problem`.
bool TextDecoder::is_filtered_out(std::string_view line, std::string& problem) const {
  std::vector<std::string> values(filters_.size());
  return read_filtered(line, values) && !filters_.keep(values, problem) && problem.empty();
}

std::string TextDecoder::locate(int file, int64_t position) const {
  int64_t line = 1;
  std::vector<char> buffer(1 << 20);
  for (int64_t at = 0; at < position;) {
    const int64_t count = std::min(position - at, static_cast<int64_t>(buffer.size()));
    files_[file].read(at, count, buffer.data());
    line += count_newlines(buffer.data(), buffer.data() + count);
    at += count;
  }
  return cat(names_[file], ":", line);
}

int64_t TextDecoder::data_begin(const InputFile& file, int64_t text_begin, Header header) const {
  if (header == Header::kNone) return text_begin;
  HostVector<char> buffer;
  int64_t at = text_begin;
  for (bool blank = true; blank && at < file.bytes();) {
    int64_t offset = 0;
    std::string_view line;  // where it begins with quotes, the next one begins after them
    for (int64_t bytes = 1; line.empty() && at + bytes <= file.bytes(); ++bytes)
      line = read_rows(file, text_begin, {at, at + bytes}, buffer, offset);
    if (line.empty()) return file.bytes();
    blank = is_blank(line.data());
    at += static_cast<int64_t>(line.size());
  }
  return std::min(at, file.bytes());
}

std::vector<std::string> TextDecoder::first_lines(int file, int64_t count) const {
  HostVector<char> buffer;
  std::vector<std::string> found;
  const InputFile& input = files_[file];
  const int64_t begin = text_begin_[file];
  for (int64_t at = begin; at < input.bytes() && static_cast<int64_t>(found.size()) < count;) {
    int64_t offset = 0;
    const int64_t end = std::min(input.bytes(), at + (int64_t{64} << 10));
    const std::string_view lines = read_rows(input, begin, {at, end}, buffer, offset);
    const char* next = lines.data();
    const char* const last = next + lines.size();
    while (next < last && static_cast<int64_t>(found.size()) < count) {
      const std::string_view line = row_at(next, last, next);
      if (!line.empty()) found.emplace_back(line);
    }
    at = end;
  }
  return found;
}

}  // namespace emblem
