#include <algorithm>

#include "data/feature/fg/cell_operator.h"

namespace emblem {
namespace {

// All combinations of the fields' values, joined by "_"; the first field varies slowest.
class ComboOperator final : public CellOperator {
 public:
  explicit ComboOperator(const FeatureSpec& feature)
      : CellOperator(feature, inputs_of(feature), ColumnType::kText) {}

 private:
  static std::vector<FgInput> inputs_of(const FeatureSpec& feature) {
    const config::ComboFeature& combo = feature.config.combo_feature();
    EMBLEM_REQUIRE(combo.expression_size() >= 2, "feature \"", feature.name, "\": expression has ",
                   combo.expression_size(), " fields, expected at least 2 to combine");
    return std::vector<FgInput>(static_cast<size_t>(combo.expression_size()),
                                {ColumnType::kText, combo.separator()});
  }

  // Limit of a row: few values make many combinations.
  static constexpr double kMostOfARow = 100'000;

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    std::string joined;
    double of_row = 0;
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      if (cell == 0 || cells.row_of(cell) != cells.row_of(cell - 1)) of_row = 0;
      const double count = combinations(inputs, cell);
      if (count > 1) of_row += count;  // long sequences are not the problem
      joined.clear();
      if (count <= 1 || of_row <= kMostOfARow)
        combine(inputs, cell, joined, out);
      else
        reject(cells.row_of(cell), out, report, "the values make ",
               static_cast<int64_t>(std::min(of_row, 1e18)), " combinations, expected at most ",
               static_cast<int64_t>(kMostOfARow));
      out.end_cell();
    }
  }

  static double combinations(std::span<const CellReader> inputs, int64_t cell) {
    double count = 1;
    for (const CellReader& input : inputs) count *= static_cast<double>(input.values(cell).size());
    return count;
  }

  // `joined` has the values of the fields before these. A field without values leaves no
  // combination.
  static void combine(std::span<const CellReader> inputs, int64_t cell, std::string& joined,
                      CellWriter& out) {
    if (inputs.empty()) return out.add(std::string_view(joined).substr(1));
    const ValueRange range = inputs[0].values(cell);
    const size_t length = joined.size();
    std::string buffer;
    for (size_t at = range.begin; at < range.end; ++at) {
      joined += '_';
      joined += inputs[0].text(at, buffer);
      combine(inputs.subspan(1), cell, joined, out);
      joined.resize(length);
    }
  }
};

}  // namespace

std::unique_ptr<FgOperator> make_combo(const FeatureSpec& feature) {
  return std::make_unique<ComboOperator>(feature);
}

}  // namespace emblem
