// data/feature/fg/expression/expression_functions.h - what an expression can compute.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

using ExpressionValues = std::span<const double>;

// One of three kinds: of one or two numbers (loops over them are in Expression::evaluate), of any
// numbers, or of vectors.
struct ExpressionFunction {
  std::string_view name;
  int least_arguments = 1;
  int most_arguments = 1;  // -1: any number
  double (*of_one)(double) = nullptr;
  double (*of_two)(double, double) = nullptr;
  double (*of_numbers)(ExpressionValues) = nullptr;
  double (*of_vector)(ExpressionValues) = nullptr;
  double (*of_vectors)(ExpressionValues, ExpressionValues) = nullptr;

  bool is_of_vectors() const { return of_vector != nullptr || of_vectors != nullptr; }
};

// Functions of numbers: isnan sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh log2
// log10 log ln log1p exp sqrt sign abs rint (half to even) floor ceil trunc round (half away
// from 0) roundp(x, digits) mod sigmoid min max sum avg; sphere_dist and haversine(lng1, lat1,
// lng2, lat2) in km. Functions of vectors: len l2_norm squared_norm dot euclid_dist corr std_dev
// variance (divided by n) pop_std_dev pop_variance (by n - 1, as TorchEasyRec names them)
// reduce_min reduce_max reduce_sum reduce_mean reduce_prod. Null when there is no such function.
const ExpressionFunction* find_function(std::string_view name);
std::vector<std::string> function_names();

// "+", "==", "?:", "neg" and the like: those that are written as operators.
const ExpressionFunction* find_operator(std::string_view name);

}  // namespace emblem
