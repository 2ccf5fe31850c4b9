// data/feature/number/normalizer.h - what RawFeature.normalizer does to numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/feature/fg/expression/expression.h"

namespace emblem {

// Logarithms never see what they are not defined for: log1p takes negative numbers for 0, log takes
// x + offset below kSmallest for kSmallest.
class Normalizer {
 public:
  static constexpr float kSmallest = 1e-6f;

  // "" (none), "method=log1p", "method=log,offset=3", "method=zscore,mean=M,standard_deviation=S",
  // "method=minmax,min=A,max=B", "method=log10,threshold=T,default=D", and
  // "method=expression,expr=E" with an Expression of x; log(x), log(x+N) and log1p(x) are those
  // above. log1p takes mean and standard_deviation, too; with them and with zscore, limit=L keeps
  // values between -L and L. Throws Error that names `feature` and lists the methods.
  static Normalizer parse(const std::string& text, const std::string& feature);

  bool is_identity() const { return method_ == Method::kNone; }

  // In place; no value may be NaN. One that an expression makes no finite number of becomes NaN.
  // Infinite numbers stay as they are with any method.
  void apply(float* values, int64_t count) const;

 private:
  void apply_to_finite(float* values, int64_t count) const;

  enum class Method { kNone, kLog1p, kLog, kLinear, kLog10, kExpression };
  Method method_ = Method::kNone;
  float a_ = 0;      // log: the offset; linear, log1p: subtracted first; log10: the threshold
  float b_ = 1;      // linear: multiplied then; log10: for what is not above the threshold
  float limit_ = 0;  // linear, log1p: of the magnitude; 0: none
  std::shared_ptr<const Expression> expression_;
};

}  // namespace emblem
