// loss/losses.h - the list of losses.
#pragma once

#include <variant>

#include "loss/binary_cross_entropy.h"
#include "loss/binary_focal_loss.h"
#include "loss/jrc_loss.h"
#include "loss/l2_loss.h"
#include "loss/lambdarank_loss.h"
#include "loss/softmax_cross_entropy.h"

namespace emblem {

// A loss with its settings.
using AnyLoss = std::variant<losses::BinaryCrossEntropy,   //
                             losses::SoftmaxCrossEntropy,  //
                             losses::L2Loss,               //
                             losses::JrcLoss,              //
                             losses::BinaryFocalLoss,      //
                             losses::LambdaRankLoss>;

// Whether each row counts for itself.
template <class Loss>
inline constexpr bool is_of_rows = requires(const Loss& loss, float (*x)(int64_t)) {
  loss.value(x, int64_t{1}, 0.0f);
};

inline const char* name_of(const AnyLoss& loss) {
  return std::visit([](const auto& one) { return one.kName; }, loss);
}

inline HeadKind head_of(const AnyLoss& loss) {
  return std::visit([](const auto& one) { return one.kHead; }, loss);
}

// HeadKind::kClass: the number of classes that a loss needs; 0: two or more.
inline int64_t classes_of(const AnyLoss& loss) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.kClasses; })
          return one.kClasses;
        else
          return int64_t{0};
      },
      loss);
}

}  // namespace emblem
