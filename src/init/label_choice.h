// init/label_choice.h - how the values of the label column become 0 and 1.
#pragma once

#include <string>
#include <vector>

#include "init/sample.h"

namespace emblem {

struct LabelChoice {
  std::string positive;   // data_config.label_positive; "": the loader reads the values as they are
  bool is_guess = false;  // two texts, of which neither is known to mean 1
  double share = 0;       // of positive labels in the sample
  std::vector<std::string> warnings;  // a line each
};

// `wanted_positive`: the value that is 1, or "". Throws Error when the column does not hold two
// values, which says what to do.
LabelChoice choose_label(const ColumnProfile& label, const std::string& wanted_positive,
                         int64_t max_bad_rows);

// The Error for a missing --label: it lists the columns that could be it.
std::string missing_label_problem(const DataProfile& profile);

}  // namespace emblem
