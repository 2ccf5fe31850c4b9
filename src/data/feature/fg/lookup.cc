#include <cmath>

#include "data/feature/fg/cell_operator.h"
#include "data/feature/fg/combiner.h"
#include "data/feature/fg/discrete.h"
#include "data/feature/fg/key_values.h"

namespace emblem {
namespace {

// The values that a map has for keys: ids, combined numbers, or value_dim numbers in one text.
class LookupOperator final : public CellOperator {
 public:
  explicit LookupOperator(const FeatureSpec& feature)
      : CellOperator(feature, inputs_of(feature), output_of(feature.config.lookup_feature())),
        need_key_(feature.config.lookup_feature().need_key()),
        value_dim_(feature.config.lookup_feature().value_dim()),
        value_separator_(feature.config.lookup_feature().value_separator()),
        combiner_(parse_combiner(feature.config.lookup_feature().combiner(), feature.name)) {
    EMBLEM_REQUIRE(value_dim_ <= 1 || !value_separator_.empty(), title(),
                   ": value_separator is empty, which cannot separate value_dim ", value_dim_,
                   " numbers");
  }

 private:
  static constexpr char kMapSeparator[] = "\x1d";

  static std::vector<FgInput> inputs_of(const FeatureSpec& feature) {
    const config::LookupFeature& lookup = feature.config.lookup_feature();
    return {{ColumnType::kText, kMapSeparator}, {ColumnType::kText, lookup.separator()}};
  }
  static ColumnType output_of(const config::LookupFeature& lookup) {
    const bool ids = (is_discrete(lookup) || lookup.need_key()) && lookup.value_dim() <= 1;
    return ids ? output_of_ids(lookup) : ColumnType::kFloat;
  }

  bool is_read_once(size_t input) const override { return input == 0; }

  void compute(std::span<const CellReader> inputs, const Cells& cells, CellWriter& out,
               const ReportRow& report) const override {
    KeyValues map;
    std::string problem;
    std::vector<double> numbers;
    for (int64_t cell = 0; cell < cells.count; ++cell) {
      if (!inputs[0].is_repeated(cell)) problem = map.read(inputs[0], cell);
      numbers.clear();
      if (problem.empty() && !map.empty()) look_up(inputs[1], cell, map, numbers, out, problem);
      if (!problem.empty()) reject(cells.row_of(cell), out, report, problem);
      if (problem.empty() && !numbers.empty()) add_numbers(numbers, out);
      out.end_cell();
    }
  }

  // Adds ids, or puts the numbers found into `numbers`.
  void look_up(const CellReader& keys, int64_t cell, const KeyValues& map,
               std::vector<double>& numbers, CellWriter& out, std::string& problem) const {
    const ValueRange range = keys.values(cell);
    std::string buffer, prefixed;
    for (size_t at = range.begin; at < range.end && problem.empty(); ++at) {
      const std::string_view key = keys.text(at, buffer);
      const std::string_view* value = map.find(key);
      if (value == nullptr || value->empty()) continue;
      if (value_dim_ > 1) return read_vector(*value, numbers, problem);
      if (output() == ColumnType::kFloat) {
        read_number(*value, numbers, problem);
      } else if (need_key_) {
        prefixed.assign(key).append("_").append(*value);
        add_id(prefixed, out, problem);
      } else {
        add_id(*value, out, problem);
      }
    }
  }

  static void add_id(std::string_view value, CellWriter& out, std::string& problem) {
    if (!out.add_id(value))
      problem = cat("the map has the value ", in_quotes(value),
                    ", which is not an integer as num_buckets expects");
  }

  static void read_number(std::string_view text, std::vector<double>& numbers,
                          std::string& problem) {
    float number = 0;
    if (!parse_float(text, number))
      problem = cat("the map has the value ", in_quotes(text), ", which is not a number");
    else if (!std::isnan(number))
      numbers.push_back(static_cast<double>(number));
  }

  void read_vector(std::string_view text, std::vector<double>& numbers,
                   std::string& problem) const {
    for (size_t begin = 0; begin <= text.size() && problem.empty();) {
      const size_t end = std::min(text.find(value_separator_, begin), text.size());
      read_number(text.substr(begin, end - begin), numbers, problem);
      begin = end + value_separator_.size();
    }
    if (problem.empty() && numbers.size() != value_dim_)
      problem = cat("the map has the value ", in_quotes(text), " with ", numbers.size(),
                    " numbers, expected value_dim ", value_dim_);
  }

  void add_numbers(std::span<const double> numbers, CellWriter& out) const {
    if (value_dim_ <= 1 && combiner_ != Combiner::kNone)
      return out.add(static_cast<float>(combine_values(combiner_, numbers)));
    for (const double number : numbers) out.add(static_cast<float>(number));
  }

  bool need_key_;
  size_t value_dim_;
  std::string value_separator_;
  Combiner combiner_;
};

}  // namespace

std::unique_ptr<FgOperator> make_lookup(const FeatureSpec& feature) {
  return std::make_unique<LookupOperator>(feature);
}

}  // namespace emblem
