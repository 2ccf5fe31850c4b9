// serve/engine/retrieval/stored_columns.h - columns that are stored with the items of an index, as
// text, for models that rank the items found (the request parameter then_rank).
#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace emblem {

// The columns in the folder of a version.
inline constexpr const char* kColumnsFolder = "item_columns";

// Thread-safe.
class StoredColumns {
 public:
  StoredColumns() = default;  // no columns of any item
  // `values` [ids, names]. Throws kInvalidArgument for names that requests cannot tell apart.
  StoredColumns(std::vector<std::string> names, std::span<const int64_t> ids,
                std::span<const std::string> values);

  // Writes files (docs/formats.md) into a new folder.
  void save(const std::string& folder) const;
  // Throws kCorruption for files that do not fit each other.
  static std::unique_ptr<StoredColumns> load(const std::string& folder);
  static std::vector<std::string> load_names(const std::string& folder);

  const std::vector<std::string>& names() const { return names_; }
  int64_t saved_items() const { return static_cast<int64_t>(ids_.size()); }

  // The columns of items as searches that have seen `change` of the index find them; `texts` have a
  // BYTES element for each name. Nothing is seen before the index has made the change.
  void put(int64_t change, std::span<const int64_t> ids, std::vector<std::string> texts);
  // Takes back a change that the index has not made.
  void drop(int64_t change, std::span<const int64_t> ids);

  // BYTES elements of the columns of each item, valid for as long as this is there. Throws
  // kCorruption for an item that has none.
  std::vector<std::string_view> find(std::span<const int64_t> ids, int64_t change) const;

 private:
  struct Put {
    int64_t change;
    std::unique_ptr<const std::string> text;
  };

  std::string_view saved(int64_t id) const;

  std::vector<std::string> names_;
  // Items of the files: ids ascending, text of item i in [ends_[i - 1], ends_[i]) of texts_.
  std::vector<int64_t> ids_, ends_;
  std::string texts_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<int64_t, std::vector<Put>> put_;  // by id, in the order of changes
};

// Appends a BYTES element.
void append_element(std::string_view text, std::string& to);

}  // namespace emblem
