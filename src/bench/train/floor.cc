#include "bench/train/floor.h"

#include <algorithm>
#include <map>

#include "core/host_copy.h"

namespace emblem {
namespace {

double least_bytes(const TableWork& work, DType precision) {
  const auto weights = static_cast<double>(4 * work.dim);
  const auto state = static_cast<double>(4 * work.state_floats);
  const auto vector = static_cast<double>(work.dim * size_of(precision));
  return work.unique_rows * weights + 2 * work.bags * vector +
         2 * work.unique_rows * (weights + state) + work.lookups * sizeof(int64_t);
}

}  // namespace

std::vector<TableWork> table_work(const Context& context, const Model& model,
                                  const ModelBatch& batch) {
  struct Use {
    double bags = 0;
    std::vector<int64_t> keys;
  };
  std::map<const Table*, Use> uses;  // features may share a table
  for (const Model::LookupInput& input : model.lookup_inputs()) {
    for (size_t f = 0; f < input.tables.size(); ++f) {
      Use& use = uses[input.tables[f]];
      const auto sparse = static_cast<size_t>(input.sparse_index[f]);
      const std::vector<int64_t> keys = to_host(context, batch.sparse[sparse].keys);
      use.keys.insert(use.keys.end(), keys.begin(), keys.end());
      use.bags += static_cast<double>(bags_of(batch.sparse[sparse]));
    }
  }
  std::vector<TableWork> all;
  for (auto& [table, use] : uses) {
    TableWork& work = all.emplace_back();
    work.dim = table->dim();
    work.state_floats = table->state_floats();
    work.bags = use.bags;
    work.lookups = static_cast<double>(use.keys.size());
    std::sort(use.keys.begin(), use.keys.end());
    const auto end = std::unique(use.keys.begin(), use.keys.end());
    work.unique_rows = static_cast<double>(end - use.keys.begin());
  }
  return all;
}

double unique_rows(std::span<const TableWork> work) {
  double sum = 0;
  for (const TableWork& of : work) sum += of.unique_rows;
  return sum;
}

double least_table_bytes(std::span<const TableWork> work, DType precision) {
  double sum = 0;
  for (const TableWork& of : work) sum += least_bytes(of, precision);
  return sum;
}

}  // namespace emblem
