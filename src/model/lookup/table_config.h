// model/lookup/table_config.h - tables as the configuration asks for them.
#pragma once

#include <string>
#include <vector>

#include "config/proto/pipeline.pb.h"
#include "embedding/settings.h"
#include "model/lookup/lookup_groups.h"

namespace emblem {

// A feature of a lookup and the table it reads: an index into LookupTables::tables.
struct TableUse {
  int64_t sparse_index = 0;  // position in Batch::sparse; of a stacked lookup, of its first feature
  int64_t table = 0;
  Pooling pooling = Pooling::kSum;
};

struct LookupTables {
  std::vector<TableSettings> tables;
  std::vector<TableUse>
      uses;  // in the order of the LookupGroup's features; one of a stacked lookup
  LookupSettings lookup;
};

// kEvaluation: tables keep no optimizer state, and rows are never updated, added or evicted.
enum class ModelUse { kTraining, kEvaluation };

// The tables of a lookup. Features that name the same embedding share a table, and must then agree
// on its settings: an Error names both features and the setting.
LookupTables tables_of_lookup(const config::PipelineConfig& config, const LookupGroup& lookup,
                              ModelUse use = ModelUse::kTraining);

// Reads "nn.init.uniform_,a=-0.01,b=0.01" and its like.
Initializer parse_init_fn(const std::string& text);

}  // namespace emblem
