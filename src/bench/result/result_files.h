// bench/result/result_files.h - the input files of a report.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// A published figure (bench/reference/*.json) with its hardware and source.
struct ReferenceFigure {
  std::string system, hardware, workload, settings;
  Named<double> values;  // by metric
  std::string source;    // source of the publication, e.g. a URL
};

struct ReferenceTable {
  std::string name, title, note;
  Named<std::string> metrics;  // name -> unit
  std::vector<ReferenceFigure> figures;
};

ReferenceTable parse_reference(std::string_view json, const std::string& source);
ReferenceTable read_reference(const std::string& path);

// bench/reference in the folder `here`, or else in the nearest parent folder of the file `program`
// (builds are inside the source tree), or in share/emblem there (of an installation). "" when there
// is none.
std::string find_reference_folder(const std::string& here, const std::string& program);

// One argument of `emblem report`: a file of benchmark results; a .jsonl file of numbers by step,
// as training writes them; or a model folder with train_log.jsonl and train_eval_result.jsonl.
// Throws Error for anything else.
std::vector<BenchResult> read_report_input(const std::string& path);
// The files that it reads.
std::vector<std::string> report_input_files(const std::string& path);

// From the metadata of a synthetic data set (its file or folder): the best value that any model can
// reach, by metric.
Named<double> read_limits(const std::string& path);
std::string limits_file(const std::string& path);  // that it reads

// The distinct names of published tables (bench/reference) that the results refer to.
std::vector<std::string> references_of(const std::vector<BenchResult>& results);

// The published figures by workload: the first metric, the ratio of the best of `results` to it,
// and the system and hardware it was measured on. Empty when no result has that metric.
std::string published_rows(const std::vector<BenchResult>& results, const ReferenceTable& table);

// For tables of latency by batch size, whose settings are "batch N": one line for each pair of a
// result and a published figure of the same batch size, with the speedup. Results of streams (new
// keys in every batch, "-stream") are skipped: the published ones repeat one batch. Empty when no
// result has a latency.
std::string published_latencies(const std::vector<BenchResult>& results,
                                const ReferenceTable& table);

}  // namespace emblem
