#include <algorithm>
#include <cmath>

#include "core/memory/host_vector.h"
#include "kernels/simd.h"
#include "nn/ops/loss/loss_sums.h"
#include "nn/ops/loss/ranking.h"

namespace emblem {
namespace {

constexpr int64_t kRankedRows = 64, kCandidates = 1024;  // of a tile of scores

Matrix<const float> rows_of(const Tensor& x, int64_t begin, int64_t end) {
  return {x.value() + begin * x.cols, end - begin, x.cols};
}

// A row's candidates so far.
struct RunningRank {
  float own, corrected_own, most;
  double sum = 1.0;
  CandidateRank rank;

  RunningRank(float own, float corrected) : own(own), corrected_own(corrected), most(corrected) {}
  void add(const float* scores, const float* corrected, int64_t count) {
    float top = most;
    for (int64_t j = 0; j < count; ++j) top = std::max(top, corrected[j]);
    sum *= std::exp(static_cast<double>(most) - top);
    most = top;
    float part = 0.0f;
    for (int64_t j = 0; j < count; ++j) {
      part += exp_inline(corrected[j] - most);
      rank.better += scores[j] > own ? 1.0f : 0.0f;
      rank.equal += scores[j] == own ? 1.0f : 0.0f;
    }
    sum += part;
  }
  float norm() const { return most + static_cast<float>(std::log(sum)); }
};

}  // namespace

struct RankCandidates::Scores {
  HostVector<float> values = HostVector<float>(kRankedRows * kCandidates);
  HostVector<float> kept = HostVector<float>(kCandidates);       // of candidates that compete
  HostVector<float> corrected = HostVector<float>(kCandidates);  // the same, for the loss

  // Scores of the rows of a, at most kRankedRows, for those of b, at most kCandidates.
  Matrix<float> of(Matrix<const float> a, Matrix<const float> b, float scale) {
    const Matrix<float> scores(values.data(), a.rows, b.rows);
    cpu::gemm_block(Transpose::kNo, Transpose::kYes, scale, a, b, 0.0f, scores);
    return scores;
  }

  // Adds the scores of a row for `count` items from `first` on, none of which is the row's own.
  void add(const float* scores, int64_t row, int64_t first, int64_t count,
           const CandidateFacts& facts, RunningRank& rank) {
    if (facts.ids == nullptr && facts.corrections == nullptr)
      return rank.add(scores, scores, count);
    int64_t competing = 0;
    for (int64_t j = 0; j < count; ++j) {
      kept[competing] = scores[j];
      corrected[competing] = facts.corrected(scores[j], first + j);
      competing += facts.are_equal(row, first + j) ? 0 : 1;
    }
    rank.add(kept.data(), corrected.data(), competing);
  }
};

namespace {

// Makes what the loss gains with the score of each candidate out of `scores`, those of a row for
// the items from `first` on.
void weigh(float* scores, int64_t count, int64_t row, int64_t first, const CandidateFacts& facts,
           float slope, float norm) {
  if (facts.corrections != nullptr)
    for (int64_t j = 0; j < count; ++j) scores[j] = facts.corrected(scores[j], first + j);
  for (int64_t j = 0; j < count; ++j) scores[j] = slope * exp_inline(scores[j] - norm);
  if (facts.ids != nullptr)
    for (int64_t j = 0; j < count; ++j)
      if (facts.are_equal(row, first + j)) scores[j] = 0.0f;
  if (row >= first && row < first + count) scores[row - first] = 0.0f;
}

}  // namespace

template <class Body>
void RankCandidates::for_own_candidates(const OpContext& pass, int64_t begin, int64_t end,
                                        const Body& body) const {
  if (facts_.candidate_of == nullptr) return;
  int64_t from = facts().first_of_row(begin, pass.batch_rows, pass.rows);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t last = facts().first_of_row(r + 1, from, pass.rows);
    for (; from < last; from = std::min(from + kCandidates, last))
      body(r, from, std::min(from + kCandidates, last));
  }
}

