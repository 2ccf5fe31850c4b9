#include <cmath>
#include <map>

#include "data/feature/fg/cell_operator.h"
#include "data/feature/fg/key_values.h"

namespace emblem {
namespace {

// The sum over common keys of the products of their weights. A key without weight has weight 1.
class KvDotProductOperator final : public CellOperator {
 public:
  explicit KvDotProductOperator(const FeatureSpec& feature)
      : CellOperator(feature, inputs_of(feature), ColumnType::kFloat),
        default_is_zero_(feature.config.kv_dot_product().default_value().empty()) {
    EMBLEM_REQUIRE(!feature.config.kv_dot_product().has_kv_delimiter(), title(),
                   ": kv_delimiter is not supported; weights follow their key after \":\"");
  }

 private:
  // By key, in an order that does not depend on other cells, so that sums do not either.
  using Weights = std::map<std::string, double, std::less<>>;

  static std::vector<FgInput> inputs_of(const FeatureSpec& feature) {
    return std::vector<FgInput>(2,
                                {ColumnType::kText, feature.config.kv_dot_product().separator()});
  }

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    Weights query, document;
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      std::string problem;
      read(inputs[0], cell, query, problem);
      read(inputs[1], cell, document, problem);
      if (!problem.empty())
        reject(cells.row_of(cell), out, report, problem);
      else if (!query.empty() && !document.empty())
        out.add(static_cast<float>(product_of(query, document)));
      else if (default_is_zero_)
        out.add(0.0f);
      out.end_cell();
    }
  }

  static void read(const CellReader& input, int64_t cell, Weights& weights, std::string& problem) {
    weights.clear();
    const ValueRange range = input.values(cell);
    std::string buffer;
    for (size_t at = range.begin; at < range.end && problem.empty(); ++at) {
      const std::string_view text = input.text(at, buffer);
      if (text.empty()) continue;
      std::string_view key = text, weight;
      float number = 1.0f;
      if (!input.column().weights.empty())
        number = input.column().weights[at];
      else if (split_pair(text, ':', key, weight) && !parse_float(weight, number))
        problem = cat(in_quotes(text), " has a weight that is not a number");
      if (std::isnan(number)) number = 1.0f;
      weights[std::string(key)] += static_cast<double>(number);
    }
  }

  static double product_of(const Weights& query, const Weights& document) {
    double sum = 0;
    for (const auto& [key, weight] : query) {
      const auto found = document.find(key);
      if (found != document.end()) sum += weight * found->second;
    }
    return sum;
  }

  bool default_is_zero_;
};

}  // namespace

std::unique_ptr<FgOperator> make_kv_dot_product(const FeatureSpec& feature) {
  return std::make_unique<KvDotProductOperator>(feature);
}

}  // namespace emblem
