#include "data/format/text_decoder.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "core/file.h"
#include "core/log.h"
#include "data/format/file_kind.h"
#include "data/format/files_without_rows.h"
#include "data/format/kept_columns.h"
#include "data/format/text_file.h"
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

// Reads the lines that start in `range` into `buffer`. Returns them, the last one ended by '\n'
// even where the file's last line is not, and in `offset` the place of the first in the file. The
// text begins at `text_begin`.
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
  static std::mutex mutex;
  static std::set<std::string> warned;
  for (const InputFile& file : files) {
    std::string start(static_cast<size_t>(std::min(file.bytes(), kEncodingBytes)), '\0');
    file.read(0, static_cast<int64_t>(start.size()), start.data());
    const std::string problem = not_utf8_problem(start, file.path());
    if (problem.empty()) continue;
    const std::lock_guard lock(mutex);
    if (warned.insert(input).second)
      log_warn(cat(problem, " (requests to a server are UTF-8, and their values would differ)"));
    return;
  }
}

bool is_blank(const char* at) { return *at == '\n' || (*at == '\r' && at[1] == '\n'); }

}  // namespace

std::string_view line_at(const char* at, const char*& next) {
  const char* end =
      static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(kLongestLine)));
  next = end + 1;
  if (end > at && end[-1] == '\r') --end;
  return {at, static_cast<size_t>(end - at)};
}

TextDecoder::TextDecoder(const DataSource& source, Header header)
    : kept_columns_(source.keep.size()) {
  std::vector<std::string> names = expand_inputs(source.input);
  EMBLEM_REQUIRE(!names.empty(), "no files in ", in_quotes(source.input),
                 "; give files, folders or globs");
  std::vector<InputFile> files = open_text_files(names, source.threads);
  FilesWithoutRows without_rows(source.input);
  for (size_t i = 0; i < files.size(); ++i) {
    char start[4] = {};
    files[i].read(0, std::min<int64_t>(files[i].bytes(), 3), start);
    const int64_t mark = byte_order_mark(start);
    if (mark == files[i].bytes()) {
      without_rows.add(files[i].path(), kEmptyFile);
      continue;
    }
    const int64_t begin = data_begin(files[i], mark, header);
    if (begin == files[i].bytes()) {
      without_rows.add(names[i], "has no rows: nothing follows its header line");
      continue;
    }
    text_begin_.push_back(mark);
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
      read_lines(files_[file], text_begin_[file], range, out.buffer, offset);
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
    if (is_blank(at) || (!sample.keeps_all() && !sample.keeps(file, position))) {
      return find_newline(at, end) + 1;
    }
    const char* const line = at;
    at = parse_line(at, rows, out.block, problem);
    if (kept_columns_ > 0) keep_line(line_at(line, at), out.kept);
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
    for (const char* at = lines.data(); at < end; at = find_newline(at, end) + 1)
      starts.push_back(at);
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

int64_t TextDecoder::data_begin(const InputFile& file, int64_t text_begin, Header header) {
  if (header == Header::kNone) return text_begin;
  HostVector<char> buffer;
  int64_t at = text_begin;
  for (bool blank = true; blank && at < file.bytes();) {
    int64_t offset = 0;
    const std::string_view line = read_lines(file, text_begin, {at, at + 1}, buffer, offset);
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
    const std::string_view lines = read_lines(input, begin, {at, end}, buffer, offset);
    const char* next = lines.data();
    while (next < lines.data() + lines.size() && static_cast<int64_t>(found.size()) < count) {
      const std::string_view line = line_at(next, next);
      if (!line.empty()) found.emplace_back(line);
    }
    at = end;
  }
  return found;
}

}  // namespace emblem