void RankCandidates::rank_rows(const OpContext& pass, int64_t begin, int64_t end, Scores& scores) {
  const Matrix<const float> users = rows_of(in(0), begin, end);
  const Matrix<const float> pairs = scores.of(users, rows_of(in(1), begin, end), scale_);
  const CandidateFacts facts = this->facts();
  const int64_t shared = end_of_shared(pass);
  std::vector<RunningRank> ranks;
  for (int64_t i = 0; i < users.rows; ++i)
    ranks.emplace_back(pairs.row(i)[i], facts.corrected(pairs.row(i)[i], begin + i));
  for (int64_t from = first_candidate(pass); from < shared; from += kCandidates) {
    const int64_t to = std::min(from + kCandidates, shared);
    const Matrix<const float> tile = scores.of(users, rows_of(in(1), from, to), scale_);
    for (int64_t i = 0; i < users.rows; ++i) {
      const int64_t own = std::clamp(begin + i, from, to) - from;  // the end of the tile: none
      scores.add(tile.row(i), begin + i, from, own, facts, ranks[i]);
      if (own < tile.cols) {
        const int64_t next = begin + i < from ? 0 : own + 1;
        scores.add(tile.row(i) + next, begin + i, from + next, tile.cols - next, facts, ranks[i]);
      }
    }
  }
  for_own_candidates(pass, begin, end, [&](int64_t r, int64_t from, int64_t to) {
    const Matrix<const float> user = rows_of(in(0), r, r + 1);
    const Matrix<const float> tile = scores.of(user, rows_of(in(1), from, to), scale_);
    scores.add(tile.row(0), r, from, tile.cols, facts, ranks[r - begin]);
  });
  for (int64_t i = 0; i < users.rows; ++i) {
    RunningRank& of = ranks[i];
    own_.data()[begin + i] = of.corrected_own;
    norms_.data()[begin + i] = of.norm();
    of.rank.loss = of.norm() - of.corrected_own;
    reinterpret_cast<CandidateRank*>(out().value())[begin + i] = of.rank;
  }
}

void RankCandidates::user_gradients(const OpContext& pass, int64_t begin, int64_t end,
                                    Scores& scores) {
  const int64_t cols = in(0).cols;
  const Matrix<const float> users = rows_of(in(0), begin, end);
  const Matrix<float> gradients(in(0).gradient() + begin * cols, end - begin, cols);
  const float* slopes = out().gradient();
  for (int64_t r = begin; r < end; ++r) {
    float* du = gradients.row(r - begin);
    if (write(0) == Write::kOverwrite) std::fill_n(du, cols, 0.0f);
    const float chance = exp_inline(own_.data()[r] - norms_.data()[r]);
    simd::add_scaled(slopes[r * kRankColumns] * scale_ * (chance - 1.0f), in(1).value() + r * cols,
                     du, cols);
  }
  const CandidateFacts facts = this->facts();
  const auto weigh_row = [&](int64_t r, int64_t from, float* row, int64_t count) {
    weigh(row, count, r, from, facts, slopes[r * kRankColumns] * scale_, norms_.data()[r]);
  };
  const int64_t shared = end_of_shared(pass);
  for (int64_t from = first_candidate(pass); from < shared; from += kCandidates) {
    const int64_t to = std::min(from + kCandidates, shared);
    const Matrix<const float> items = rows_of(in(1), from, to);
    const Matrix<float> tile = scores.of(users, items, scale_);
    for (int64_t r = begin; r < end; ++r) weigh_row(r, from, tile.row(r - begin), tile.cols);
    cpu::gemm_block(Transpose::kNo, Transpose::kNo, 1.0f, tile, items, 1.0f, gradients);
  }
  for_own_candidates(pass, begin, end, [&](int64_t r, int64_t from, int64_t to) {
    const Matrix<const float> items = rows_of(in(1), from, to);
    const Matrix<float> tile = scores.of(rows_of(in(0), r, r + 1), items, scale_);
    weigh_row(r, from, tile.row(0), tile.cols);
    const Matrix<float> du(gradients.row(r - begin), 1, cols);
    cpu::gemm_block(Transpose::kNo, Transpose::kNo, 1.0f, tile, items, 1.0f, du);
  });
}

// The gradients of items that are candidates of one row.
void RankCandidates::own_item_gradients(const OpContext& pass, int64_t begin, int64_t end,
                                        Scores& scores) {
  const int64_t cols = in(1).cols;
  const float* slopes = out().gradient();
  const CandidateFacts facts = this->facts();
  for (int64_t i = std::max(begin, end_of_shared(pass)); i < end; ++i) {
    const int64_t r = facts.candidate_of[i];
    const Matrix<float> score =
        scores.of(rows_of(in(0), r, r + 1), rows_of(in(1), i, i + 1), scale_);
    weigh(score.row(0), 1, r, i, facts, slopes[r * kRankColumns] * scale_, norms_.data()[r]);
    simd::add_scaled(score.row(0)[0], in(0).value() + r * cols, in(1).gradient() + i * cols, cols);
  }
}

