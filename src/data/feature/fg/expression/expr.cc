#include <cmath>

#include "data/feature/fg/cell_operator.h"
#include "data/feature/fg/expression/expression.h"

namespace emblem {
namespace {

constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();

// "user:age" -> "age".
std::vector<std::string> names_of(const config::ExprFeature& expr) {
  std::vector<std::string> names;
  for (const std::string& variable : expr.variables())
    names.push_back(variable.substr(variable.find(':') + 1));
  return names;
}

// An expression of numbers. A cell where a variable is missing has no value unless fill_missing
// says otherwise, or the expression asks isnan; neither has one where the result is not a number.
class ExprOperator final : public CellOperator {
 public:
  explicit ExprOperator(const FeatureSpec& feature)
      : CellOperator(feature, inputs_of(feature), ColumnType::kFloat),
        expression_(Expression::parse(feature.config.expr_feature().expression(),
                                      names_of(feature.config.expr_feature()),
                                      cat(title(), ": expression"))) {
    const config::ExprFeature& expr = feature.config.expr_feature();
    if (expr.has_fill_missing()) fill_ = static_cast<double>(expr.fill_missing());
    needs_all_ = !expr.has_fill_missing() && !expression_.has_isnan();
  }

 private:
  static std::vector<FgInput> inputs_of(const FeatureSpec& feature) {
    const config::ExprFeature& expr = feature.config.expr_feature();
    return std::vector<FgInput>(static_cast<size_t>(expr.variables_size()),
                                {ColumnType::kFloat, expr.separator()});
  }

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    std::vector<std::vector<double>> numbers(inputs.size());
    std::vector<Expression::Values> values(inputs.size());
    Expression::Workspace workspace;
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      bool is_complete = true;
      for (size_t i = 0; i < inputs.size() && is_complete; ++i) {
        if (!read(inputs[i], cell, numbers[i])) {
          reject(cells.row_of(cell), out, report, "a variable is text that is not a number");
          is_complete = false;
        }
        values[i] = numbers[i];
        if (numbers[i].empty() && needs_all_) is_complete = false;
      }
      if (is_complete) add(expression_.evaluate(values, fill_, workspace), out);
      out.end_cell();
    }
  }

  bool read(const CellReader& input, int64_t cell, std::vector<double>& numbers) const {
    const ValueRange range = input.values(cell);
    numbers.resize(range.size());
    for (size_t at = range.begin; at < range.end; ++at) {
      double& number = numbers[at - range.begin];
      if (!input.number(at, number)) return false;
      if (std::isnan(number)) number = fill_;
    }
    return true;
  }

  static void add(Expression::Values values, CellWriter& out) {
    for (const double value : values) {
      const auto number = static_cast<float>(value);
      out.add(std::isfinite(number) ? number : kMissing);
    }
  }

  Expression expression_;
  double fill_ = kMissingNumber;
  bool needs_all_ = true;
};

}  // namespace

std::unique_ptr<FgOperator> make_expr(const FeatureSpec& feature) {
  return std::make_unique<ExprOperator>(feature);
}

}  // namespace emblem
