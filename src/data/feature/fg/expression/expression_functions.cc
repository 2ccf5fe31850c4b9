#include "data/feature/fg/expression/expression_functions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>

namespace emblem {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEarthRadiusKm = 6371.0;

double truth(bool value) { return value ? 1.0 : 0.0; }
double radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }

double sign(double x) { return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0)); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double isnan_of(double x) { return truth(std::isnan(x)); }

double round_to(double x, double digits) {
  const double scale = std::pow(10.0, std::trunc(digits));
  return std::round(x * scale) / scale;
}

// Numbers that are no 64 bit integers have no bits.
template <class Bits>
double of_bits(double a, double b, Bits bits) {
  constexpr double kLimit = 0x1p63;
  if (!(std::fabs(a) < kLimit && std::fabs(b) < kLimit)) return kNaN;
  return static_cast<double>(bits(static_cast<int64_t>(a), static_cast<int64_t>(b)));
}
double bit_or(double a, double b) {
  return of_bits(a, b, [](int64_t x, int64_t y) { return x | y; });
}
double bit_and(double a, double b) {
  return of_bits(a, b, [](int64_t x, int64_t y) { return x & y; });
}

double sum_of(ExpressionValues x) { return std::accumulate(x.begin(), x.end(), 0.0); }
double mean_of(ExpressionValues x) { return sum_of(x) / static_cast<double>(x.size()); }
double product_of(ExpressionValues x) {
  return std::accumulate(x.begin(), x.end(), 1.0, [](double a, double b) { return a * b; });
}
// NaN when one of them is.
double least_of(ExpressionValues x) {
  double least = x[0];
  for (const double value : x) least = std::isnan(value) || value < least ? value : least;
  return std::isnan(sum_of(x)) ? kNaN : least;
}
double greatest_of(ExpressionValues x) {
  double greatest = x[0];
  for (const double value : x) greatest = std::isnan(value) || value > greatest ? value : greatest;
  return std::isnan(sum_of(x)) ? kNaN : greatest;
}
double length_of(ExpressionValues x) { return static_cast<double>(x.size()); }

double squared_norm(ExpressionValues x) {
  return std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
}
double norm(ExpressionValues x) { return std::sqrt(squared_norm(x)); }
double dot(ExpressionValues a, ExpressionValues b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
double distance(ExpressionValues a, ExpressionValues b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}
double squared_deviations(ExpressionValues x) {
  const double mean = mean_of(x);
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return sum;
}
double variance(ExpressionValues x) {
  return squared_deviations(x) / static_cast<double>(x.size());
}
double pop_variance(ExpressionValues x) {
  return squared_deviations(x) / (static_cast<double>(x.size()) - 1.0);
}
double std_dev(ExpressionValues x) { return std::sqrt(variance(x)); }
double pop_std_dev(ExpressionValues x) { return std::sqrt(pop_variance(x)); }
double correlation(ExpressionValues a, ExpressionValues b) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double products = 0;
  for (size_t i = 0; i < a.size(); ++i) products += (a[i] - mean_a) * (b[i] - mean_b);
  return products / std::sqrt(squared_deviations(a) * squared_deviations(b));
}

// (lng1, lat1, lng2, lat2) in degrees.
double haversine(ExpressionValues at) {
  const double lat1 = radians(at[1]), lat2 = radians(at[3]);
  const double half_lat = std::sin((lat2 - lat1) / 2);
  const double half_lng = std::sin(radians(at[2] - at[0]) / 2);
  const double a = half_lat * half_lat + std::cos(lat1) * std::cos(lat2) * half_lng * half_lng;
  return 2 * kEarthRadiusKm * std::asin(std::sqrt(std::min(1.0, a)));
}
double sphere_distance(ExpressionValues at) {
  const double lat1 = radians(at[1]), lat2 = radians(at[3]);
  const double cosine = std::sin(lat1) * std::sin(lat2) +
                        std::cos(lat1) * std::cos(lat2) * std::cos(radians(at[2] - at[0]));
  return kEarthRadiusKm * std::acos(std::clamp(cosine, -1.0, 1.0));
}

using Function = ExpressionFunction;

