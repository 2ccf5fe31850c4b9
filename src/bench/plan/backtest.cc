#include "bench/plan/backtest.h"

#include <algorithm>
#include <numeric>

#include "bench/train/dlrm_workload.h"
#include "plan/links.h"

namespace emblem {
namespace {

constexpr double kDenseBytes = 64e6;  // of gradients
constexpr double kKeyBytes = 4, kValueBytes = 2;

struct System {
  const char* name;
  int hosts, devices;
  int64_t batch;
  double published_ms;
};

struct Links {
  LinkClass inside, between;
};

// What HugeCTR sends: keys, bags that are pooled by the holders of rows, their gradients, and dense
// gradients, which are added up inside a host first.
double exchange_seconds(const System& system, const Links& links) {
  const DlrmShape shape = mlperf_dcnv2();
  const int ranks = system.hosts * system.devices;
  const double rows = static_cast<double>(system.batch) / ranks;
  const double keys =
      static_cast<double>(std::accumulate(shape.hotness.begin(), shape.hotness.end(), int64_t{0}));
  const double bag_bytes =
      static_cast<double>(shape.table_rows.size()) * static_cast<double>(shape.dim) * kValueBytes;
  const auto seconds = [](int hosts, int devices, const Links& over, double bytes) {
    const int all = hosts * devices;
    const HostGroups groups = even_hosts(hosts, devices);
    Traffic traffic(groups);
    traffic.add(Toward::kHolders, bytes, std::vector<double>(static_cast<size_t>(all), 1.0 / all));
    return described_exchange(over.inside, over.between)(traffic);
  };
  const auto to_all = [&](double bytes) {
    return seconds(system.hosts, system.devices, links, bytes);
  };
  const Links of_network{links.between, links.between};
  double dense = 2 * seconds(1, system.devices, {links.inside, links.inside}, kDenseBytes);
  if (system.hosts > 1)
    dense += 2 * seconds(system.hosts, 1, of_network, kDenseBytes / system.devices);
  return to_all(rows * keys * kKeyBytes) + 2 * to_all(rows * bag_bytes) + dense;
}

// The first system is fitted: what links do not explain is proportional to the rows of a device.
void add_rows(const std::vector<System>& systems, const Links& links,
              std::vector<BacktestRow>& rows) {
  const auto rows_a_device = [](const System& system) {
    return static_cast<double>(system.batch) / (system.hosts * system.devices);
  };
  const System& first = systems.front();
  const double each = std::max(0.0, 1e-3 * first.published_ms - exchange_seconds(first, links)) /
                      rows_a_device(first);
  for (const System& system : systems) {
    const double seconds = each * rows_a_device(system) + exchange_seconds(system, links);
    rows.push_back({system.name, system.hosts * system.devices, system.batch, system.published_ms,
                    1e3 * seconds, &system == &first});
  }
}

}  // namespace

std::vector<BacktestRow> backtest_mlperf() {
  std::vector<BacktestRow> rows;
  add_rows({{"v4.0, 8 H100, 1 host", 1, 8, 55296, 4.02},
            {"v4.0, 64 H100, 8 hosts", 8, 8, 135168, 2.82},
            {"v4.0, 128 H100, 16 hosts", 16, 8, 135168, 2.05}},
           {parse_link("nvlink4"), parse_link("ndr")}, rows);
  const LinkClass nvlink5 = parse_link("nvlink5=740:31");
  add_rows({{"v5.1, 8 GB200, one NVLink domain", 1, 8, 55296, 2.33},
            {"v5.1, 64 GB200, one NVLink domain", 1, 64, 135168, 1.61}},
           {nvlink5, nvlink5}, rows);
  return rows;
}

}  // namespace emblem
