#include <bit>

#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "nn/ops/dense/dropout.h"

namespace emblem {
namespace {

constexpr int64_t kChunk = 16384;
constexpr int64_t kDraws = 256;  // at a time, each of which decides over two elements

// The halves of draws [first, first + kDraws), low halves first.
struct Draws {
  uint32_t halves[2 * kDraws];

  Draws(uint64_t seed, uint64_t stream, uint64_t first) {
    static_assert(std::endian::native == std::endian::little);
    uint64_t bits[kDraws];
    for (int64_t i = 0; i < kDraws; ++i)
      bits[i] = random_bits(seed, stream, first + static_cast<uint64_t>(i));
    __builtin_memcpy(halves, bits, sizeof(halves));
  }
};

void drop(const uint32_t* __restrict halves, uint32_t threshold, float factor, int64_t count,
          const float* __restrict from, uint8_t* __restrict kept, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = halves[i] >= threshold ? factor * from[i] : 0.0f;
  for (int64_t i = 0; i < count; ++i) kept[i] = halves[i] >= threshold;
}

// to = (or +=) from, where it was kept and scaled.
template <bool kAdd>
void apply(const uint8_t* __restrict kept, float factor, int64_t count,
           const float* __restrict from, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = kept[i] != 0 ? factor * from[i] : 0.0f;
    to[i] = kAdd ? to[i] + value : value;
  }
}

}  // namespace

void Dropout::forward_cpu(const OpContext& pass) {
  const int64_t count = pass.rows * out().cols;
  const float* from = in(0).value();
  float* to = out().value();
  dropped_ = pass.phase == Phase::kTrain;
  if (!dropped_) {
    return parallel_for(pass.context, count, kChunk, [&](int64_t begin, int64_t end) {
      std::copy(from + begin, from + end, to + begin);
    });
  }
  const uint64_t stream = stream_of(stream_, pass.step->draw);
  uint8_t* kept = kept_.data();
  static_assert(kChunk % (2 * kDraws) == 0);
  parallel_for(pass.context, count, kChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 2 * kDraws) {
      const Draws draws(pass.seed, stream, static_cast<uint64_t>(i / 2));
      drop(draws.halves, threshold(), scale(), std::min(2 * kDraws, end - i), from + i, kept + i,
           to + i);
    }
  });
}

void Dropout::backward_cpu(const OpContext& pass) {
  const float* from = out().gradient();
  float* to = in(0).gradient();
  const uint8_t* kept = kept_.data();
  with_write(write(0), [&](auto add) {
    parallel_for(pass.context, pass.rows * out().cols, kChunk, [&](int64_t begin, int64_t end) {
      if (dropped_) {
        apply<add>(kept + begin, scale(), end - begin, from + begin, to + begin);
      } else {
        for (int64_t i = begin; i < end; ++i) to[i] = (add ? to[i] : 0.0f) + from[i];
      }
    });
  });
}

}  // namespace emblem
