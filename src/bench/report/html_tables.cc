#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report/html_parts.h"
#include "bench/report/svg.h"
#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem::report_html_parts {
namespace {

// With more metrics than this, their cells wrap.
constexpr size_t kFewColumns = 8;

// A bar for the first metric, relative to the longest of its group.
std::string cell_bar(const ResultGroup& group, const BenchResult& result) {
  if (result.metrics.empty()) return "<td class='cell-bar'></td>";
  const auto& [name, measure] = result.metrics.front();
  double longest = 0;
  for (const BenchResult* member : group.members)
    if (const Measure* other = find_named(member->metrics, name))
      longest = std::max(longest, other->value);
  return fmt::format("<td class='cell-bar'>{}</td>",
                     stacked_bar({{display_name(name), measure.value, is_ours(result) ? 0 : 1}},
                                 longest, label_of(result)));
}

std::string measure_cell(const Measure* measure) {
  if (measure == nullptr) return "<td class='number'></td>";
  std::string text = safe(format_metric(measure->value, measure->unit));
  if (measure->interval && std::isfinite(measure->interval->low + measure->interval->high))
    text += fmt::format(" <span class='soft small'>{} to {}</span>",
                        safe(format_metric(measure->interval->low, measure->unit)),
                        safe(format_metric(measure->interval->high, measure->unit)));
  else if (measure->spread > 0 && measure->value != 0)
    text += fmt::format(" <span class='soft small'>±{:.2g}%</span>",
                        100 * measure->spread / std::abs(measure->value));
  return fmt::format("<td class='number'>{}</td>", text);
}

// One table per benchmark; its columns are the metrics of that benchmark.
std::string benchmark_table(const std::vector<const ResultGroup*>& groups) {
  std::vector<const BenchResult*> members;
  for (const ResultGroup* group : groups)
    members.insert(members.end(), group->members.begin(), group->members.end());
  const auto names = distinct_names(
      members, [](const auto* r) -> auto& { return r->metrics; });
  if (names.empty()) return "";
  const bool compared =
      std::any_of(groups.begin(), groups.end(), [](auto* g) { return g->ours() && g->peer(); });

  std::string html = fmt::format(
      "<div class='panel'><h3>{}</h3><div class='scroll'><table{}><thead><tr><th>name</th>"
      "<th>program</th>",
      safe(groups.front()->benchmark), names.size() > kFewColumns ? " class='wide'" : "");
  if (compared) html += "<th class='cell-bar'></th>";
  for (const auto& name : names)
    html += fmt::format("<th class='number'>{}</th>", safe(display_name(name)));
  if (compared) html += "<th class='number'>times peer</th>";
  html += "</tr></thead><tbody>\n";
  for (const ResultGroup* group : groups) {
    for (const BenchResult* result : group->members) {
      html += result == group->members.back() ? "<tr>" : "<tr class='inner'>";
      if (result == group->members.front())
        html += fmt::format("<td class='name group{}' rowspan='{}'>{}</td>",
                            group == groups.back() ? " last" : "", group->members.size(),
                            safe(group->name));
      html += fmt::format("<td class='program'>{}</td>", safe(result->program));
      if (compared) html += cell_bar(*group, *result);
      for (const auto& name : names) html += measure_cell(find_named(result->metrics, name));
      if (compared)
        html += fmt::format("<td class='number'>{}</td>",
                            is_ours(*result) ? times_html(*result, group->peer()) : "");
      html += "</tr>\n";
    }
  }
  return html + "</tbody></table></div></div>\n";
}

}  // namespace

std::string benchmarks(const std::vector<ResultGroup>& groups) {
  std::vector<std::vector<const ResultGroup*>> kinds;
  for (const ResultGroup& group : groups) {
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) {
      return k.front()->benchmark == group.benchmark;
    });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), std::vector<const ResultGroup*>());
    kind->push_back(&group);
  }
  std::string html;
  for (const auto& kind : kinds) html += benchmark_table(kind);
  return html;
}

}  // namespace emblem::report_html_parts
