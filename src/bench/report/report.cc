#include "bench/report/report.h"

#include <algorithm>
#include <filesystem>

#include "bench/report/history_charts.h"
#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/files/output_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

// Limits are properties of the training data: they apply to training runs, not to benchmarks.
void set_limits(const Named<double>& limits, std::vector<BenchResult>& results) {
  for (BenchResult& result : results) {
    if (result.benchmark != "training") continue;
    for (const auto& [name, value] : limits) result.settings.emplace_back("limit_" + name, value);
  }
}

std::vector<std::string> named_references(const std::vector<BenchResult>& results) {
  std::vector<std::string> names;
  for (const BenchResult& result : results) {
    const Setting* setting = find_named(result.settings, "references");
    if (setting == nullptr) continue;
    if (const auto* one = std::get_if<std::string>(setting)) names.push_back(*one);
    if (const auto* list = std::get_if<std::vector<std::string>>(setting))
      names.insert(names.end(), list->begin(), list->end());
  }
  return names;
}

template <class T>
void append(std::vector<T> items, std::vector<T>& to) {
  std::move(items.begin(), items.end(), std::back_inserter(to));
}

std::vector<std::string> files_read(const ReportRequest& request) {
  std::vector<std::string> files;
  for (const std::string& path : request.inputs) append(report_input_files(path), files);
  for (const std::string& path : request.before) append(report_input_files(path), files);
  if (!request.data.empty()) files.push_back(limits_file(request.data));
  return files;
}

}  // namespace

std::vector<std::string> write_report(const ReportRequest& request) {
  EMBLEM_REQUIRE(!request.inputs.empty(),
                 "a report needs at least one result file or model folder");
  const std::vector<std::string> inputs = files_read(request);
  refuse_input_as_output("--out", request.out, inputs);
  refuse_input_as_output("--markdown", request.markdown, inputs);
  Report report;
  report.title = request.title;
  for (const std::string& path : request.inputs) {
    if (fs::path(path).extension() == ".jsonl" && is_history(path))
      append(read_history(path), report.history);
    else
      append(read_report_input(path), report.results);
  }
  for (const std::string& path : request.before) append(read_report_input(path), report.before);
  EMBLEM_REQUIRE(!report.results.empty() || !report.history.empty(),
                 "the files given hold no result; expected benchmark or training results");
  if (!request.data.empty()) set_limits(read_limits(request.data), report.results);

  std::vector<std::string> names = request.references, missing;
  for (std::string& name : named_references(report.results)) names.push_back(std::move(name));
  std::vector<std::string> seen;
  for (const std::string& name : names) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    const fs::path file = fs::path(request.reference_folder) / (name + ".json");
    const bool asked_for = std::find(request.references.begin(), request.references.end(), name) !=
                           request.references.end();
    EMBLEM_REQUIRE(!asked_for || !request.reference_folder.empty(), "published figures \"", name,
                   "\" are requested, but there is no folder bench/reference here or above the "
                   "program; give their folder with --references");
    // Names come from result files: they must not point outside of the folder.
    const bool known =
        !request.reference_folder.empty() && file_name_problem(name).empty() && fs::exists(file);
    if (asked_for || known) {
      report.references.push_back(read_reference(file.string()));
    } else {
      missing.push_back(name);
    }
  }
  write_text_file_atomically(request.out, report_html(report));
  if (!request.markdown.empty())
    write_text_file_atomically(request.markdown, report_markdown(report));
  return missing;
}

}  // namespace emblem
