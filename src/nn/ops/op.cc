#include "nn/ops/op.h"

#include <cmath>

#include "core/math/hash.h"
#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "kernels/simd.h"

namespace emblem {

Op::Op(std::vector<Tensor*> inputs, Tensor* output)
    : inputs_(std::move(inputs)), writes_(inputs_.size(), Write::kNone), output_(output) {}

Space Op::space() const {
  for (const Tensor* input : inputs_) {
    if (input->space != Space{}) return input->space;
  }
  return output_ == nullptr ? Space{} : output_->space;
}

int64_t ParameterSet::add(std::string name, int64_t rows, int64_t cols, Initial initial,
                          Decay decay) {
  for (const Parameter& other : list_) {
    EMBLEM_REQUIRE(other.name != name, "graph: two parameters are named '", name,
                   "'; give their layers different scopes");
  }
  const int64_t begin = floats_;
  list_.push_back({std::move(name), rows, cols, begin, decay == Decay::kYes});
  initials_.push_back(initial);
  floats_ += aligned(rows * cols);
  return begin;
}

void ParameterSet::initialize(uint64_t seed, float* values) const {
  for (size_t p = 0; p < list_.size(); ++p) {
    const Parameter& parameter = list_[p];
    const auto [kind, value] = initials_[p];
    const int64_t size = parameter.rows * parameter.cols;
    float* data = values + parameter.begin;
    const uint64_t stream = hash_string(parameter.name);
    for (int64_t i = 0; i < size; ++i) {
      data[i] = kind == Initial::Kind::kConstant ? value
                : kind == Initial::Kind::kUniform
                    ? value * (2.0f * random_uniform(seed, stream, i) - 1.0f)
                    : value * random_normal(seed, stream, i);
    }
  }
}

void sum_groups(const Context& context, const float* parts, int64_t groups, int64_t size,
                float* out) {
  parallel_for(context, size, 8192, [&](int64_t begin, int64_t end) {
    if (groups == 0) return void(std::fill(out + begin, out + end, 0.0f));
    std::copy(parts + begin, parts + end, out + begin);
    for (int64_t group = 1; group < groups; ++group) {
      simd::add(parts + group * size + begin, out + begin, end - begin);
    }
  });
}

}  // namespace emblem
