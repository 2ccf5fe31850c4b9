#include "data/feature/fg/expression.h"

#include <algorithm>

#include "data/feature/fg/expression_functions.h"

namespace emblem {
namespace {

using Values = Expression::Values;

// Makes `values` fit for `size` numbers: one stays one, what is not there is `fill`.
void extend(std::vector<double>& values, size_t size, double fill) {
  if (values.size() != 1) values.resize(size, fill);
}

size_t common_size(std::span<const std::vector<double>> arguments) {
  size_t size = 1;
  for (const std::vector<double>& argument : arguments) size = std::max(size, argument.size());
  return size;
}

void call_of_one(double (*f)(double), std::vector<double>& x) {
  for (double& value : x) value = f(value);
}

// The result takes the place of the first argument.
template <class Function>
void combine(std::vector<double>& a, const std::vector<double>& b, size_t size, Function f) {
  if (a.size() == size && b.size() == size) {
    for (size_t i = 0; i < size; ++i) a[i] = f(a[i], b[i]);
  } else if (a.size() == size) {
    const double other = b[0];
    for (size_t i = 0; i < size; ++i) a[i] = f(a[i], other);
  } else {
    const double first = a[0];
    a.resize(size);
    for (size_t i = 0; i < size; ++i) a[i] = f(first, b[i]);
  }
}

void call_of_two(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
                 double fill) {
  const size_t size = common_size(arguments);
  for (std::vector<double>& argument : arguments) extend(argument, size, fill);
  std::vector<double>& a = arguments[0];
  const std::vector<double>& b = arguments[1];
  // What the compiler makes vector code of.
  const std::string_view name = function.name;
  if (name == "+") return combine(a, b, size, [](double x, double y) { return x + y; });
  if (name == "-") return combine(a, b, size, [](double x, double y) { return x - y; });
  if (name == "*") return combine(a, b, size, [](double x, double y) { return x * y; });
  if (name == "/") return combine(a, b, size, [](double x, double y) { return x / y; });
  combine(a, b, size, function.of_two);
}

void call_of_numbers(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
                     double fill) {
  const size_t size = common_size(arguments);
  for (std::vector<double>& argument : arguments) extend(argument, size, fill);
  std::vector<double> numbers(arguments.size());
  std::vector<double> result(size);
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < numbers.size(); ++k)
      numbers[k] = arguments[k][arguments[k].size() == 1 ? 0 : i];
    result[i] = function.of_numbers(numbers);
  }
  arguments[0] = std::move(result);
}

void call_of_vectors(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
                     double fill) {
  double result = 0;
  if (function.of_vector != nullptr) {
    result = function.of_vector(arguments[0]);
  } else {
    // Of vectors one number does not stand for several.
    const size_t size = common_size(arguments);
    for (std::vector<double>& argument : arguments) argument.resize(size, fill);
    result = function.of_vectors(arguments[0], arguments[1]);
  }
  arguments[0].assign(1, result);
}

void call(const ExpressionFunction& function, std::span<std::vector<double>> arguments,
          double fill) {
  if (function.is_of_vectors()) return call_of_vectors(function, arguments, fill);
  if (function.of_one != nullptr) return call_of_one(function.of_one, arguments[0]);
  if (function.of_two != nullptr) return call_of_two(function, arguments, fill);
  call_of_numbers(function, arguments, fill);
}

}  // namespace

Expression::Values Expression::evaluate(std::span<const Values> values, double fill,
                                        Workspace& workspace) const {
  if (workspace.size() < depth_) workspace.resize(depth_);
  size_t top = 0;
  for (const Node& node : nodes_) {
    switch (node.kind) {
      case Node::Kind::kConstant:
        workspace[top++].assign(1, node.constant);
        break;
      case Node::Kind::kVariable: {
        const Values& of = values[node.variable];
        if (of.empty())
          workspace[top++].assign(1, fill);
        else
          workspace[top++].assign(of.begin(), of.end());
        break;
      }
      case Node::Kind::kCall:
        top -= node.arguments;
        call(*node.function, {workspace.data() + top, node.arguments}, fill);
        ++top;
        break;
    }
  }
  return workspace[0];
}

}  // namespace emblem
