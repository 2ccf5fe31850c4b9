// checkpoint/results.h - numbers of a run by step, one JSON line each: train_eval_result.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace emblem {

struct ResultLine {
  int64_t step = 0;
  int64_t epoch = 0;
  // Set in the last line of a run that ended with the weights of an earlier step: that step, whose
  // numbers these are. Such a line follows that of the last evaluation, which may be of the same
  // step, and is the result of the run.
  std::optional<int64_t> restored_step;
  std::map<std::string, double> values;  // NaN where undefined (null in the file)
};

// Appends lines {"global_step":n,"epoch":e,"auc":...} with names sorted. Steps ascend without
// duplicates. Thread-compatible.
class Results {
 public:
  // Drops the lines of steps after `step`, from which the run continues (0: a new run), lines that
  // a killed process left incomplete, and the final line of a run that restored earlier weights.
  Results(std::string path, int64_t step);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // Hands the line to the system before it returns; throws Error when it cannot be written. Lines
  // of this step or later ones are replaced.
  void append(int64_t step, int64_t epoch, const std::map<std::string, double>& values);
  // The final line of a run that restored the weights of `restored_step`.
  void append_restored(int64_t step, int64_t epoch, int64_t restored_step,
                       const std::map<std::string, double>& values);

 private:
  void open();
  void write(const ResultLine& line);
  void keep_lines_up_to(int64_t step);

  std::string path_;
  int descriptor_ = -1;
  int64_t last_step_ = -1;
};

// All complete lines of a file that Results wrote; empty when there is no such file.
std::vector<ResultLine> read_results(const std::string& path);

}  // namespace emblem
