// data/feature/fg/expression/expression.h - arithmetic on named numbers, as expr features and
// normalizers write it: "log(x+3)", "u_age == i_age ? 1 : 0", "dot(a, b) / len(a)".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

struct ExpressionFunction;

// Operators by precedence, lowest first: ?: (right to left), ||, &&, | (of integers), &, the
// comparisons == != < <= > >=, + -, * /, the signs - + !, ^ (power, right to left). Truth is 1 or
// 0; all but 0 is true. The constants are _pi and _e. Functions: see expression_functions.h.
//
// A value is a number or several of them. Operators and functions of numbers work number by number;
// one number goes with each of several. Functions of vectors make one number.
//
// Made once; evaluate may run concurrently.
class Expression {
 public:
  // Memory of evaluations, kept by the caller for the next one.
  using Workspace = std::vector<std::vector<double>>;
  using Values = std::span<const double>;

  // Throws Error that begins with `what` ("feature \"x\": expression") and names the position (from
  // 1) where `text` cannot be understood. Nesting is limited to kMaxDepth.
  static Expression parse(std::string_view text, std::span<const std::string> variables,
                          const std::string& what);
  static constexpr int kMaxDepth = 200;

  // `values` has those of each variable, in the order of parse(). Where two have several numbers
  // and not equally many, missing ones are `fill`; without any numbers the result is one `fill`.
  // The result is valid until the next evaluation with the same workspace.
  Values evaluate(std::span<const Values> values, double fill, Workspace& workspace) const;

  bool has_vector_functions() const { return has_vector_functions_; }
  // It has a meaning for missing values.
  bool has_isnan() const { return has_isnan_; }

 private:
  friend class ExpressionParser;

  struct Node {
    enum class Kind : uint8_t { kConstant, kVariable, kCall };
    Kind kind = Kind::kConstant;
    double constant = 0;
    uint32_t variable = 0;
    uint32_t arguments = 0;  // the results before it that a call takes
    const ExpressionFunction* function = nullptr;
  };

  std::vector<Node> nodes_;  // arguments before the call that takes them
  size_t depth_ = 0;         // results that are waiting at once, at most
  bool has_vector_functions_ = false;
  bool has_isnan_ = false;
};

}  // namespace emblem
