// nn/ops/attention/self_attention.h - attention between the elements of each row, without padding.
#pragma once

#include "core/math/random.h"
#include "core/memory/buffer.h"
#include "nn/ops/dense/dropout.h"
#include "nn/ops/op.h"

namespace emblem {

// Which weights of attention are kept in training, by (seed, stream, position) alone. Two
// neighbouring keys share 64 random bits.
struct AttentionDropout {
  float ratio = 0.0f;
  uint64_t seed = 0, stream = 0;  // seed of the batch

  EMBLEM_HD uint32_t threshold() const {
    return static_cast<uint32_t>(static_cast<double>(ratio) * 4294967296.0);
  }
  // What the weight is multiplied by. `query`: number of the element and head; `key`: position in
  // the row.
  EMBLEM_HD float factor(int64_t query, int32_t key) const {
    const uint64_t bits =
        random_bits(seed, stream, (static_cast<uint64_t>(query) << 30) + (key >> 1));
    const auto half = static_cast<uint32_t>(key % 2 == 0 ? bits : bits >> 32);
    return half >= threshold() ? 1.0f / (1.0f - ratio) : 0.0f;
  }
};

// out [elements, cols] = softmax(q k^T / sqrt(n)) v within each row, by heads of n columns.
class SelfAttention : public DeviceOp<SelfAttention> {
 public:
  static constexpr int64_t kMostColumns = 512;  // columns of a head

  SelfAttention(Tensor* q, Tensor* k, Tensor* v, int64_t heads, float dropout, uint64_t stream,
                Tensor* out)
      : DeviceOp({q, k, v}, out), heads_(heads), dropout_(dropout), stream_(stream) {}
  const char* kind() const override { return "self_attention"; }
  double flops_per_pair() const override { return 4.0 * static_cast<double>(out().cols); }
  void prepare(Device device, int64_t max_rows) override {
    norms_ = Buffer<float>(device, max_rows, heads_);
    means_ = Buffer<float>(device, max_rows, heads_);
  }

  void forward_cpu(const OpContext& pass);
  void forward_cuda(const OpContext& pass);
  void backward_cpu(const OpContext& pass);
  void backward_cuda(const OpContext& pass);
  bool write_onnx(OnnxLayers& to) const override;

 private:
  int64_t head_cols() const { return out().cols / heads_; }
  float scale() const;  // factor of scores

  // ---- CPU ----
  struct Scratch;
  int64_t heads_per_chunk(const OpContext& pass) const;
  AttentionDropout dropout_of(const OpContext& pass) const;
  void forward_head(const OpContext& pass, int64_t r, int64_t head, Scratch& scratch);
  void backward_head(const OpContext& pass, int64_t r, int64_t head, Scratch& scratch);

  int64_t heads_;
  float dropout_;
  uint64_t stream_;
  bool dropped_ = false;  // in the last forward
  // For each element and head: the logarithm of the sum of exponentials of its scores, and the
  // weighted mean of the gradients of its weights.
  Buffer<float> norms_, means_;
};

}  // namespace emblem
