#include <fmt/format.h>

#include <algorithm>

#include "bench/load/serve_bench.h"
#include "bench/result/result_table.h"
#include "core/text/text.h"

namespace emblem {
namespace {

double metric(const BenchResult& result, const char* name) {
  const Measure* found = find_named(result.metrics, name);
  return found == nullptr ? 0 : found->value;
}

// The workload of a figure ends with its batch size: "..., batch 1024".
bool is_for_batch(const ReferenceFigure& figure, int64_t rows) {
  return figure.workload.ends_with(cat(", batch ", rows));
}

std::vector<std::string> measured_row(const BenchResult& result) {
  std::vector<std::string> row = {result.name,
                                  fmt::format("{:.0f}", metric(result, "requests_per_second")),
                                  format_count(metric(result, "rows_per_second"))};
  for (const char* name : {"p50", "p99"}) row.push_back(format_metric(metric(result, name), "s"));
  const double* infer = find_named(result.stages, "compute infer");
  row.push_back(infer == nullptr ? "-" : format_metric(*infer, "s"));
  row.push_back(fmt::format("{:.0f}", metric(result, "errors")));
  return row;
}

std::vector<std::string> published_row(const ReferenceFigure& figure) {
  const auto value = [&](const char* name, auto format) {
    const double* found = find_named(figure.values, name);
    return found == nullptr ? std::string("-") : format(*found);
  };
  const auto time = [](double seconds) { return format_metric(seconds, "s"); };
  return {cat("  ", figure.system, " (", figure.hardware, ")"),
          "-",
          value("rows_per_second", format_count),
          value("p50", time),
          value("p99", time),
          value("compute_infer", time),
          ""};
}

std::string stages_text(const BenchResult& result) {
  std::string text =
      fmt::format("{}: mean {}", result.name, format_metric(metric(result, "mean"), "s"));
  for (const char* name : {"p99.9", "max"})
    text += fmt::format("; {} {}", name, format_metric(metric(result, name), "s"));
  for (const auto& [name, seconds] : result.stages)
    text += fmt::format("; {} {}", name, format_metric(seconds, "s"));
  if (result.stages.empty()) text += "; the server has no statistics";
  const double batch = metric(result, "server_rows_per_batch");
  if (batch > 0) text += fmt::format("; {:.1f} rows per batch", batch);
  if (find_named(result.metrics, "send_lag_p99") != nullptr)
    text +=
        fmt::format("; sent late by {} at p99", format_metric(metric(result, "send_lag_p99"), "s"));
  const Setting* stable = find_named(result.settings, "stable");
  if (stable != nullptr && !std::get<bool>(*stable)) text += "; NOT STABLE";
  const Setting* errors = find_named(result.settings, "errors_by_kind");
  if (errors != nullptr) {
    for (const std::string& kind : std::get<std::vector<std::string>>(*errors))
      text += "; error " + kind;
  }
  return "\n" + wrap_text("", text, 2);
}

}  // namespace

std::string serve_report(const std::vector<BenchResult>& results,
                         const std::vector<ReferenceTable>& published) {
  std::vector<std::vector<std::string>> rows = {
      {"load", "requests/s", "rows/s", "p50", "p99", "infer", "errors"}};
  for (const BenchResult& result : results) {
    rows.push_back(measured_row(result));
    const Setting* setting = find_named(result.settings, "rows");
    const int64_t batch = setting == nullptr ? 0 : std::get<int64_t>(*setting);
    for (const ReferenceTable& table : published) {
      for (const ReferenceFigure& figure : table.figures) {
        if (is_for_batch(figure, batch)) rows.push_back(published_row(figure));
      }
    }
  }
  std::string text = align_columns(rows);
  for (const BenchResult& result : results) text += stages_text(result);
  return text;
}

}  // namespace emblem
