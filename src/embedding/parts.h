// embedding/parts.h - a table is divided into kParts parts by key, which never change: ranks of
// a training, servers and files hold ranges of parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/host_device.h"
#include "core/math/hash.h"

namespace emblem {

inline constexpr int32_t kPartBits = 12;
inline constexpr int32_t kParts = 1 << kPartBits;

// The part of a key of a static table, whose keys are 0..rows-1: its low bits, reversed. Neighbours
// are far apart, so that any range of parts has its share of a table with fewer than kParts rows,
// too.
EMBLEM_HD inline int32_t part_of_static_key(int64_t key) {
  uint32_t bits = static_cast<uint32_t>(key) & (kParts - 1);
  bits = ((bits & 0x555u) << 1) | ((bits >> 1) & 0x555u);  // neighbouring bits
  bits = ((bits & 0x333u) << 2) | ((bits >> 2) & 0x333u);  // pairs
  return static_cast<int32_t>(((bits & 0x00fu) << 8) | (bits & 0x0f0u) |
                              ((bits >> 8) & 0x00fu));  // fours
}

// The part of a key of a dynamic table. The hash is not the one by which tables find rows: keys of
// one range of parts use all buckets of a table.
EMBLEM_HD inline int32_t part_of_hashed_key(int64_t key) {
  return static_cast<int32_t>(mix64(static_cast<uint64_t>(key) + 0xd1b54a32d192ed03ull) >>
                              (64 - kPartBits));
}

// Parts [first, last); none if they are equal.
struct PartRange {
  int32_t first = 0;
  int32_t last = kParts;

  EMBLEM_HD bool contains(int32_t part) const { return part >= first && part < last; }
  int32_t count() const { return last - first; }
  bool is_everything() const { return first == 0 && last == kParts; }
  bool operator==(const PartRange&) const = default;
};

// The range of holder `index` (from 0) of `count` holders, 1 <= count <= kParts. They differ by one
// part at most.
PartRange part_range_of(int32_t index, int32_t count);

// "0-1365" (both included), "7", or "2/3": the second of three holders. Throws kInvalidArgument for
// anything else.
PartRange parse_part_range(std::string_view text);

// As parse_part_range reads it; "none" without parts.
std::string to_string(PartRange range);
// "0-9, 20-29"
std::string to_string(const std::vector<PartRange>& ranges);

// The keys of a table whose parts are in a range.
struct PartFilter {
  PartRange parts;
  bool is_hashed = false;  // a dynamic table

  int32_t part_of(int64_t key) const {
    return is_hashed ? part_of_hashed_key(key) : part_of_static_key(key);
  }
  bool takes(int64_t key) const { return parts.contains(part_of(key)); }
  bool takes_all() const { return parts.is_everything(); }
};

// The parts that none of the ranges has, in order, as few ranges as possible.
std::vector<PartRange> missing_parts(std::vector<PartRange> ranges);

}  // namespace emblem
