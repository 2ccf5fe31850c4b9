#include <algorithm>

#include "data/feature/fg/cell_operator.h"

namespace emblem {
namespace {

// False when the text is neither.
bool parse_truth(std::string_view text, bool& value) {
  float number = 0;
  if (text == "true" || text == "True" || text == "TRUE") {
    value = true;
  } else if (text.empty() || text == "false" || text == "False" || text == "FALSE") {
    value = false;
  } else if (parse_float(text, number)) {
    value = number != 0.0f;
  } else {
    return false;
  }
  return true;
}

// The values of the first field where the second is true. Values after the end of the mask are
// dropped.
class BoolMaskOperator final : public CellOperator {
 public:
  explicit BoolMaskOperator(const FeatureSpec& feature)
      : CellOperator(feature, inputs_of(feature),
                     feature.config.bool_mask_feature().has_num_buckets() ? ColumnType::kInt64
                                                                          : ColumnType::kText) {}

 private:
  static std::vector<FgInput> inputs_of(const FeatureSpec& feature) {
    const config::BoolMaskFeature& mask = feature.config.bool_mask_feature();
    EMBLEM_REQUIRE(mask.expression_size() == 2, "feature \"", feature.name, "\": expression has ",
                   mask.expression_size(), " fields, expected 2: values and their mask");
    return std::vector<FgInput>(2, {ColumnType::kText, mask.separator()});
  }

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      add_values(inputs, cell, cells.row_of(cell), out, report);
      out.end_cell();
    }
  }

  void add_values(std::span<const CellReader> inputs, int64_t cell, int64_t row, CellWriter& out,
                  const ReportRow& report) const {
    const ValueRange values = inputs[0].values(cell);
    const ValueRange masks = inputs[1].values(cell);
    std::string buffer;
    for (size_t i = 0; i < std::min(values.size(), masks.size()); ++i) {
      bool keep = false;
      const std::string_view mask = inputs[1].text(masks.begin + i, buffer);
      if (!parse_truth(mask, keep))
        return reject(row, out, report, "the mask has ", in_quotes(mask),
                      ", expected true, false, 1 or 0");
      if (!keep) continue;
      const std::string_view value = inputs[0].text(values.begin + i, buffer);
      if (!value.empty() && !out.add_id(value))
        return reject(row, out, report, in_quotes(value),
                      " is not an integer, which num_buckets expects");
    }
  }
};

}  // namespace

std::unique_ptr<FgOperator> make_bool_mask(const FeatureSpec& feature) {
  return std::make_unique<BoolMaskOperator>(feature);
}

}  // namespace emblem
