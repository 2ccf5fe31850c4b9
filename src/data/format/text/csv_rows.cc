#include "data/format/text/csv_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace emblem {
namespace {

constexpr int kMostQuotesInARow = 32;

const char* find(const char* at, const char* end, char c) {
  return static_cast<const char*>(std::memchr(at, c, static_cast<size_t>(end - at)));
}

const char* find_last(const char* begin, const char* end, char c) {
  return static_cast<const char*>(memrchr(begin, c, static_cast<size_t>(end - begin)));
}

// What lies around a place, and whether it may border a field.
class Text {
 public:
  Text(const CsvWindow& window, std::string_view delimiters)
      : begin_(window.begin),
        end_(window.end),
        is_complete_(window.ends_file),
        delimiters_(delimiters) {}

  bool begins_field(const char* at) const {
    return at == begin_ || at[-1] == '\n' || is_delimiter(at[-1]);
  }

  // The end of the row in which a field begins or continues at `at`. Null: not in this text.
  const char* row_end(const char* at) const {
    bool is_field_start = begins_field(at);
    while (true) {
      if (is_field_start && at < end_ && *at == '"') {
        const char* const line_end = find(at, end_, '\n');
        const char* const quote = closing_quote(at + 1);
        if (quote == nullptr && !is_complete_ && end_ - at <= kMostQuotedBytes) return nullptr;
        const bool spans_lines = quote != nullptr && line_end != nullptr && line_end < quote;
        if (quote == nullptr || (spans_lines && !ends_field(quote + 1))) return line_end;
        at = quote + 1;
      }
      while (at < end_ && *at != '\n' && !is_delimiter(*at)) ++at;
      if (at >= end_) return nullptr;
      if (*at == '\n') return at;
      ++at;
      is_field_start = true;
    }
  }

  // The quote that closes a field whose text continues at `at`; null where none does.
  const char* closing_quote(const char* at) const {
    const char* const limit = at + std::min<int64_t>(end_ - at, kMostQuotedBytes);
    while (at < limit) {
      const char* const quote = find(at, limit, '"');
      if (quote == nullptr || quote + 1 >= end_ || quote[1] != '"') return quote;
      at = quote + 2;
    }
    return nullptr;
  }

  // Whether the quotes before `at` are those of a place inside of a field.
  bool is_opened_before(const char* at) const {
    const char* const limit = at - std::min<int64_t>(at - begin_, kMostQuotedBytes);
    bool flipped = false;
    while (const char* const quote = find_last(limit, at, '"')) {
      const std::string_view run = run_at(quote);
      if (run.data() < limit) break;
      at = run.data();
      if (run.size() % 2 == 0) continue;
      if (const auto inside = is_inside_after(run)) return *inside != flipped;
      flipped = !flipped;
    }
    return flipped;
  }

  // Whether the quotes after `at` are those of a place inside of a field.
  bool is_closed_after(const char* at) const {
    const char* const limit = at + std::min<int64_t>(end_ - at, kMostQuotedBytes);
    bool flipped = false;
    while (const char* const quote = at < limit ? find(at, limit, '"') : nullptr) {
      const std::string_view run = run_at(quote);
      at = run.data() + run.size();
      if (at >= limit) break;
      if (run.size() % 2 == 0) continue;
      if (is_inside_after(run)) return (ends_field(at) && !begins_field(run.data())) != flipped;
      flipped = !flipped;
    }
    return flipped;
  }

 private:
  bool is_delimiter(char c) const { return delimiters_.find(c) != delimiters_.npos; }
  bool ends_field(const char* at) const {
    if (at >= end_ || *at == '\n' || is_delimiter(*at)) return true;
    return *at == '\r' && (at + 1 == end_ || at[1] == '\n');
  }

  // The quotes around `at`, which is one.
  std::string_view run_at(const char* at) const {
    const char *first = at, *last = at + 1;
    while (first > begin_ && first[-1] == '"') --first;
    while (last < end_ && *last == '"') ++last;
    return {first, static_cast<size_t>(last - first)};
  }

  // Whether the place after an odd number of quotes is inside of a field; nothing where they may
  // open one as well as close one. What does neither is part of a field without quotes.
  std::optional<bool> is_inside_after(std::string_view run) const {
    const bool opens = begins_field(run.data()), closes = ends_field(run.data() + run.size());
    if (opens && closes) return std::nullopt;
    return opens;
  }

  const char *begin_, *end_;
  bool is_complete_;
  std::string_view delimiters_;
};

}  // namespace

const char* find_row_end(const char* at, const char* end, std::string_view delimiters) {
  const char* const line_end = find(at, end, '\n');
  if (find(at, line_end, '"') == nullptr) return line_end;
  return Text({at, end, true}, delimiters).row_end(at);
}

const char* find_row_start(const CsvWindow& window, const char* at, std::string_view delimiters) {
  const Text text(window, delimiters);
  if (at == window.end) return at;
  // A row does not begin between quotes.
  for (int i = 0; i < kMostQuotesInARow && at > window.begin && *at == '"' && at[-1] == '"'; ++i)
    --at;
  if (text.is_opened_before(at)) {
    if (!window.ends_file && window.end - at < kMostQuotedBytes) return nullptr;
    if (text.is_closed_after(at)) {
      const char* const quote = text.closing_quote(at);
      const char* const row_end = quote == nullptr ? nullptr : text.row_end(quote + 1);
      return row_end == nullptr ? nullptr : row_end + 1;
    }
  }
  if (at == window.begin || at[-1] == '\n') return at;
  const char* const row_end = text.row_end(at);
  return row_end == nullptr ? nullptr : row_end + 1;
}

}  // namespace emblem
