// Recommendations, verdicts, changes, published figures and the list of runs.
#include <fmt/format.h>

#include <algorithm>

#include "bench/report/html_parts.h"
#include "bench/report/verdicts.h"
#include "bench/result/result_table.h"
#include "emblem/error.h"

namespace emblem::report_html_parts {
namespace {

const char* class_of(Tone tone) {
  return tone == Tone::kGood ? "good" : tone == Tone::kBad ? "bad" : "soft";
}

std::string toned(Tone tone, std::string_view text) {
  return fmt::format("<span class='{}'>{}</span>", class_of(tone), safe(text));
}

std::string verdict_panel(const VerdictBlock& block) {
  std::string html = fmt::format(
      "<div class='panel'><div class='bar-head'><h3>{}</h3><span class='verdict {}'>{}</span>"
      "</div><p class='soft small'>{}{}{}</p>",
      safe(block.name), class_of(block.tone), safe(block.verdict), safe(block.runs),
      block.reason.empty() ? "" : ": ", safe(block.reason));
  if (!block.failures.empty()) {
    html += "<ul class='small failures'>";
    for (const std::string& failure : block.failures)
      html += fmt::format("<li>{}</li>", safe(failure));
    html += "</ul>";
  }
  if (block.rows.empty()) return html + "</div>\n";
  html +=
      "<div class='scroll'><table class='wraps'><thead><tr><th>metric</th><th "
      "class='number'>measured</th><th "
      "class='number'>baseline</th><th class='number'>difference</th><th "
      "class='number'>threshold</th></tr></thead><tbody>\n";
  for (const BaselineRow& row : block.rows)
    html += fmt::format(
        "<tr><td class='name'>{}</td><td class='number'>{}</td><td class='number'>{}</td><td "
        "class='number'>{}</td><td class='number'>{}</td></tr>\n",
        safe(row.metric), safe(row.measured), safe(row.baseline), toned(row.tone, row.difference),
        safe(row.margin));
  return html + "</tbody></table></div></div>\n";
}

std::string source_cell(const std::string& source) {
  if (!source.starts_with("https://"))
    return fmt::format("<td class='small'>{}</td>", safe(source));
  const std::string shown = source.substr(8);
  return fmt::format("<td class='small name'><a href='{}'>{}</a></td>", safe(source), safe(shown));
}

std::string reference_panel(const ReferenceTable& table) {
  std::string html = fmt::format("<div class='panel'><h3>{}</h3>", safe(table.title));
  if (!table.note.empty()) html += fmt::format("<p class='soft small'>{}</p>", safe(table.note));
  html += "<div class='scroll'><table><thead><tr><th>system</th><th>hardware</th><th>workload</th>";
  for (const auto& [name, unit] : table.metrics)
    html += fmt::format("<th class='number'>{}</th>", safe(display_name(name)));
  html += "<th>source</th></tr></thead><tbody>\n";
  for (const ReferenceFigure& figure : table.figures) {
    html += fmt::format("<tr><td class='name'>{}</td><td>{}</td><td>{}{}{}</td>",
                        safe(figure.system), safe(figure.hardware), safe(figure.workload),
                        figure.settings.empty() ? "" : ", ", safe(figure.settings));
    for (const auto& [name, unit] : table.metrics) {
      const double* value = find_named(figure.values, name);
      html += fmt::format("<td class='number'>{}</td>",
                          value == nullptr ? "" : safe(format_metric(*value, unit)));
    }
    html += source_cell(figure.source) + "</tr>\n";
  }
  return html + "</tbody></table></div></div>\n";
}

}  // namespace

std::string advice(const Report& report) {
  std::string html;
  for (const Advice& found : advice_of(report.results))
    html += fmt::format("<div class='panel'><h3>{}</h3><p>{}</p></div>\n", safe(found.of),
                        safe(found.text));
  return html;
}

std::string verdicts(const Report& report) {
  std::string html;
  for (const VerdictBlock& block : verdict_blocks(report.results)) html += verdict_panel(block);
  return html;
}

std::string changes(const Report& report) {
  const std::vector<ChangeRow> rows = change_rows(report.before, report.results);
  if (rows.empty()) return "";
  std::string html =
      "<div class='panel'><div class='scroll'><table "
      "class='wraps'><thead><tr><th>name</th><th>metric</th><th "
      "class='number'>before</th><th class='number'>after</th><th "
      "class='number'>change</th></tr></thead><tbody>\n";
  std::string shown;
  for (const ChangeRow& row : rows) {
    const std::string name = cat(row.benchmark, " ", row.name);
    html += fmt::format(
        "<tr><td class='name'>{}</td><td>{}</td><td class='number'>{}</td><td "
        "class='number'>{}</td><td class='number'>{}</td></tr>\n",
        name == shown ? "" : safe(name), safe(row.metric), safe(row.before), safe(row.after),
        toned(row.tone, row.change));
    shown = name;
  }
  return html + "</tbody></table></div></div>\n";
}

std::string published(const Report& report) {
  std::string html;
  for (const ReferenceTable& table : report.references) html += reference_panel(table);
  return html;
}

std::string runs(const Report& report) {
  std::string html;
  for (const BenchResult& result : report.results) {
    html += fmt::format("<details><summary>{} {} <span class='soft'>{}</span></summary><dl>",
                        safe(result.benchmark), safe(result.name), safe(result.program));
    const auto item = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) html += fmt::format("<dt>{}</dt><dd>{}</dd>", safe(name), safe(value));
    };
    item("date", result.date);
    item("machine", describe(result.machine));
    item("system", result.machine.os);
    item("compiler", result.machine.compiler);
    item("flags", result.machine.flags);
    item("driver", result.machine.driver);
    for (const auto& [name, setting] : result.settings)
      item(display_name(name), format_setting(setting));
    html += "</dl></details>\n";
  }
  return html.empty() ? "" : "<div class='panel'>" + html + "</div>\n";
}

}  // namespace emblem::report_html_parts
