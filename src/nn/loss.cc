#include "nn/loss.h"

#include <cmath>

#include "core/thread_pool.h"
#include "nn/activation.h"

namespace emblem {
namespace {

// -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))), without overflow for any x.
EMBLEM_HD inline double cross_entropy(float x, float y) {
  return (x > 0.0f ? x : 0.0) - static_cast<double>(x) * y +
         log1p(exp(-fabs(static_cast<double>(x))));
}

class BinaryCrossEntropy : public Loss {
 public:
  BinaryCrossEntropy(std::vector<Tensor*> inputs, float label_smoothing)
      : Loss(std::move(inputs), nullptr), smoothing_(label_smoothing) {}
  const char* kind() const override { return "binary_cross_entropy"; }
  double value() const override { return total_weight_ == 0.0 ? 0.0 : total_ / total_weight_; }

  void forward(const Pass& pass) override {
    struct Part {
      double loss = 0.0, weight = 0.0;
    };
    const RowGroups groups = row_groups(pass.rows);
    Part parts[kMaxRowGroups];
    parallel_for(pass.context, pass.rows, groups.rows_each, [&](int64_t begin, int64_t end) {
      Part part;
      for (int64_t r = begin; r < end; ++r) {
        const double weight = weight_of(r);
        part.loss += weight * cross_entropy(in(0).value[r], smooth(in(1).value[r]));
        part.weight += weight;
      }
      parts[begin / groups.rows_each] = part;
    });
    total_ = total_weight_ = 0.0;
    for (int64_t group = 0; group < groups.count; ++group) {
      total_ += parts[group].loss;
      total_weight_ += parts[group].weight;
    }
  }

  void backward(const Pass& pass) override {
    const float share = total_weight_ == 0.0 ? 0.0f : static_cast<float>(1.0 / total_weight_);
    with_write(write(0), [&](auto add) {
      parallel_for(pass.context, pass.rows, 4096, [&](int64_t begin, int64_t end) {
        float* dx = in(0).gradient;
        for (int64_t r = begin; r < end; ++r) {
          const float error = sigmoid_inline(in(0).value[r]) - smooth(in(1).value[r]);
          dx[r] = (add ? dx[r] : 0.0f) + weight_of(r) * share * error;
        }
      });
    });
  }

 private:
  float smooth(float label) const { return label * (1.0f - smoothing_) + 0.5f * smoothing_; }
  float weight_of(int64_t r) const { return inputs().size() > 2 ? in(2).value[r] : 1.0f; }

  float smoothing_;
  double total_ = 0.0, total_weight_ = 0.0;
};

}  // namespace

std::unique_ptr<Loss> make_binary_cross_entropy(Tensor* logits, Tensor* labels, Tensor* weights,
                                                float label_smoothing) {
  std::vector<Tensor*> inputs = {logits, labels};
  if (weights != nullptr) inputs.push_back(weights);
  return std::make_unique<BinaryCrossEntropy>(std::move(inputs), label_smoothing);
}

}  // namespace emblem
