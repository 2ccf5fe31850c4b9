#include "data/items/edge_lists.h"

#include <algorithm>
#include <unordered_set>

#include "config/feature/items.h"
#include "core/text/text.h"
#include "data/items/id_file.h"
#include "data/items/text_rows.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string shown(std::string_view id) { return cat("\"", printable(std::string(id)), "\""); }

template <class Value>
Value known(const std::unordered_map<std::string, Value>& ids, std::string_view id,
            const char* what, const IdFile& file) {
  const auto found = ids.find(std::string(id));
  if (found == ids.end())
    file.fail(cat(what, " ", shown(id), " is not in the file of ", what, "s"));
  return found->second;
}

}  // namespace

UserKeys read_users(const config::DataConfig& data, const FeatureLayout& layout,
                    const std::string& user, const std::string& column, const std::string& path,
                    char delimiter, const Storage& storage) {
  const FeatureLayout alone = layout_of_feature(layout, user);
  TextRows rows(data, alone, {column}, path);
  std::vector<std::string> ids;
  UserKeys users;
  for (IdFile file(path, {"id:int64", "weight:float"}, delimiter, storage); file.next();) {
    file.weight(1);
    if (!users.emplace(file[0], 0).second)
      file.fail(cat("user ", shown(file[0]), " is there twice"));
    const std::string problem = rows.add({file[0]});
    if (!problem.empty()) file.fail(problem);
    ids.emplace_back(file[0]);
  }
  EMBLEM_REQUIRE(!ids.empty(), path, " has no users");
  const Batch features = rows.features();
  const SparseColumn& keys = features.sparse[static_cast<size_t>(alone.find(user).sparse_index)];
  for (size_t i = 0; i < ids.size(); ++i) users[ids[i]] = first_key(keys, i);
  return users;
}

EdgeLists::EdgeLists(std::vector<std::pair<int64_t, uint32_t>> edges) {
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  for (const auto& [user, item] : edges) {
    if (users_.empty() || users_.back() != user) {
      users_.push_back(user);
      begins_.push_back(items_.size());
    }
    items_.push_back(item);
  }
  begins_.push_back(items_.size());
}

std::span<const uint32_t> EdgeLists::items_of(int64_t user) const {
  const auto found = std::lower_bound(users_.begin(), users_.end(), user);
  if (found == users_.end() || *found != user) return {};
  const auto at = static_cast<size_t>(found - users_.begin());
  return std::span(items_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
}

std::vector<uint32_t> EdgeLists::all_items() const {
  std::vector<uint32_t> all = items_;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

EdgeLists read_edges(const std::string& path, char delimiter, const UserKeys& users,
                     const std::unordered_map<std::string, uint32_t>& items,
                     const Storage& storage) {
  std::vector<std::pair<int64_t, uint32_t>> edges;
  IdFile file(path, {"userid:int64", "itemid:int64", "weight:float"}, delimiter, storage);
  std::unordered_set<std::string_view> there;  // the parts of lines with both ids
  while (file.next()) {
    edges.emplace_back(known(users, file[0], "user", file), known(items, file[1], "item", file));
    file.weight(2);
    const auto ids = static_cast<size_t>(file[1].data() + file[1].size() - file[0].data());
    if (!there.emplace(file[0].data(), ids).second)
      file.fail(cat("the edge from user ", shown(file[0]), " to item ", shown(file[1]),
                    " is there twice"));
  }
  EMBLEM_REQUIRE(!edges.empty(), path, " has no edges");
  return EdgeLists(std::move(edges));
}

}  // namespace emblem
