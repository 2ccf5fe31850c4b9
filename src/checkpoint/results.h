// checkpoint/results.h - numbers of a run by step, one JSON line each: train_eval_result.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emblem {

struct ResultLine {
  int64_t step = 0;
  int64_t epoch = 0;
  std::map<std::string, double> values;  // NaN where undefined (null in the file)
};

// Appends lines {"global_step":n,"epoch":e,"auc":...} with names sorted. Steps only grow in the
// file and none is there twice. Thread-compatible.
class Results {
 public:
  // Drops the lines of steps beyond `step`, where the run goes on (0: a new run), and lines that a
  // killed process left incomplete.
  Results(std::string path, int64_t step);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Hands the line to the system before it returns; throws Error when it cannot be written. Lines
  // of this step or later ones are replaced.
  void append(int64_t step, int64_t epoch, const std::map<std::string, double>& values);

 private:
  void open();
  void keep_lines_up_to(int64_t step);

  std::string path_;
  int descriptor_ = -1;
  int64_t last_step_ = -1;
};

// All complete lines of a file that Results wrote; empty when there is no such file.
std::vector<ResultLine> read_results(const std::string& path);

}  // namespace emblem
