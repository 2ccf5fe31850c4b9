// bench/report/html_parts.h - the sections of an HTML report, empty if there is nothing to show.
// Text from files is escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/report/groups.h"
#include "bench/report/report.h"
#include "bench/report/svg_line_chart.h"

namespace emblem {
// The style sheet of a report, for light and dark themes, phones and printing.
extern const char kReportStyle[];
}  // namespace emblem

namespace emblem::report_html_parts {

std::string safe(std::string_view text);
std::string describe(const Machine& machine);
// "2.50x", green if above 1.
std::string times_html(const BenchResult& ours, const BenchResult* peer);
// A chart with its caption and, for several lines, a legend.
std::string figure(const LineChart& chart, std::string_view caption);
std::string figure(const std::string& svg, std::string_view caption);

std::string advice(const Report& report);
std::string verdicts(const Report& report);
std::string changes(const Report& report);
std::string benchmarks(const std::vector<ResultGroup>& groups);
std::string stages(const std::vector<ResultGroup>& groups, const std::vector<std::string>& colors);
std::string shares(const Report& report);
std::string published(const Report& report);
std::string runs(const Report& report);

}  // namespace emblem::report_html_parts
