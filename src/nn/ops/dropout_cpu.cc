#include "core/random.h"
#include "core/thread_pool.h"
#include "nn/ops/dropout.h"

namespace emblem {

static constexpr int64_t kChunk = 16384;  // even: each draw of 64 bits decides over two elements

void Dropout::forward_cpu(const OpContext& pass) {
  dropped_ = pass.phase == Phase::kTrain;
  if (dropped_) {
    const uint64_t stream = stream_of(stream_, pass.step->draw);
    const uint32_t threshold = this->threshold();
    uint8_t* kept = kept_.data();
    parallel_for(pass.context, pass.rows * out().cols, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += 2) {
        const uint64_t bits = random_bits(pass.seed, stream, i / 2);
        kept[i] = static_cast<uint32_t>(bits) >= threshold;
        if (i + 1 < end) kept[i + 1] = static_cast<uint32_t>(bits >> 32) >= threshold;
      }
    });
  }
  apply_cpu(pass, in(0).value(), Write::kOverwrite, out().value());
}

void Dropout::backward_cpu(const OpContext& pass) {
  apply_cpu(pass, out().gradient(), write(0), in(0).gradient());
}

// to = (or +=) from, masked and scaled where the last forward was.
void Dropout::apply_cpu(const OpContext& pass, const float* from, Write write, float* to) const {
  const float factor = dropped_ ? 1.0f / (1.0f - ratio_) : 1.0f;
  const uint8_t* kept = kept_.data();
  with_write(write, [&](auto add) {
    parallel_for(pass.context, pass.rows * out().cols, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float value = !dropped_ || kept[i] != 0 ? factor * from[i] : 0.0f;
        to[i] = (add ? to[i] : 0.0f) + value;
      }
    });
  });
}

}  // namespace emblem
