// bench/result/result_files.h - what a report is made of, read from files.
#pragma once

#include <string>
#include <vector>

#include "bench/result/result.h"

namespace emblem {

// Figures that others have published (bench/reference/*.json), each with its hardware and source.
struct ReferenceFigure {
  std::string system, hardware, workload, settings;
  Named<double> values;  // by metric
  std::string source;    // where it was published
};

struct ReferenceTable {
  std::string name, title, note;
  Named<std::string> metrics;  // name -> unit
  std::vector<ReferenceFigure> figures;
};

ReferenceTable parse_reference(std::string_view json, const std::string& source);
ReferenceTable read_reference(const std::string& path);

// bench/reference in the folder `here`, or in the nearest folder above the file `program`: a build
// lies in its source tree. "" when neither has one.
std::string find_reference_folder(const std::string& here, const std::string& program);

// One argument of `emblem report`: a file of benchmark results; a .jsonl file of numbers by step,
// as training writes them; or a model folder with train_log.jsonl and train_eval_result.jsonl.
// Throws Error for anything else.
std::vector<BenchResult> read_report_input(const std::string& path);
// The files that it reads.
std::vector<std::string> report_input_files(const std::string& path);

// From the metadata of a synthesized data set (its file or folder): the best that any model can
// reach, by metric.
Named<double> read_limits(const std::string& path);
std::string limits_file(const std::string& path);  // that it reads

}  // namespace emblem
