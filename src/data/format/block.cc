#include "data/format/block.h"

#include "emblem/error.h"

namespace emblem {

std::vector<ColumnSpec> criteo_schema(int num_dense, int num_sparse) {
  std::vector<ColumnSpec> schema = {{"label", ColumnType::kFloat}};
  for (int i = 1; i <= num_dense; ++i) schema.push_back({cat("I", i), ColumnType::kFloat});
  for (int i = 1; i <= num_sparse; ++i) schema.push_back({cat("C", i), ColumnType::kInt64});
  return schema;
}

}  // namespace emblem
