// data/feature/fg/key_values.h - the map that a cell of a lookup feature holds.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/math/hidden_hash.h"
#include "data/feature/fg/cells.h"

namespace emblem {

// "k:v" is cut at its first delimiter. False when there is none or the key is empty.
bool split_pair(std::string_view text, char delimiter, std::string_view& key,
                std::string_view& value);

// Keys and values of one cell, each value as text. Reused for the next cell.
class KeyValues {
 public:
  // Values of `input` are "key:value", or keys whose values are the weights of the column. When a
  // key occurs twice the first counts. Returns "" or what is wrong.
  std::string read(const CellReader& input, int64_t cell);

  bool empty() const { return entries_.empty(); }
  // Null when there is no such key.
  const std::string_view* find(std::string_view key) const;

 private:
  static constexpr size_t kScanned = 16;  // up to here entries are scanned, not hashed

  std::vector<std::pair<std::string_view, std::string_view>> entries_;
  std::unordered_map<std::string_view, const std::string_view*, HiddenHash> by_key_;
  std::deque<std::string> written_;  // texts of numbers
};

}  // namespace emblem
