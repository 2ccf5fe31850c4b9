#include "data/feature/feature_counts.h"

#include "emblem/error.h"

namespace emblem {

std::string changes_text(const FeatureCounts& counts) {
  std::string text;
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) text += cat(text.empty() ? "" : "; ", count, what);
  };
  add(counts.cut_sequences, " sequences were longer than their sequence_length and were cut");
  add(counts.fitted_sequences,
      " sequences had another length than the first feature of their group and were cut or padded");
  add(counts.ids_in_row_0,
      " ids were outside of their tables and were read as row 0 (data_config.out_of_range_ids)");
  add(counts.infinite_numbers, " infinite numbers were read as missing values");
  add(counts.missing_labels, " labels were missing: their rows do not count for these labels");
  return text;
}

}  // namespace emblem
