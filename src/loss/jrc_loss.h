// loss/jrc_loss.h - a calibrated loss that also ranks within sessions; training computes it in
// nn/ops/loss/jrc_loss.h.
//
// For logits [rows, 2], l0 and l1, and a session of each row:
//   alpha * -log softmax(l)[y] + (1 - alpha) * softplus(others - l_y)
// where `others` is log(sum of e^(l_y)) over the rows of the session with the other label; without
// such rows the second part is 0. Labels are 0 or 1; others have a loss that is not a number.
#pragma once

#include <span>
#include <unordered_map>

#include "loss/formula.h"

namespace emblem::losses {

struct JrcLoss {
  static constexpr const char* kName = "jrc_loss";
  static constexpr HeadKind kHead = HeadKind::kClass;
  static constexpr int64_t kClasses = 2;

  float alpha = 0.5f;

  template <class Losses>
  static JrcLoss from(const Losses& losses) {
    return {losses.jrc_loss().alpha()};
  }
  template <class Losses>
  static const std::string& session(const Losses& losses) {
    return losses.jrc_loss().session_name();
  }
  void check(const std::string& path) const {
    EMBLEM_REQUIRE(alpha >= 0 && alpha <= 1, path, ".alpha is ", alpha, ", expected 0 to 1");
  }

  // out[row] = the loss of each row of a batch; logits are [rows, 2].
  void evaluated(std::span<const float> logits, std::span<const float> labels,
                 std::span<const int64_t> sessions_of, std::span<double> out) const {
    // By label: the sum over the session's rows of that label of e^(logit of the other label).
    struct Session {
      double others[2] = {0, 0};
    };
    std::unordered_map<int64_t, Session> sessions;
    const auto logit = [&](size_t row, size_t of) {
      return static_cast<double>(logits[row * 2 + of]);
    };
    const auto label_of = [&](size_t row) { return labels[row] != 0.0f ? size_t{1} : 0; };
    for (size_t row = 0; row < out.size(); ++row) {
      const size_t label = label_of(row);
      sessions[sessions_of[row]].others[label] += std::exp(logit(row, 1 - label));
    }
    for (size_t row = 0; row < out.size(); ++row) {
      const size_t label = label_of(row);
      const double others = sessions[sessions_of[row]].others[1 - label];
      const double ranking = std::log1p(others * std::exp(-logit(row, label)));
      out[row] = alpha * cross_entropy(logit(row, 1) - logit(row, 0), labels[row]) +
                 (1.0 - alpha) * ranking;
    }
  }
};

}  // namespace emblem::losses
