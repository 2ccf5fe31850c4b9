// data/items/edge_lists.h - which items users have edges to: those that they chose, or that are
// hard negatives of theirs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/feature/features.h"
#include "data/source/storage.h"

namespace emblem {

// The keys of users by the texts of their ids.
using UserKeys = std::unordered_map<std::string, int64_t>;

// Reads "id:int64<TAB>weight:float". Keys are those of feature `user`, which reads column `column`
// alone. Throws Error with file and line for what is not so, and for ids that are there twice.
UserKeys read_users(const config::DataConfig& data, const FeatureLayout& layout,
                    const std::string& user, const std::string& column, const std::string& path,
                    char delimiter, const Storage& storage);

// Const methods may run concurrently.
class EdgeLists {
 public:
  EdgeLists() = default;
  // Pairs of a user's key and an item's row.
  explicit EdgeLists(std::vector<std::pair<int64_t, uint32_t>> edges);

  // In ascending order, each once; none of a user without edges.
  std::span<const uint32_t> items_of(int64_t user) const;
  // Those of all users, in ascending order, each once.
  std::vector<uint32_t> all_items() const;

 private:
  std::vector<int64_t> users_;  // ascending
  std::vector<size_t> begins_;  // of their items; one more than users
  std::vector<uint32_t> items_;
};

// Reads "userid:int64<TAB>itemid:int64<TAB>weight:float". Throws Error with file and line for what
// is not so, for users and items that are not known, for an edge that is there twice, and for a
// file without edges.
EdgeLists read_edges(const std::string& path, char delimiter, const UserKeys& users,
                     const std::unordered_map<std::string, uint32_t>& items,
                     const Storage& storage);

}  // namespace emblem
