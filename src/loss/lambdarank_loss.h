// loss/lambdarank_loss.h - a loss that orders the rows of a session by their labels, most of all
// where it changes the session's NDCG (LambdaRank).
//
// For a score of each row, labels of 0 or more and a session of each row: the loss of row i is
//   sum over rows j of its session with a lower label: w(i, j) * softplus(score j - score i)
// where w(i, j) is by how much the NDCG of the session changes if i and j swap their ranks. The
// gain of a row is its label, as in the metric ndcg_at_k. Ranks are those of the scores; among
// equal ones the earlier row comes first. w counts as a constant in derivatives. A negative label,
// or one that is not finite, makes the loss of its session not a number.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "loss/formula.h"

namespace emblem::losses {

// The share of its gain that a row of this rank, from 0, counts for.
EMBLEM_HD inline float rank_discount(int64_t rank) {
  return 1.0f / log2f(static_cast<float>(rank) + 2.0f);
}

// A row among those of its session.
struct RankedRow {
  float score = 0.0f, label = 0.0f, discount = 0.0f;

  // w without the division by the best possible gain; this row has the higher label.
  EMBLEM_HD float weight_over(const RankedRow& lower) const {
    return (label - lower.label) * fabsf(discount - lower.discount);
  }
  EMBLEM_HD double loss_over(const RankedRow& lower) const {
    return weight_over(lower) * cross_entropy(lower.score - score, 0.0);  // softplus
  }
  // By how much the loss falls as this row's score rises, and the other's falls.
  EMBLEM_HD float pull_over(const RankedRow& lower) const {
    return weight_over(lower) * sigmoid_inline(lower.score - score);
  }
};

struct LambdaRankLoss {
  static constexpr const char* kName = "lambdarank_loss";
  static constexpr HeadKind kHead = HeadKind::kNumber;

  template <class Losses>
  static LambdaRankLoss from(const Losses&) {
    return {};
  }
  template <class Losses>
  static const std::string& session(const Losses& losses) {
    return losses.lambdarank_loss().session_name();
  }
  void check(const std::string&) const {}

  // out[row] = the loss of each row of a batch.
  void evaluated(std::span<const float> scores, std::span<const float> labels,
                 std::span<const int64_t> sessions, std::span<double> out) const {
    for_each_session(scores, labels, sessions, [&](const Session& session) {
      for (size_t i = 0; i < session.rows.size(); ++i) {
        double sum = 0.0;
        for (const RankedRow& other : session.rows)
          if (session.rows[i].label > other.label) sum += session.rows[i].loss_over(other);
        out[session.at[i]] = sum * session.scale;
      }
    });
  }

  // out[row] = the derivative of the sum of all rows' losses, each times its weight, with respect
  // to the score of `row`.
  void slopes(std::span<const float> scores, std::span<const float> labels,
              std::span<const int64_t> sessions, std::span<const float> weights,
              std::span<float> out) const {
    for_each_session(scores, labels, sessions, [&](const Session& session) {
      const auto weight = [&](size_t i) { return weights[session.at[i]]; };
      for (size_t i = 0; i < session.rows.size(); ++i) {
        const RankedRow& row = session.rows[i];
        double sum = 0.0;
        for (size_t j = 0; j < session.rows.size(); ++j) {
          const RankedRow& other = session.rows[j];
          if (row.label > other.label) sum -= weight(i) * row.pull_over(other);
          if (row.label < other.label) sum += weight(j) * other.pull_over(row);
        }
        out[session.at[i]] = static_cast<float>(sum) * session.scale;
      }
    });
  }

 private:
  struct Session {
    std::vector<size_t> at;  // rows of the batch
    std::vector<RankedRow> rows;
    float scale = 0.0f;  // 1 / the best possible gain; 0 where all labels are 0
  };

  template <class Body>
  static void for_each_session(std::span<const float> scores, std::span<const float> labels,
                               std::span<const int64_t> sessions, const Body& body) {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return sessions[a] < sessions[b]; });
    Session session;
    for (size_t first = 0, last = 0; first < order.size(); first = last) {
      while (last < order.size() && sessions[order[last]] == sessions[order[first]]) ++last;
      session.at.assign(order.begin() + first, order.begin() + last);
      session.rows.clear();
      for (const size_t row : session.at) session.rows.push_back({scores[row], labels[row]});
      rank(session);
      body(session);
    }
  }

  static void rank(Session& session) {
    std::vector<size_t> order(session.rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // By a member, the highest first. What is not a number comes last; the loss is none, either.
    const auto sort_by = [&](float RankedRow::*member) {
      const auto key = [&](size_t i) {
        const float value = session.rows[i].*member;
        return std::isnan(value) ? -INFINITY : value;
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return key(a) > key(b); });
    };
    sort_by(&RankedRow::label);
    float best = 0.0f;
    for (size_t i = 0; i < order.size(); ++i) {
      const float label = session.rows[order[i]].label;
      best += label >= 0.0f ? label * rank_discount(static_cast<int64_t>(i)) : NAN;
    }
    session.scale = best == 0.0f ? 0.0f : 1.0f / best;
    std::sort(order.begin(), order.end());
    sort_by(&RankedRow::score);
    for (size_t i = 0; i < order.size(); ++i)
      session.rows[order[i]].discount = rank_discount(static_cast<int64_t>(i));
  }
};

}  // namespace emblem::losses
