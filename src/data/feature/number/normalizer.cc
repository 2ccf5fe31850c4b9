#include "data/feature/number/normalizer.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>
#include <span>
#include <vector>

#include "core/math/finite.h"
#include "core/text/text.h"
#include "data/feature/number/fast_log.h"
#include "data/format/decoder.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

[[noreturn]] void reject(const std::string& feature, const std::string& text,
                         const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("feature ", feature, ": normalizer ", in_quotes(text), ": ", why,
                  " (expected method=log1p; method=log,offset=3; "
                  "method=zscore,mean=0,standard_deviation=1; "
                  "method=minmax,min=0,max=1; method=log10,threshold=1e-10,default=-10; or "
                  "method=expression,expr=log(x+3))"));
}

// "a=1,b=2" as a map.
class Settings {
 public:
  // An expression may have commas; it is the last setting.
  Settings(const std::string& feature, const std::string& text) : feature_(feature), text_(text) {
    const size_t expression = text.find("expr=");
    if (expression != std::string::npos) values_["expr"] = trim(text.substr(expression + 5));
    const std::string rest = text.substr(0, expression);
    for (const std::string& part : split(trim_commas(rest), ',')) {
      const size_t equals = part.find('=');
      if (equals == std::string::npos) reject(feature, text, cat(in_quotes(part), " has no value"));
      values_[std::string(trim(part.substr(0, equals)))] = trim(part.substr(equals + 1));
    }
  }

  std::string take(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end()) reject(feature_, text_, cat(key, " is missing"));
    std::string value = found->second;
    values_.erase(found);
    return value;
  }

  float take_number(const std::string& key, float otherwise) {
    if (values_.count(key) == 0) return otherwise;
    return take_number(key);
  }

  float take_number(const std::string& key) {
    const std::string text = take(key);
    float value = 0;
    if (!parse_float(text, value) || std::isnan(value)) {
      reject(feature_, text_, cat(key, " is ", in_quotes(text), ", not a number"));
    }
    return value;
  }

  void require_empty() const {
    if (!values_.empty())
      reject(feature_, text_, cat("unknown setting ", in_quotes(values_.begin()->first)));
  }

 private:
  static std::string_view trim_commas(std::string_view text) {
    text = trim(text);
    return text.ends_with(',') ? text.substr(0, text.size() - 1) : text;
  }

  const std::string& feature_;
  const std::string& text_;
  std::map<std::string, std::string> values_;
};

// Adds and clamps: at least `least`, and finite, as an infinity in a file must not become NaN. A
// loop of its own, and by value instead of with std::max: else the compiler finds no vector code
// for the logarithms.
void add_and_clamp(float* values, int64_t count, float added, float least) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[i] + added;
    const float raised = value > least ? value : least;
    values[i] = raised < FLT_MAX ? raised : FLT_MAX;
  }
}

// The offset of "log(x)", "log(x+N)", "log(x-N)", "log(N+x)"; false for anything else.
bool parse_log_expression(std::string expression, float& offset) {
  std::erase(expression, ' ');
  if (!expression.starts_with("log(") || !expression.ends_with(")")) return false;
  std::string inner = expression.substr(4, expression.size() - 5);
  if (inner.ends_with("+x")) inner = cat("x+", inner.substr(0, inner.size() - 2));
  if (!inner.starts_with("x")) return false;
  inner.erase(0, 1);
  if (inner.empty()) {
    offset = 0;
    return true;
  }
  return (inner[0] == '+' || inner[0] == '-') && parse_float(inner, offset) && !std::isnan(offset);
}

void shift_and_scale(float* values, int64_t count, float subtracted, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] = (values[i] - subtracted) * factor;
}

void evaluate(const Expression& expression, float* values, int64_t count) {
  constexpr int64_t kTile = 256;
  double tile[kTile];
  Expression::Workspace workspace;
  for (int64_t begin = 0; begin < count; begin += kTile, values += kTile) {
    const auto size = static_cast<size_t>(std::min(kTile, count - begin));
    std::copy_n(values, size, tile);
    const Expression::Values x[] = {{tile, size}};
    const Expression::Values results = expression.evaluate(x, kMissing, workspace);
    for (size_t i = 0; i < size; ++i) {
      const auto result = static_cast<float>(results[results.size() == 1 ? 0 : i]);
      values[i] = std::isfinite(result) ? result : kMissing;
    }
  }
}

}  // namespace

