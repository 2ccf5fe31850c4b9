#include <algorithm>

#include "bench/tables/tables_bench.h"
#include "core/system/process.h"

namespace emblem {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30, kMi = int64_t{1} << 20;

TablesCase named(TablesCase of, const std::string& name) {
  of.name = name + (of.stream == KeyStream::kFresh ? "-fresh" : "");
  return of;
}

int64_t row_bytes(const TablesCase& of) { return of.optimizer == "sgd" ? 512 : 1536; }

// Reduces the rows of tables in host memory to what fits, with keys, gradients and other data.
struct HostMemory {
  Device device;
  int64_t bytes;

  void fit(TablesCase& of, int64_t rows) const {
    of.rows = rows;
    of.original_rows = 0;
    if (device == Device::kCuda && of.placement == Placement::kDevice) return;
    const int64_t room = std::max(bytes / 2, bytes / 10 * 9 - 8 * kGiB);
    const int64_t most = std::max<int64_t>(2, room / (of.tables * row_bytes(of)));
    if (rows <= most) return;
    of.original_rows = rows;
    of.rows = most;
  }
};

// One table; all rows in device memory, or in a cache of 4 (SGD) or 12 GiB.
std::vector<TablesCase> preset_2025(KeyStream stream, const HostMemory& host) {
  std::vector<TablesCase> cases;
  for (const int64_t batch : {int64_t{65536}, int64_t{1048576}}) {
    for (const auto& [rows, placement] :
         {std::pair{8 * kMi, Placement::kDevice}, std::pair{8 * kMi, Placement::kCache},
          std::pair{64 * kMi, Placement::kCache}}) {
      for (const std::string optimizer : {"sgd", "adam"}) {
        TablesCase of;
        of.batch = batch;
        of.optimizer = optimizer;
        of.placement = placement;
        of.stream = stream;
        host.fit(of, rows);
        if (placement == Placement::kCache) of.device_bytes = (optimizer == "sgd" ? 4 : 12) * kGiB;
        cases.push_back(
            named(of, cat("b", batch, "-r", rows, "-", optimizer, "-", name_of(placement))));
      }
    }
  }
  return cases;
}

// Ten tables; the published ones in host memory take 137 GB (SGD) or 412 GB.
std::vector<TablesCase> preset_2026(KeyStream stream, const HostMemory& host) {
  // Rows per table that 100 batches touch: the published footprint (1.0) of the cache.
  constexpr int64_t kFootprintRows = 1958078;
  std::vector<TablesCase> cases;
  for (const std::string optimizer : {"sgd", "adam"}) {
    TablesCase of;
    of.tables = 10;
    of.batch = 104857;
    of.optimizer = optimizer;
    of.stream = stream;
    host.fit(of, 16 * kMi / 10);
    cases.push_back(named(of, cat("t10-", optimizer, "-device")));
    of.placement = Placement::kCache;
    host.fit(of, 256 * kMi / 10);
    of.device_bytes = of.tables * kFootprintRows * row_bytes(of);
    cases.push_back(named(of, cat("t10-", optimizer, "-cache-1.0")));
    of.device_bytes = of.device_bytes * 4 / 5;
    cases.push_back(named(of, cat("t10-", optimizer, "-cache-0.8")));
    of.device_bytes = of.rows * of.tables * row_bytes(of) / 10;
    cases.push_back(named(of, cat("t10-", optimizer, "-cache-10pct")));
    of.placement = Placement::kHost;
    of.device_bytes = 0;
    cases.push_back(named(of, cat("t10-", optimizer, "-host")));
  }
  return cases;
}

}  // namespace

std::vector<TablesCase> tables_preset(const std::string& name, KeyStream stream, Device device,
                                      int64_t host_bytes) {
  EMBLEM_REQUIRE(name == "dynamicemb-2025" || name == "dynamicemb-2026",
                 "bench tables: unknown preset \"", name,
                 "\"; known: dynamicemb-2025, dynamicemb-2026");
  const HostMemory host{device, host_bytes != 0 ? host_bytes : available_memory_bytes()};
  return name == "dynamicemb-2025" ? preset_2025(stream, host) : preset_2026(stream, host);
}

std::string rows_note(const TablesCase& of) {
  if (of.original_rows == 0) return "";
  return cat(of.name, ": ", of.rows, " rows per table instead of the published ", of.original_rows,
             ", which do not fit into host memory");
}

}  // namespace emblem
