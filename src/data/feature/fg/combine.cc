#include <cmath>
#include <unordered_map>

#include "data/feature/fg/cell_operator.h"
#include "data/feature/fg/combiner.h"

namespace emblem {
namespace {

// One number of all values of a cell: the numbers themselves, or those that value_map has for the
// words. Words that it does not have are skipped.
class CombineOperator final : public CellOperator {
 public:
  explicit CombineOperator(const FeatureSpec& feature)
      : CellOperator(feature, inputs_of(feature),
                     feature.config.combine_feature().has_num_buckets() ? ColumnType::kInt64
                                                                        : ColumnType::kFloat),
        combiner_(parse_combiner(feature.config.combine_feature().combiner(), feature.name)) {
    for (const auto& [word, number] : feature.config.combine_feature().value_map())
      value_map_.emplace(word, number);
  }

 private:
  static std::vector<FgInput> inputs_of(const FeatureSpec& feature) {
    const config::CombineFeature& combine = feature.config.combine_feature();
    const ColumnType type = combine.value_map().empty() ? ColumnType::kFloat : ColumnType::kText;
    return {{type, combine.separator()}};
  }

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    std::vector<double> numbers;
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      numbers.clear();
      if (read(inputs[0], cell, cells.row_of(cell), numbers, out, report) && !numbers.empty())
        add(combine_values(combiner_, numbers), out);
      out.end_cell();
    }
  }

  // A number that is too large for a bucket becomes -1, which is outside all tables.
  void add(double value, CellWriter& out) const {
    if (output() == ColumnType::kInt64)
      out.add(std::fabs(value) < 0x1p62 ? static_cast<int64_t>(value) : int64_t{-1});
    else
      out.add(static_cast<float>(value));
  }

  bool read(const CellReader& input, int64_t cell, int64_t row, std::vector<double>& numbers,
            CellWriter& out, const ReportRow& report) const {
    const ValueRange range = input.values(cell);
    std::string buffer;
    for (size_t at = range.begin; at < range.end; ++at) {
      double number = 0;
      if (!value_map_.empty()) {
        const auto found = value_map_.find(std::string(input.text(at, buffer)));
        if (found != value_map_.end()) numbers.push_back(static_cast<double>(found->second));
      } else if (!input.number(at, number)) {
        reject(row, out, report, in_quotes(input.text(at, buffer)), " is not a number");
        return false;
      } else if (!std::isnan(number)) {
        numbers.push_back(number);
      }
    }
    return true;
  }

  Combiner combiner_;
  std::unordered_map<std::string, float> value_map_;
};

}  // namespace

std::unique_ptr<FgOperator> make_combine(const FeatureSpec& feature) {
  return std::make_unique<CombineOperator>(feature);
}

}  // namespace emblem
