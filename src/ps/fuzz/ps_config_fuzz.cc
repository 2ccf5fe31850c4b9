// Fuzzes the reader of ps.json. Whatever comes in, the only way out is a configuration that holds
// what it promises, or an Error.
#include <cstdlib>

#include "emblem/error.h"
#include "ps/config/ps_config.h"

namespace emblem {
namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

void check(const PsConfig& config) {
  require(config.volatile_db.num_node_connections > 0 && config.volatile_db.max_batch_size > 0);
  require(config.persistent_db.max_batch_size > 0 && config.update_source.max_batch_size > 0);
  for (const PsModel& model : config.models) {
    require(!model.name.empty());
    require(model.gpucacheper >= 0 && model.gpucacheper <= 1);
    for (const PsModel::Table& table : model.tables) require(table.dim > 0);
  }
  for (const auto* filters :
       {&config.volatile_db.update_filters, &config.persistent_db.update_filters})
    passes_update_filters(*filters, "hps_et.model.table");
}

}  // namespace
}  // namespace emblem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    emblem::check(emblem::parse_ps_config({reinterpret_cast<const char*>(data), size}, "ps.json"));
  } catch (const emblem::Error&) {
    // The answer to most of what a fuzzer makes.
  }
  return 0;
}
