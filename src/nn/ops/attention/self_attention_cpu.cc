#include <algorithm>
#include <cmath>

#include "core/memory/host_vector.h"
#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/attention/self_attention.h"
#include "nn/ops/dense/activation.h"

namespace emblem {
namespace {

constexpr int64_t kTile = 64;  // queries whose scores are in the cache together

// The columns of a head of the elements of a row.
struct Head {
  int64_t begin, count, column, cols, stride;
  Matrix<float> operator()(float* data) const {
    return {data + begin * stride + column, count, cols, stride};
  }
};

void write_rows(Write write, Matrix<const float> from, Matrix<float> to) {
  for (int64_t i = 0; i < to.rows; ++i) {
    if (write == Write::kAdd) simd::add(from.row(i), to.row(i), to.cols);
    if (write == Write::kOverwrite) std::copy_n(from.row(i), to.cols, to.row(i));
  }
}

// e^(scores - most), and its sum.
float exponentials(float* scores, int64_t count, float most) {
  for (int64_t j = 0; j < count; ++j) scores[j] = exp_inline(scores[j] - most);
  float sum = 0.0f;
  for (int64_t j = 0; j < count; ++j) sum += scores[j];
  return sum;
}

}  // namespace

struct SelfAttention::Scratch {
  HostVector<float> scores, slopes;  // [kTile, keys]
  HostVector<float> gradients;       // [3, keys, cols]
};

float SelfAttention::scale() const { return 1.0f / std::sqrt(static_cast<float>(head_cols())); }

AttentionDropout SelfAttention::dropout_of(const OpContext& pass) const {
  return {dropped_ ? dropout_ : 0.0f, pass.seed, Dropout::stream_of(stream_, pass.step->draw)};
}

int64_t SelfAttention::heads_per_chunk(const OpContext& pass) const {
  const int64_t mean_length = pass.batch_rows == 0 ? 0 : pass.rows / pass.batch_rows + 1;
  return rows_per_chunk(mean_length * std::max(mean_length, head_cols()));
}

void SelfAttention::forward_head(const OpContext& pass, int64_t r, int64_t head, Scratch& scratch) {
  const int64_t first = pass.offsets[r], keys = pass.offsets[r + 1] - first;
  const Head part{first, keys, head * head_cols(), head_cols(), out().cols};
  const AttentionDropout dropout = dropout_of(pass);
  scratch.scores.resize(std::min(kTile, keys) * keys);
  for (int64_t begin = 0; begin < keys; begin += kTile) {
    const int64_t end = std::min(begin + kTile, keys);
    const Matrix<float> scores(scratch.scores.data(), end - begin, keys);
    cpu::gemm_block(Transpose::kNo, Transpose::kYes, scale(),
                    part(in(0).value()).row_range(begin, end), part(in(1).value()), 0.0f, scores);
    for (int64_t i = 0; i < scores.rows; ++i) {
      float* row = scores.row(i);
      const int64_t query = (first + begin + i) * heads_ + head;
      const float most = *std::max_element(row, row + keys), sum = exponentials(row, keys, most);
      norms_.data()[query] = most + std::log(sum);
      const float share = 1.0f / sum;
      for (int64_t j = 0; j < keys; ++j) row[j] *= share;
      for (int64_t j = 0; dropout.ratio > 0.0f && j < keys; ++j)
        row[j] *= dropout.factor(query, static_cast<int32_t>(j));
    }
    cpu::gemm_block(Transpose::kNo, Transpose::kNo, 1.0f, scores, part(in(2).value()), 0.0f,
                    part(out().value()).row_range(begin, end));
  }
}

// Gradients of the inputs are collected first: they may be one node.
void SelfAttention::backward_head(const OpContext& pass, int64_t r, int64_t head,
                                  Scratch& scratch) {
  const int64_t first = pass.offsets[r], keys = pass.offsets[r + 1] - first, cols = head_cols();
  const Head part{first, keys, head * cols, cols, out().cols};
  const AttentionDropout dropout = dropout_of(pass);
  scratch.scores.resize(std::min(kTile, keys) * keys);
  scratch.slopes.resize(std::min(kTile, keys) * keys);
  scratch.gradients.resize(3 * keys * cols);
  Matrix<float> gradients[3];
  for (int i = 0; i < 3; ++i)
    gradients[i] = {scratch.gradients.data() + i * keys * cols, keys, cols};
  for (int64_t begin = 0; begin < keys; begin += kTile) {
    const int64_t end = std::min(begin + kTile, keys);
    const float beta = begin == 0 ? 0.0f : 1.0f;
    const Matrix<float> weights(scratch.scores.data(), end - begin, keys),
        slopes(scratch.slopes.data(), end - begin, keys),
        q = part(in(0).value()).row_range(begin, end),
        y = part(out().value()).row_range(begin, end),
        dy = part(out().gradient()).row_range(begin, end);
    cpu::gemm_block(Transpose::kNo, Transpose::kYes, scale(), q, part(in(1).value()), 0.0f,
                    weights);
    cpu::gemm_block(Transpose::kNo, Transpose::kYes, 1.0f, dy, part(in(2).value()), 0.0f, slopes);
    for (int64_t i = 0; i < weights.rows; ++i) {
      float *weight = weights.row(i), *slope = slopes.row(i);
      const int64_t query = (first + begin + i) * heads_ + head;
      const float norm = norms_.data()[query], mean = simd::dot(dy.row(i), y.row(i), cols);
      for (int64_t j = 0; j < keys; ++j) weight[j] = exp_inline(weight[j] - norm);
      if (dropout.ratio == 0.0f) {
        for (int64_t j = 0; j < keys; ++j) slope[j] = weight[j] * (slope[j] - mean);
        continue;
      }
      for (int64_t j = 0; j < keys; ++j) {
        const float factor = dropout.factor(query, static_cast<int32_t>(j));
        slope[j] = weight[j] * (slope[j] * factor - mean);
        weight[j] *= factor;
      }
    }
    cpu::gemm_block(Transpose::kNo, Transpose::kNo, scale(), slopes, part(in(1).value()), 0.0f,
                    gradients[0].row_range(begin, end));
    cpu::gemm_block(Transpose::kYes, Transpose::kNo, scale(), slopes, q, beta, gradients[1]);
    cpu::gemm_block(Transpose::kYes, Transpose::kNo, 1.0f, weights, dy, beta, gradients[2]);
  }
  for (size_t i = 0; i < 3; ++i) {
    if (write(i) != Write::kNone) write_rows(write(i), gradients[i], part(in(i).gradient()));
  }
}

void SelfAttention::forward_cpu(const OpContext& pass) {
  dropped_ = pass.phase == Phase::kTrain && dropout_ > 0.0f;
  parallel_for(pass.context, pass.batch_rows * heads_, heads_per_chunk(pass),
               [&](int64_t begin, int64_t end) {
                 Scratch scratch;
                 for (int64_t i = begin; i < end; ++i)
                   forward_head(pass, i / heads_, i % heads_, scratch);
               });
}

void SelfAttention::backward_cpu(const OpContext& pass) {
  parallel_for(pass.context, pass.batch_rows * heads_, heads_per_chunk(pass),
               [&](int64_t begin, int64_t end) {
                 Scratch scratch;
                 for (int64_t i = begin; i < end; ++i)
                   backward_head(pass, i / heads_, i % heads_, scratch);
               });
}

}  // namespace emblem
