#include "cli/bench_report.h"

#include <cstdio>

#include "bench/result_table.h"
#include "core/text.h"

namespace emblem {
namespace {

void print_stages(const BenchResult& result) {
  std::printf("\n%s\n", result.name.c_str());
  double total = 0;
  for (const auto& [name, seconds] : result.stages) total += seconds;
  for (const auto& [name, seconds] : result.stages) {
    std::printf("  %-20s %9s  %5.1f %%\n", name.c_str(), format_duration(seconds).c_str(),
                100 * seconds / total);
  }
  for (const auto& [name, share] : result.shares)
    std::printf("  share: %-25s %5.1f %%\n", name.c_str(), 100 * share);
}

}  // namespace

void report_bench(const std::vector<BenchResult>& results, const std::string& json) {
  std::printf("%s", results_table(results, "pytorch").c_str());
  for (const BenchResult& result : results) print_stages(result);
  if (!json.empty()) {
    write_bench_results(json, results);
    std::printf("\nwrote %s\n", json.c_str());
  }
}

}  // namespace emblem