constexpr Function of_one(std::string_view name, double (*f)(double)) {
  return {.name = name, .of_one = f};
}
constexpr Function of_two(std::string_view name, double (*f)(double, double)) {
  return {.name = name, .least_arguments = 2, .most_arguments = 2, .of_two = f};
}
constexpr Function of_numbers(std::string_view name, int least, int most,
                              double (*f)(ExpressionValues)) {
  return {.name = name, .least_arguments = least, .most_arguments = most, .of_numbers = f};
}
constexpr Function of_vector(std::string_view name, double (*f)(ExpressionValues)) {
  return {.name = name, .of_vector = f};
}
constexpr Function of_vectors(std::string_view name,
                              double (*f)(ExpressionValues, ExpressionValues)) {
  return {.name = name, .least_arguments = 2, .most_arguments = 2, .of_vectors = f};
}

const Function kFunctions[] = {
    of_one("isnan", isnan_of),
    of_one("sin", std::sin),
    of_one("cos", std::cos),
    of_one("tan", std::tan),
    of_one("asin", std::asin),
    of_one("acos", std::acos),
    of_one("atan", std::atan),
    of_one("sinh", std::sinh),
    of_one("cosh", std::cosh),
    of_one("tanh", std::tanh),
    of_one("asinh", std::asinh),
    of_one("acosh", std::acosh),
    of_one("atanh", std::atanh),
    of_one("log2", std::log2),
    of_one("log10", std::log10),
    of_one("log", std::log),
    of_one("ln", std::log),
    of_one("log1p", std::log1p),
    of_one("exp", std::exp),
    of_one("sqrt", std::sqrt),
    of_one("sign", sign),
    of_one("abs", std::fabs),
    of_one("rint", std::rint),
    of_one("floor", std::floor),
    of_one("ceil", std::ceil),
    of_one("trunc", std::trunc),
    of_one("round", std::round),
    of_two("roundp", round_to),
    of_two("mod", std::fmod),
    of_one("sigmoid", sigmoid),
    of_numbers("sphere_dist", 4, 4, sphere_distance),
    of_numbers("haversine", 4, 4, haversine),
    of_numbers("min", 1, -1, least_of),
    of_numbers("max", 1, -1, greatest_of),
    of_numbers("sum", 1, -1, sum_of),
    of_numbers("avg", 1, -1, mean_of),
    of_vector("len", length_of),
    of_vector("l2_norm", norm),
    of_vector("squared_norm", squared_norm),
    of_vectors("dot", dot),
    of_vectors("euclid_dist", distance),
    of_vectors("corr", correlation),
    of_vector("std_dev", std_dev),
    of_vector("pop_std_dev", pop_std_dev),
    of_vector("variance", variance),
    of_vector("pop_variance", pop_variance),
    of_vector("reduce_min", least_of),
    of_vector("reduce_max", greatest_of),
    of_vector("reduce_sum", sum_of),
    of_vector("reduce_mean", mean_of),
    of_vector("reduce_prod", product_of),
};

const Function kOperators[] = {
    of_two("||", [](double a, double b) { return truth(a != 0 || b != 0); }),
    of_two("&&", [](double a, double b) { return truth(a != 0 && b != 0); }),
    of_two("|", bit_or),
    of_two("&", bit_and),
    of_two("==", [](double a, double b) { return truth(a == b); }),
    of_two("!=", [](double a, double b) { return truth(a != b); }),
    of_two("<", [](double a, double b) { return truth(a < b); }),
    of_two("<=", [](double a, double b) { return truth(a <= b); }),
    of_two(">", [](double a, double b) { return truth(a > b); }),
    of_two(">=", [](double a, double b) { return truth(a >= b); }),
    of_two("+", [](double a, double b) { return a + b; }),
    of_two("-", [](double a, double b) { return a - b; }),
    of_two("*", [](double a, double b) { return a * b; }),
    of_two("/", [](double a, double b) { return a / b; }),
    of_two("^", std::pow),
    of_one("neg", [](double a) { return -a; }),
    of_one("!", [](double a) { return truth(a == 0); }),
    of_numbers("?:", 3, 3, [](ExpressionValues x) { return x[0] != 0 ? x[1] : x[2]; }),
};

const Function* find_in(std::span<const Function> functions, std::string_view name) {
  for (const Function& function : functions)
    if (function.name == name) return &function;
  return nullptr;
}

}  // namespace

const ExpressionFunction* find_function(std::string_view name) { return find_in(kFunctions, name); }
const ExpressionFunction* find_operator(std::string_view name) { return find_in(kOperators, name); }

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const Function& function : kFunctions) names.emplace_back(function.name);
  return names;
}

}  // namespace emblem
