// data/feature/fg/operator.h - features that are computed from other columns: what TorchEasyRec's
// feature generator does before values are normalized and put into buckets.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/feature/features.h"
#include "data/format/block.h"

namespace emblem {

// Takes rows whose value does not fit, and why.
using ReportRow = std::function<void(int64_t row, std::string message)>;

// How an operator wants an input to be read from text.
struct FgInput {
  ColumnType type = ColumnType::kText;
  std::string separators;  // each of these characters parts the values of a row; "": one value
};

// One feature's values from its inputs. Made once; apply may run concurrently.
//
// Its output is what an id feature or a raw feature would read from a column: a missing value is an
// empty bag, an empty text, a set Column::missing or NaN, and default_value, normalizer, boundaries
// and buckets are applied afterwards.
class FgOperator {
 public:
  virtual ~FgOperator() = default;

  // One for each of FeatureSpec::inputs. A column may have another type, as outputs of features
  // do: integers and numbers are written as text where text is wanted, and text is parsed where
  // numbers are.
  const std::vector<FgInput>& inputs() const { return inputs_; }

  // kText: ids that are hashed or looked up in a vocabulary; kInt64: ids that are buckets already;
  // kFloat: numbers.
  ColumnType output() const { return output_; }

  // Overwrites `out`. inputs[i] is the column of FeatureSpec::inputs[i], or null when that is a
  // constant. Where one of them is a sequence, the operator is applied to its elements with the
  // values of the row from other columns, and `out` is a sequence of the same lengths.
  //
  // Reports rows whose inputs cannot be read, e.g. maps without keys; their values are missing.
  virtual void apply(std::span<const Column* const> inputs, int64_t rows, Column& out,
                     const ReportRow& report) const = 0;

 protected:
  std::vector<FgInput> inputs_;
  ColumnType output_ = ColumnType::kText;
};

// Null for id and raw features, which are their input. Throws Error when a setting is not valid,
// e.g. an expression cannot be parsed, or is not supported.
std::unique_ptr<FgOperator> make_operator(const FeatureSpec& feature);

// Positions in `features`, each after those of the features that it reads ("feature:x"). Throws
// Error that names the cycle when features read each other, and the nearest name when a feature
// does not exist.
std::vector<size_t> order_of_features(std::span<const FeatureSpec> features);

}  // namespace emblem
