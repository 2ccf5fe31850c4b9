#include <fmt/format.h>

#include "bench/result/result_table.h"
#include "bench/tables/tables_bench.h"
#include "core/text/text.h"

namespace emblem {

namespace {

std::string time_of(const Named<double>& values, const char* metric) {
  const double* found = find_named(values, metric);
  return found == nullptr ? "-" : format_metric(*found, "s");
}

std::vector<std::string> measured_row(const BenchResult& result, const Named<double>& times) {
  const auto share = [&](const char* name) {
    const double* found = find_named(result.shares, name);
    return found == nullptr ? "" : fmt::format("{:.0f} %", 100 * *found);
  };
  return {"  " + result.program,       time_of(times, "eval"),  time_of(times, "forward"),
          time_of(times, "backward"),  time_of(times, "train"), share("eval of copy floor"),
          share("train of copy floor")};
}

// A published figure, with its time relative to ours.
std::vector<std::string> published_row(const ReferenceFigure& figure, const Named<double>& ours) {
  const auto times = [&](const char* metric) {
    const double *theirs = find_named(figure.values, metric), *own = find_named(ours, metric);
    return theirs == nullptr || own == nullptr ? "" : fmt::format("{:.2f}x", *theirs / *own);
  };
  return {cat("  ", figure.system, " (", figure.hardware, ")"),
          time_of(figure.values, "eval"),
          time_of(figure.values, "forward"),
          time_of(figure.values, "backward"),
          time_of(figure.values, "train"),
          times("eval"),
          times("train")};
}

std::string heading(const BenchResult& result) {
  const auto setting = [&](const char* name) {
    const Setting* found = find_named(result.settings, name);
    return found == nullptr ? 0.0 : std::get<double>(*found);
  };
  return fmt::format("{}: {} unique keys, hit rate {:.1f} %\n", result.name,
                     format_count(setting("unique_keys")), 100 * setting("hit_rate"));
}

}  // namespace

std::string tables_report(const std::vector<BenchResult>& results,
                          const std::vector<ReferenceTable>& published) {
  std::string text;
  for (const BenchResult& result : results) {
    Named<double> times;
    for (const auto& [name, measure] : result.metrics) times.push_back({name, measure.value});
    std::vector<std::vector<std::string>> rows = {
        {"", "eval", "forward", "backward", "train", "eval/floor", "train/floor"},
        measured_row(result, times)};
    const std::string workload = result.name.ends_with("-fresh")
                                     ? result.name.substr(0, result.name.size() - 6)
                                     : result.name;
    for (const ReferenceTable& table : published)
      for (const ReferenceFigure& figure : table.figures)
        if (figure.workload == workload) rows.push_back(published_row(figure, times));
    text += heading(result) + align_columns(rows);
  }
  return text;
}

}  // namespace emblem