void RankCandidates::item_gradients(const OpContext& pass, int64_t begin, int64_t end,
                                    Scores& scores) {
  const int64_t cols = in(1).cols, rows = pass.batch_rows;
  const float* slopes = out().gradient();
  float* gradient = in(1).gradient();
  for (int64_t i = begin; i < end; ++i) {
    if (write(1) == Write::kOverwrite) std::fill_n(gradient + i * cols, cols, 0.0f);
    if (i >= rows) continue;
    const float chance = exp_inline(own_.data()[i] - norms_.data()[i]);
    simd::add_scaled(slopes[i * kRankColumns] * scale_ * (chance - 1.0f), in(0).value() + i * cols,
                     gradient + i * cols, cols);
  }
  own_item_gradients(pass, begin, end, scores);
  begin = std::max(begin, first_candidate(pass));
  end = std::min(end, end_of_shared(pass));
  if (begin >= end) return;
  const CandidateFacts facts = this->facts();
  const Matrix<const float> items = rows_of(in(1), begin, end);
  const Matrix<float> gradients(gradient + begin * cols, end - begin, cols);
  for (int64_t from = 0; from < rows; from += kCandidates) {
    const int64_t to = std::min(from + kCandidates, rows);
    const Matrix<const float> users = rows_of(in(0), from, to);
    const Matrix<float> tile = scores.of(items, users, scale_);
    for (int64_t i = begin; i < end; ++i) {
      float* row = tile.row(i - begin);
      const float correction = facts.corrected(0.0f, i);
      if (facts.corrections != nullptr)
        for (int64_t j = 0; j < tile.cols; ++j) row[j] += correction;
      for (int64_t j = 0; j < tile.cols; ++j)
        row[j] = slopes[(from + j) * kRankColumns] * scale_ *
                 exp_inline(row[j] - norms_.data()[from + j]);
      if (facts.ids != nullptr)
        for (int64_t j = 0; j < tile.cols; ++j)
          if (facts.are_equal(from + j, i)) row[j] = 0.0f;
      if (i >= from && i < to) row[i - from] = 0.0f;
    }
    cpu::gemm_block(Transpose::kNo, Transpose::kNo, 1.0f, tile, users, 1.0f, gradients);
  }
}

void RankCandidates::forward_cpu(const OpContext& pass) {
  parallel_for(pass.context, pass.batch_rows, kRankedRows, [&](int64_t begin, int64_t end) {
    Scores scores;
    rank_rows(pass, begin, end, scores);
  });
}

void RankCandidates::backward_cpu(const OpContext& pass) {
  if (write(0) != Write::kNone)
    parallel_for(pass.context, pass.batch_rows, kRankedRows, [&](int64_t begin, int64_t end) {
      Scores scores;
      user_gradients(pass, begin, end, scores);
    });
  if (write(1) != Write::kNone)
    parallel_for(pass.context, pass.rows, kRankedRows, [&](int64_t begin, int64_t end) {
      Scores scores;
      item_gradients(pass, begin, end, scores);
    });
}

void MeanLoss::forward_cpu(const OpContext& pass) {
  if (is_off(pass)) return void(*value(pass) = 0.0);
  const Tensor& x = in(0);
  const RowTargets targets = row_targets();
  const WeightedSum sum = sum_rows(pass, [&](int64_t r, WeightedSum& part) {
    part.add(x.value()[r * x.cols], targets.weight_of(r));
  });
  *total_weight().data() = sum.weight;
  *value(pass) = sum.mean(target().factor);
}

void MeanLoss::backward_cpu(const OpContext& pass) {
  const Tensor& x = in(0);
  const RowTargets targets = row_targets();
  const float share = pass.step->loss_scale * share_of(*total_weight().data(), target().factor);
  with_write(write(0), [&](auto add) {
    for (int64_t r = 0; r < pass.rows; ++r) {
      float* dx = x.gradient() + r * x.cols;
      if (!add) std::fill_n(dx, x.cols, 0.0f);
      dx[0] += share * targets.weight_of(r);
    }
  });
}

}  // namespace emblem
