#include "nn/dropout.h"

#include "core/buffer.h"
#include "core/random.h"
#include "core/thread_pool.h"

namespace emblem {
namespace {

constexpr int64_t kChunk = 16384;  // even: each draw of 64 bits decides over two elements

class Dropout : public Op {
 public:
  Dropout(Tensor* x, float ratio, uint64_t stream, Tensor* out)
      : Op({x}, out), ratio_(ratio), stream_(stream) {}
  const char* kind() const override { return "dropout"; }
  double flops_per_row() const override { return static_cast<double>(out().cols); }
  void prepare(Device device, int64_t max_rows) override {
    kept_ = Buffer<uint8_t>(device, max_rows, out().cols);
  }

  void forward(const Pass& pass) override {
    const int64_t count = pass.rows * out().cols;
    dropped_ = pass.phase == Phase::kTrain;
    if (dropped_) draw_mask(pass, count);
    apply(pass, in(0).value, Write::kOverwrite, out().value);
  }
  void backward(const Pass& pass) override {
    apply(pass, out().gradient, write(0), in(0).gradient);
  }

 private:
  void draw_mask(const Pass& pass, int64_t count) {
    const uint64_t stream = mix64(stream_ + mix64(pass.draw + 1));
    const uint32_t threshold = static_cast<uint32_t>(static_cast<double>(ratio_) * 4294967296.0);
    uint8_t* kept = kept_.data();
    parallel_for(pass.context, count, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += 2) {
        const uint64_t bits = random_bits(pass.seed, stream, i / 2);
        kept[i] = static_cast<uint32_t>(bits) >= threshold;
        if (i + 1 < end) kept[i + 1] = static_cast<uint32_t>(bits >> 32) >= threshold;
      }
    });
  }

  // to = (or +=) from, masked and scaled where the last forward was.
  void apply(const Pass& pass, const float* from, Write write, float* to) const {
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

  float ratio_;
  uint64_t stream_;
  Buffer<uint8_t> kept_;
  bool dropped_ = false;  // in the last forward
};

}  // namespace

std::unique_ptr<Op> make_dropout(Tensor* x, float ratio, uint64_t stream, Tensor* out) {
  return std::make_unique<Dropout>(x, ratio, stream, out);
}

}  // namespace emblem
