// store/table_note.h - the note of a table in a shared store: what it was filled with, and which
// filling it was. Partitions have the generation of the filling, too: one that was lost has none,
// one that was restored from an old copy has another.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace emblem {

struct TableNote {
  std::string content;
  std::string generation;  // empty: filled by a program that marked no partitions

  std::string text() const {
    return generation.empty() ? content : content + std::string(kSeparator) + generation;
  }
  static TableNote parse(std::string_view text) {
    const size_t at = text.rfind(kSeparator);
    if (at == std::string_view::npos) return {std::string(text), ""};
    return {std::string(text.substr(0, at)), std::string(text.substr(at + kSeparator.size()))};
  }
  static std::optional<TableNote> parse(const std::optional<std::string>& text) {
    return text ? std::optional(parse(std::string_view(*text))) : std::nullopt;
  }

 private:
  static constexpr std::string_view kSeparator = "\ngeneration ";
};

}  // namespace emblem
