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
  std::string source;    // of the publication, e.g. a URL
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

}  // namespace emblem
