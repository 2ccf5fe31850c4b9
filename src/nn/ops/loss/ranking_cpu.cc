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
  float own, most;
  double sum = 1.0;
  CandidateRank rank;

  explicit RunningRank(float own) : own(own), most(own) {}
  void add(const float* scores, int64_t count) {
    float top = most;
    for (int64_t j = 0; j < count; ++j) top = std::max(top, scores[j]);
    sum *= std::exp(static_cast<double>(most) - top);
    most = top;
    float part = 0.0f;
    for (int64_t j = 0; j < count; ++j) {
      part += exp_inline(scores[j] - most);
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

  // Scores of the rows of a, at most kRankedRows, for those of b, at most kCandidates.
  Matrix<float> of(Matrix<const float> a, Matrix<const float> b, float scale) {
    const Matrix<float> scores(values.data(), a.rows, b.rows);
    cpu::gemm_block(Transpose::kNo, Transpose::kYes, scale, a, b, 0.0f, scores);
    return scores;
  }
};

void RankCandidates::rank_rows(const OpContext& pass, int64_t begin, int64_t end, Scores& scores) {
  const Matrix<const float> users = rows_of(in(0), begin, end);
  const Matrix<const float> pairs = scores.of(users, rows_of(in(1), begin, end), scale_);
  std::vector<RunningRank> ranks;
  for (int64_t i = 0; i < users.rows; ++i) ranks.emplace_back(pairs.row(i)[i]);
  for (int64_t from = first_candidate(pass); from < pass.rows; from += kCandidates) {
    const int64_t to = std::min(from + kCandidates, pass.rows);
    const Matrix<const float> tile = scores.of(users, rows_of(in(1), from, to), scale_);
    for (int64_t i = 0; i < users.rows; ++i) {
      const int64_t own = std::clamp(begin + i, from, to) - from;  // the end of the tile: none
      ranks[i].add(tile.row(i), own);
      if (own < tile.cols) {
        const int64_t next = begin + i < from ? 0 : own + 1;
        ranks[i].add(tile.row(i) + next, tile.cols - next);
      }
    }
  }
  for (int64_t i = 0; i < users.rows; ++i) {
    RunningRank& of = ranks[i];
    own_.data()[begin + i] = of.own;
    norms_.data()[begin + i] = of.norm();
    of.rank.loss = of.norm() - of.own;
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
  for (int64_t from = first_candidate(pass); from < pass.rows; from += kCandidates) {
    const int64_t to = std::min(from + kCandidates, pass.rows);
    const Matrix<const float> items = rows_of(in(1), from, to);
    const Matrix<float> tile = scores.of(users, items, scale_);
    for (int64_t r = begin; r < end; ++r) {
      const float slope = slopes[r * kRankColumns] * scale_, norm = norms_.data()[r];
      float* row = tile.row(r - begin);
      for (int64_t j = 0; j < tile.cols; ++j) row[j] = slope * exp_inline(row[j] - norm);
      if (r >= from && r < to) row[r - from] = 0.0f;
    }
    cpu::gemm_block(Transpose::kNo, Transpose::kNo, 1.0f, tile, items, 1.0f, gradients);
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
  begin = std::max(begin, first_candidate(pass));
  if (begin >= end) return;
  const Matrix<const float> items = rows_of(in(1), begin, end);
  const Matrix<float> gradients(gradient + begin * cols, end - begin, cols);
  for (int64_t from = 0; from < rows; from += kCandidates) {
    const int64_t to = std::min(from + kCandidates, rows);
    const Matrix<const float> users = rows_of(in(0), from, to);
    const Matrix<float> tile = scores.of(items, users, scale_);
    for (int64_t i = begin; i < end; ++i) {
      float* row = tile.row(i - begin);
      for (int64_t j = 0; j < tile.cols; ++j)
        row[j] = slopes[(from + j) * kRankColumns] * scale_ *
                 exp_inline(row[j] - norms_.data()[from + j]);
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
