#include <cmath>

#include "bench/result/result_table.h"
#include "bench/tables/tables_bench.h"
#include "core/text.h"

namespace emblem {

std::string tables_report(const std::vector<BenchResult>& results,
                          const std::vector<ReferenceTable>& published) {
  const auto time = [](const Named<double>& values, const char* metric) {
    const double* found = find_named(values, metric);
    return found == nullptr ? std::string("-") : format_metric(*found, "s");
  };
  std::vector<std::vector<std::string>> rows = {{"workload", "who", "unique", "hit rate", "eval",
                                                 "forward", "backward", "train", "eval/floor",
                                                 "train/floor"}};
  for (const BenchResult& result : results) {
    Named<double> mine;
    for (const auto& [name, measure] : result.metrics) mine.push_back({name, measure.value});
    const auto share = [&](const char* name) {
      const double* found = find_named(result.shares, name);
      return found == nullptr ? std::string()
                              : cat(static_cast<int>(std::lround(100 * *found)), " %");
    };
    const auto setting = [&](const char* name) {
      const Setting* found = find_named(result.settings, name);
      return found == nullptr ? 0.0 : std::get<double>(*found);
    };
    char hits[32];
    std::snprintf(hits, sizeof hits, "%.1f %%", 100 * setting("hit_rate"));
    rows.push_back({result.name, result.program, format_count(setting("unique_keys")), hits,
                    time(mine, "eval"), time(mine, "forward"), time(mine, "backward"),
                    time(mine, "train"), share("eval of copy floor"),
                    share("train of copy floor")});
    for (const ReferenceTable& table : published) {
      for (const ReferenceFigure& figure : table.figures) {
        const std::string plain = result.name.ends_with("-fresh")
                                      ? result.name.substr(0, result.name.size() - 6)
                                      : result.name;
        if (figure.workload != plain) continue;
        const auto times = [&](const char* metric) {
          const double *theirs = find_named(figure.values, metric),
                       *ours = find_named(mine, metric);
          if (theirs == nullptr || ours == nullptr) return std::string();
          char text[32];
          std::snprintf(text, sizeof text, "%.2fx", *theirs / *ours);
          return std::string(text);
        };
        rows.push_back({"", cat(figure.system, " (", figure.hardware, ")"), "", "",
                        time(figure.values, "eval"), time(figure.values, "forward"),
                        time(figure.values, "backward"), time(figure.values, "train"),
                        times("eval"), times("train")});
      }
    }
  }
  return align_columns(rows);
}

}  // namespace emblem
