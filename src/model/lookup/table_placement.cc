#include "model/lookup/table_placement.h"

#include <algorithm>
#include <vector>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

int64_t row_bytes_of(const TableSettings& table) {
  return table.dim * size_of(table.dtype) + 4 * state_floats(table.rule, table.dim);
}

int64_t table_bytes_of(const TableSettings& table) {
  return std::max({table.capacity, table.initial_capacity, int64_t{1}}) * row_bytes_of(table);
}

void place_tables(std::span<TableSettings> tables, int64_t device_bytes) {
  EMBLEM_REQUIRE(device_bytes > 0, "device_bytes is ", device_bytes, "; give at least a row's");
  std::vector<TableSettings*> by_size;
  for (TableSettings& table : tables) by_size.push_back(&table);
  std::stable_sort(by_size.begin(), by_size.end(), [](const auto* a, const auto* b) {
    return table_bytes_of(*a) < table_bytes_of(*b);
  });
  int64_t left = device_bytes;
  size_t whole = 0;  // tables that get all they need
  for (; whole < by_size.size(); ++whole) {
    const int64_t bytes = table_bytes_of(*by_size[whole]);
    if (bytes > left / static_cast<int64_t>(by_size.size() - whole)) break;
    left -= bytes;
  }
  double others = 0;
  for (size_t i = whole; i < by_size.size(); ++i)
    others += static_cast<double>(table_bytes_of(*by_size[i]));
  for (size_t i = whole; i < by_size.size(); ++i) {
    TableSettings& table = *by_size[i];
    EMBLEM_REQUIRE(table.capacity > 0, "table ", table.name,
                   " may grow without limit, but only a part of it is to be in the GPU's memory (",
                   format_bytes(static_cast<double>(device_bytes)),
                   " for all tables); give it a max_capacity and a score_strategy other than "
                   "NO_EVICTION, or raise device_bytes");
    table.placement = Placement::kCache;
    table.device_bytes =
        std::max(row_bytes_of(table),
                 static_cast<int64_t>(static_cast<double>(left) *
                                      (static_cast<double>(table_bytes_of(table)) / others)));
  }
}

}  // namespace emblem
