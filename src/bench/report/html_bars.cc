// Time per step by stage, and shares of the hardware's limits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report/html_parts.h"
#include "bench/report/svg.h"
#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem::report_html_parts {
namespace {

// With more results than this, the bars of a benchmark share one legend.
constexpr size_t kFewBars = 6;

double total_of(const Named<double>& parts) {
  double total = 0;
  for (const auto& [name, value] : parts) total += value > 0 ? value : 0;
  return total;
}

int color_of(const std::vector<std::string>& colors, const std::string& name) {
  return static_cast<int>(std::find(colors.begin(), colors.end(), name) - colors.begin());
}

std::string bar_row(std::string_view name, std::string_view value, const std::string& bar,
                    const std::string& legend) {
  return fmt::format(
      "<div class='bar-row'><div class='bar-head'><span>{}</span><b>{}</b></div>{}{}</div>\n",
      safe(name), safe(value), bar, legend);
}

std::string stage_bar(const BenchResult& result, double longest,
                      const std::vector<std::string>& colors) {
  std::vector<BarPart> parts;
  for (const auto& [name, seconds] : result.stages)
    parts.push_back({cat(display_name(name), " ", format_metric(seconds, "s")), seconds,
                     color_of(colors, name)});
  return stacked_bar(parts, longest, cat("stages of ", label_of(result)));
}

std::string stage_legend(const BenchResult& result, const std::vector<std::string>& colors) {
  std::string items;
  const double total = total_of(result.stages);
  for (const auto& [name, seconds] : result.stages)
    items += fmt::format(
        "<li><span class='swatch s{}'></span>{} <b>{}</b> <span class='soft'>{:.0f}%</span></li>",
        color_of(colors, name) % kChartColors, safe(display_name(name)),
        format_metric(seconds, "s"), total > 0 ? 100 * seconds / total : 0);
  return "<ul class='legend'>" + items + "</ul>";
}

std::string shared_legend(const std::vector<const BenchResult*>& results,
                          const std::vector<std::string>& colors) {
  std::string items;
  for (const std::string& name : distinct_names(
           results, [](const auto* r) -> auto& { return r->stages; }))
    items += fmt::format("<li><span class='swatch s{}'></span>{}</li>",
                         color_of(colors, name) % kChartColors, safe(display_name(name)));
  return "<ul class='legend'>" + items + "</ul>";
}

// The results of each benchmark that have stages, in order of first appearance.
std::vector<std::vector<const BenchResult*>> with_stages(const std::vector<ResultGroup>& groups) {
  std::vector<std::vector<const BenchResult*>> kinds;
  for (const ResultGroup& group : groups) {
    for (const BenchResult* result : group.members) {
      if (!(total_of(result->stages) > 0)) continue;
      auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& members) {
        return members.front()->benchmark == result->benchmark;
      });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), std::vector<const BenchResult*>());
      kind->push_back(result);
    }
  }
  return kinds;
}

}  // namespace

std::string stages(const std::vector<ResultGroup>& groups, const std::vector<std::string>& colors) {
  std::string html;
  for (const auto& results : with_stages(groups)) {
    const bool few = results.size() <= kFewBars;
    html += fmt::format("<div class='panel'><h3>{}</h3>", safe(results.front()->benchmark));
    if (!few) html += shared_legend(results, colors);
    double longest = 0;
    for (const BenchResult* result : results) longest = std::max(longest, total_of(result->stages));
    for (const BenchResult* result : results)
      html +=
          bar_row(label_of(*result), format_metric(total_of(result->stages), "s"),
                  stage_bar(*result, longest, colors), few ? stage_legend(*result, colors) : "");
    html +=
        "<p class='soft small below'>Seconds per step or batch; all bars of a panel have the same "
        "scale.</p></div>\n";
  }
  return html;
}

std::string shares(const Report& report) {
  struct Bar {
    const BenchResult* result;
    std::string name, text;
    double share;
  };
  std::vector<std::pair<std::string, std::vector<Bar>>> kinds;
  for (const BenchResult& result : report.results) {
    for (const auto& [name, share] : result.shares) {
      auto kind = std::find_if(kinds.begin(), kinds.end(),
                               [&](const auto& k) { return k.first == result.benchmark; });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {result.benchmark, {}});
      kind->second.push_back({&result, name, format_share(result, name, share), share});
    }
  }
  std::string html;
  for (auto& [benchmark, bars] : kinds) {
    std::stable_sort(bars.begin(), bars.end(),
                     [](const Bar& a, const Bar& b) { return a.share > b.share; });
    html += fmt::format("<div class='panel'><h3>{}</h3>", safe(benchmark));
    const std::vector<std::string> names = [&, &shown = bars] {
      std::vector<std::string> found;
      for (const Bar& bar : shown)
        if (std::find(found.begin(), found.end(), bar.name) == found.end())
          found.push_back(bar.name);
      return found;
    }();
    for (const Bar& bar : bars)
      html += bar_row(cat(label_of(*bar.result), ": ", display_name(bar.name)), bar.text,
                      stacked_bar({{bar.text, bar.share, color_of(names, bar.name)}}, 1.0,
                                  cat(bar.name, " ", bar.text)),
                      "");
    html +=
        "<div class='roof'><span>0 %</span><span>25 %</span><span>50 %</span><span>75 "
        "%</span><span>100 % of the limit</span></div></div>\n";
  }
  return html;
}

}  // namespace emblem::report_html_parts
