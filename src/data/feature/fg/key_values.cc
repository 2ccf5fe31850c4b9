#include "data/feature/fg/key_values.h"

#include "data/format/decoder.h"
#include "emblem/error.h"

namespace emblem {

bool split_pair(std::string_view text, char delimiter, std::string_view& key,
                std::string_view& value) {
  const size_t at = text.find(delimiter);
  if (at == std::string_view::npos || at == 0) return false;
  key = text.substr(0, at);
  value = text.substr(at + 1);
  return true;
}

std::string KeyValues::read(const CellReader& input, int64_t cell) {
  entries_.clear();
  by_key_.clear();
  written_.clear();
  const ValueRange range = input.values(cell);
  const HostVector<float>& weights = input.column().weights;
  std::string buffer;
  for (size_t at = range.begin; at < range.end; ++at) {
    std::string_view text = input.text(at, buffer);
    if (text.empty()) continue;
    if (input.column().type != ColumnType::kText) text = written_.emplace_back(text);
    std::string_view key = text;
    std::string_view value;
    if (!weights.empty()) {
      write_number(weights[at], written_.emplace_back());
      value = written_.back();
    } else if (!split_pair(text, ':', key, value)) {
      entries_.clear();
      return cat("the map has ", in_quotes(text), ", expected key:value");
    }
    entries_.emplace_back(key, value);
  }
  if (entries_.size() > kScanned) {
    for (const auto& [key, value] : entries_) by_key_.emplace(key, &value);
  }
  return "";
}

const std::string_view* KeyValues::find(std::string_view key) const {
  if (entries_.size() > kScanned) {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : found->second;
  }
  for (const auto& entry : entries_)
    if (entry.first == key) return &entry.second;
  return nullptr;
}

}  // namespace emblem
