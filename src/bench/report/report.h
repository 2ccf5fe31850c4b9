// bench/report/report.h - benchmark and training results as an HTML page and as Markdown.
#pragma once

#include <string>
#include <vector>

#include "bench/result/history.h"
#include "bench/result/result.h"
#include "bench/result/result_files.h"

namespace emblem {

struct Report {
  std::string title = "Emblem report";
  std::vector<BenchResult> results;
  std::vector<ReferenceTable> references;
  std::vector<BenchResult> before;  // earlier results that `results` are compared with
  std::vector<HistoryEntry> history;
};

// A self-contained HTML page: inline styles and SVG charts, no scripts, no external resources.
std::string report_html(const Report& report);
std::string report_markdown(const Report& report);

struct ReportRequest {
  std::vector<std::string> inputs;  // files for read_report_input, and histories (is_history)
  std::vector<std::string> before;  // earlier results, for read_report_input
  std::string out;                  // HTML
  std::string markdown;             // empty: none
  std::string title = "Emblem report";
  std::string data;                     // metadata of a synthetic data set, for limits; empty: none
  std::string reference_folder;         // find_reference_folder; empty: there is none
  std::vector<std::string> references;  // tables in addition to those that results name
};

// Reads the inputs and writes the report. Returns the references that a result names but the folder
// does not have; they are skipped, so that reports can be made outside of the source tree. Throws
// when one of `references` is missing.
std::vector<std::string> write_report(const ReportRequest& request);

}  // namespace emblem
