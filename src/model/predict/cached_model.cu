#include "model/predict/cached_model.h"

#include <algorithm>

namespace emblem::cuda {

CachedModel::CachedModel(const Context& context, const config::PipelineConfig& config,
                         const FeatureLayout& layout, int64_t max_rows,
                         const CacheOptions& options) {
  const DType dtype = precision_of(context, config.train_config());
  std::vector<PredictorLookup> lookups;
  auto model = std::make_unique<Model>(
      context, config, layout, max_rows,
      [&](const LookupTables& wanted) -> std::unique_ptr<Lookup> {
        Tables& tables = tables_.emplace_back();
        int64_t row_bytes = 0;
        std::vector<int64_t> counts;
        for (const TableSettings& table : wanted.tables) {
          row_bytes = std::max(row_bytes, row_bytes_of(table.dim, dtype));
          counts.push_back(table.capacity);
        }
        CachedRowsSettings settings{.dtype = dtype, .max_rows = max_rows};
        for (const TableSettings& table : wanted.tables) {
          const StaticRows& rows =
              *tables.rows.emplace_back(std::make_unique<StaticRows>(table, dtype, row_bytes));
          tables.rows.back()->initialize(context);
          settings.tables.push_back({.dim = table.dim,
                                     .missing = table.missing,
                                     .seed = table.seed,
                                     .rows = rows.data(),
                                     .count = rows.count()});
        }
        tables.cache = std::make_unique<RowCache>(
            context, RowCacheSettings{.row_bytes = row_bytes,
                                      .table_rows = cache_rows(counts, options.size, row_bytes),
                                      .policy = options.policy});
        settings.cache = tables.cache.get();
        for (const TableUse& use : wanted.uses)
          settings.features.push_back(static_cast<int>(use.table));
        lookups.push_back({std::make_unique<CachedRows>(context, std::move(settings)), nullptr});
        return nullptr;
      });
  predictor_ =
      std::make_unique<DevicePredictor>(context, std::move(model), std::move(lookups), max_rows);
}

int64_t CachedModel::table_bytes() const {
  int64_t bytes = 0;
  for (const Tables& tables : tables_) {
    for (const auto& rows : tables.rows)
      bytes += rows->count() * tables.cache->settings().row_bytes;
  }
  return bytes;
}

int64_t CachedModel::cache_bytes() const {
  int64_t bytes = 0;
  for (const Tables& tables : tables_) bytes += tables.cache->bytes();
  return bytes;
}

}  // namespace emblem::cuda
