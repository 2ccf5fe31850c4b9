// data/feature/feature_counts.h - what was changed in rows that are not bad, for one warning.
#pragma once

#include <cstdint>
#include <string>

namespace emblem {

struct FeatureCounts {
  int64_t cut_sequences = 0;  // longer than sequence_length
  // Sequences of another length than the first feature of their sequence.
  int64_t fitted_sequences = 0;
  int64_t ids_in_row_0 = 0;      // outside of their table (out_of_range_ids: ROW_0)
  int64_t infinite_numbers = 0;  // read as missing values
  int64_t missing_labels = 0;    // labels missing in rows that have others

  void add(const FeatureCounts& other) {
    cut_sequences += other.cut_sequences;
    fitted_sequences += other.fitted_sequences;
    ids_in_row_0 += other.ids_in_row_0;
    infinite_numbers += other.infinite_numbers;
    missing_labels += other.missing_labels;
  }
};

// What was changed, in words; "" when nothing was.
std::string changes_text(const FeatureCounts& counts);

}  // namespace emblem
