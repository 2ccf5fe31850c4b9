#include <algorithm>
#include <vector>

#include "core/threads/thread_pool.h"
#include "kernels/simd.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/vectors/autodis.h"

namespace emblem {
namespace {

float leaky(float x) { return x < 0.0f ? Autodis::kNegativeSlope * x : x; }

}  // namespace

void Autodis::forward_cpu(const OpContext& pass) {
  const auto [dim, channels, temperature, keep] = options_;
  const auto number = [&](int64_t r, int64_t f, float* hidden) {
    const float x = in(0).value()[r * features_ + f];
    const float *w = pass.parameters + weight_ + f * channels,
                *m = pass.parameters + matrix_ + f * channels * channels,
                *e = pass.parameters + vectors_ + f * channels * dim;
    float* s = shares_.data() + (r * features_ + f) * channels;
    for (int64_t c = 0; c < channels; ++c) hidden[c] = leaky(w[c] * x);
    for (int64_t c = 0; c < channels; ++c)
      s[c] = (simd::dot(m + c * channels, hidden, channels) + keep * hidden[c]) / temperature;
    const float most = *std::max_element(s, s + channels);
    float sum = 0.0f;
    for (int64_t c = 0; c < channels; ++c) sum += s[c] = exp_inline(s[c] - most);
    float* y = out().value() + (r * features_ + f) * dim;
    std::fill_n(y, dim, 0.0f);
    for (int64_t c = 0; c < channels; ++c) simd::add_scaled(s[c] /= sum, e + c * dim, y, dim);
  };
  parallel_for(pass.context, pass.rows, 64, [&](int64_t begin, int64_t end) {
    std::vector<float> hidden(channels);
    for (int64_t r = begin; r < end; ++r)
      for (int64_t f = 0; f < features_; ++f) number(r, f, hidden.data());
  });
}

void Autodis::backward_number(const OpContext& pass, int64_t r, int64_t f) {
  const auto [dim, channels, temperature, keep] = options_;
  const int64_t place = (r * features_ + f) * channels;
  const float x = in(0).value()[r * features_ + f];
  const float *w = pass.parameters + weight_ + f * channels,
              *m = pass.parameters + matrix_ + f * channels * channels,
              *e = pass.parameters + vectors_ + f * channels * dim;
  const float *s = shares_.data() + place, *dy = out().gradient() + (r * features_ + f) * dim;
  float *scores = score_gradients_.data() + place, *hidden = hidden_gradients_.data() + place;
  float mean = 0.0f, to_input = 0.0f;
  for (int64_t c = 0; c < channels; ++c) {
    scores[c] = simd::dot(e + c * dim, dy, dim);
    mean += s[c] * scores[c];
  }
  for (int64_t c = 0; c < channels; ++c) scores[c] = s[c] * (scores[c] - mean) / temperature;
  for (int64_t c = 0; c < channels; ++c) hidden[c] = keep * scores[c];
  for (int64_t c = 0; c < channels; ++c)
    simd::add_scaled(scores[c], m + c * channels, hidden, channels);
  for (int64_t c = 0; c < channels; ++c) {
    if (w[c] * x < 0.0f) hidden[c] *= kNegativeSlope;
    to_input += hidden[c] * w[c];
  }
  with_write(write(0), [&](auto add) {
    float& dx = in(0).gradient()[r * features_ + f];
    dx = (add ? dx : 0.0f) + to_input;
  });
}

// The parameters of a feature are summed by one thread, row by row.
void Autodis::sum_parameters(const OpContext& pass) {
  const auto [dim, channels, temperature, keep] = options_;
  parallel_for(pass.context, features_, 1, [&](int64_t f, int64_t) {
    float *w = pass.gradients + weight_ + f * channels,
          *m = pass.gradients + matrix_ + f * channels * channels,
          *e = pass.gradients + vectors_ + f * channels * dim;
    std::fill_n(w, channels, 0.0f);
    std::fill_n(m, channels * channels, 0.0f);
    std::fill_n(e, channels * dim, 0.0f);
    std::vector<float> hidden(channels);
    for (int64_t r = 0; r < pass.rows; ++r) {
      const int64_t number = r * features_ + f, place = number * channels;
      const float x = in(0).value()[number];
      for (int64_t c = 0; c < channels; ++c)
        hidden[c] = leaky(pass.parameters[weight_ + f * channels + c] * x);
      simd::add_scaled(x, hidden_gradients_.data() + place, w, channels);
      for (int64_t c = 0; c < channels; ++c) {
        simd::add_scaled(score_gradients_.data()[place + c], hidden.data(), m + c * channels,
                         channels);
        simd::add_scaled(shares_.data()[place + c], out().gradient() + number * dim, e + c * dim,
                         dim);
      }
    }
  });
}

void Autodis::backward_cpu(const OpContext& pass) {
  parallel_for(pass.context, pass.rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t f = 0; f < features_; ++f) backward_number(pass, r, f);
  });
  sum_parameters(pass);
}

}  // namespace emblem
