// ps/loading/row_source.h - where a table's rows are copied from.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "embedding/parts.h"
#include "store/kv_store.h"

namespace emblem {

struct RowSource {
  std::string folder;           // of the model's files
  std::shared_ptr<KvTable> l3;  // null: from the files
  PartFilter filter = {};       // which rows
  std::function<bool(int64_t key)> only = nullptr;  // of these, null: all

  std::string describe() const { return l3 != nullptr ? "the database on disk" : folder; }
};

// Writes these rows into `to`; `before_batch`, which may throw, is called before each part of them.
// Rows with NaN or infinite values are logged and skipped; returns their number.
uint64_t copy_rows(
    const RowSource& from, KvTable& to, const std::function<void()>& before_batch = [] {});

}  // namespace emblem