Normalizer Normalizer::parse(const std::string& text, const std::string& feature) {
  Normalizer normalizer;
  if (text.empty()) return normalizer;
  Settings settings(feature, text);
  const std::string method = settings.take("method");
  if (method == "log1p") {
    normalizer.method_ = Method::kLog1p;
    normalizer.a_ = settings.take_number("mean", 0);
    const float deviation = settings.take_number("standard_deviation", 1);
    if (!(deviation > 0)) reject(feature, text, "standard_deviation must be above 0");
    normalizer.b_ = 1.0f / deviation;
    normalizer.limit_ = settings.take_number("limit", 0);
  } else if (method == "log") {
    normalizer.method_ = Method::kLog;
    normalizer.a_ = settings.take_number("offset", 0);
  } else if (method == "zscore") {
    normalizer.method_ = Method::kLinear;
    normalizer.a_ = settings.take_number("mean");
    const float deviation = settings.take_number("standard_deviation");
    if (!(deviation > 0)) reject(feature, text, "standard_deviation must be above 0");
    normalizer.b_ = 1.0f / deviation;
    normalizer.limit_ = settings.take_number("limit", 0);
  } else if (method == "minmax") {
    normalizer.method_ = Method::kLinear;
    normalizer.a_ = settings.take_number("min");
    const float max = settings.take_number("max");
    if (!(max > normalizer.a_)) reject(feature, text, "max must be above min");
    normalizer.b_ = 1.0f / (max - normalizer.a_);
  } else if (method == "log10") {
    normalizer.method_ = Method::kLog10;
    normalizer.a_ = settings.take_number("threshold", 1e-10f);
    normalizer.b_ = settings.take_number("default", -10);
  } else if (method == "expression") {
    const std::string expression = settings.take("expr");
    if (expression == "log1p(x)") {
      normalizer.method_ = Method::kLog1p;
    } else if (parse_log_expression(expression, normalizer.a_)) {
      normalizer.method_ = Method::kLog;
    } else {
      normalizer.method_ = Method::kExpression;
      const std::string variables[] = {"x"};
      normalizer.expression_ = std::make_shared<Expression>(Expression::parse(
          expression, variables, cat("feature \"", feature, "\": normalizer expression")));
      if (normalizer.expression_->has_vector_functions())
        reject(feature, text, "functions of vectors are not for single numbers");
    }
  } else {
    reject(feature, text, cat("unknown method ", in_quotes(method)));
  }
  settings.require_empty();
  if (!(normalizer.limit_ >= 0)) reject(feature, text, "limit must be above 0");
  return normalizer;
}

void Normalizer::apply(float* values, int64_t count) const {
  const std::span all(values, static_cast<size_t>(count));
  if (is_identity() || are_finite(all)) return apply_to_finite(values, count);
  const std::vector<float> before(all.begin(), all.end());
  apply_to_finite(values, count);
  for (size_t i = 0; i < all.size(); ++i)
    if (std::isinf(before[i])) values[i] = before[i];
}

void Normalizer::apply_to_finite(float* values, int64_t count) const {
  const float a = a_, b = b_;
  switch (method_) {
    case Method::kNone:
      break;
    case Method::kExpression:
      evaluate(*expression_, values, count);
      break;
    case Method::kLog1p:
      add_and_clamp(values, count, 0, 0);
      for (int64_t i = 0; i < count; ++i) values[i] = fast_log1p(values[i]);
      if (a != 0 || b != 1) shift_and_scale(values, count, a, b);
      break;
    case Method::kLog:
      add_and_clamp(values, count, a, kSmallest);
      for (int64_t i = 0; i < count; ++i) values[i] = fast_log(values[i]);
      break;
    case Method::kLinear:
      shift_and_scale(values, count, a, b);
      break;
    case Method::kLog10:
      for (int64_t i = 0; i < count; ++i) {
        // FLT_MIN and FLT_MAX are the limits of fast_log.
        values[i] = values[i] > std::max(a, FLT_MIN)
                        ? fast_log(std::min(values[i], FLT_MAX)) * 0.434294481903251828f
                        : b;
      }
      break;
  }
  if (!(limit_ > 0)) return;
  const float limit = limit_;
  for (int64_t i = 0; i < count; ++i) {
    const float raised = values[i] > -limit ? values[i] : -limit;
    values[i] = raised < limit ? raised : limit;
  }
}

}  // namespace emblem
