// init/label_choice.h - what the label column is: two values, several classes, or a number.
#pragma once

#include <string>
#include <vector>

#include "init/sample.h"

namespace emblem {

enum class LabelTask { kBinary, kClasses, kNumber };

struct LabelChoice {
  LabelTask task = LabelTask::kBinary;
  std::string positive;   // kBinary: data_config.label_positive; "": values are read as they are
  bool is_guess = false;  // kBinary: two texts, of which neither is known to mean 1
  double share = 0;       // kBinary: of positive labels in the sample; kClasses: of the largest
  // kClasses: the values, in order; kBinary: those that are 0 and 1, where `positive` cannot say
  // it.
  std::vector<std::string> classes;
  double mean = 0, deviation = 1;     // kNumber
  std::vector<std::string> warnings;  // a line each
};

struct LabelWishes {
  std::string positive;  // the value that is 1; "": chosen
  std::string task;      // "binary", "classes", "number"; "": chosen by the values
  int64_t max_bad_rows = 0;
};

// Throws Error when the column cannot be learned as wished, or not at all, which says what to do.
LabelChoice choose_label(const ColumnProfile& label, const LabelWishes& wishes);

// The Error for a missing --label: it lists the columns that could be it.
std::string missing_label_problem(const DataProfile& profile);

}  // namespace emblem
