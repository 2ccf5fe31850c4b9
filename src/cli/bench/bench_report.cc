#include "cli/bench/bench_report.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "bench/result/result_files.h"
#include "bench/result/result_table.h"
#include "core/system/process.h"
#include "core/text/text.h"

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
  if (const Setting* bound = find_named(result.settings, "bound_text"))
    std::printf("%s", wrap_text("", format_setting(*bound), 2).c_str());
}

}  // namespace

void show_progress(const std::string& text) {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

void report_bench(const std::vector<BenchResult>& results, const std::string& json) {
  std::printf("%s", results_table(results, "pytorch").c_str());
  for (const BenchResult& result : results) print_stages(result);
  write_json(results, json);
}

void write_json(const std::vector<BenchResult>& results, const std::string& json) {
  if (json.empty()) return;
  write_bench_results(json, results);
  std::printf("\nwrote %s\n", json.c_str());
}

void print_published(const std::vector<BenchResult>& results) {
  const std::string folder =
      find_reference_folder(std::filesystem::current_path().string(), program_path());
  if (folder.empty()) return;
  for (const std::string& name : references_of(results)) {
    const ReferenceTable table = read_reference(folder + "/" + name + ".json");
    const std::string rows = published_rows(results, table) + published_latencies(results, table);
    if (!rows.empty()) std::printf("\n%s\n%s", table.title.c_str(), rows.c_str());
  }
}

}  // namespace emblem
