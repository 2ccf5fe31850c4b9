// bench/report/report.h - benchmark and training results as one page to read, print or send.
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
  std::vector<BenchResult> before;  // what `results` are compared with
  std::vector<HistoryEntry> history;
};

// One HTML page that needs nothing else: styles and charts are inside, no script, nothing is
// fetched.
std::string report_html(const Report& report);
std::string report_markdown(const Report& report);

struct ReportRequest {
  std::vector<std::string> inputs;  // see read_report_input; and histories, see is_history
  std::vector<std::string> before;  // results of an earlier state, see read_report_input
  std::string out;                  // HTML
  std::string markdown;             // empty: none
  std::string title = "Emblem report";
  std::string data;              // metadata of a synthesized data set, for limits; empty: none
  std::string reference_folder;  // find_reference_folder; empty: there is none
  std::vector<std::string> references;  // more tables than those that results name
};

// Reads, and writes the files. A reference that a result names but the folder lacks is left out and
// returned: a report must not fail because it was made elsewhere. Throws when one that was asked
// for is not there.
std::vector<std::string> write_report(const ReportRequest& request);

}  // namespace emblem
