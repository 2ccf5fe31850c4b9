#include "nn/activation.h"

#include "core/text.h"
#include "core/thread_pool.h"
#include "nn/elementwise.h"
#include "nn/op.h"

namespace emblem {
namespace {

struct Name {
  const char* text;
  Activation activation;
};
constexpr Name kNames[] = {
    {"nn.ReLU", Activation::kRelu},    {"nn.Sigmoid", Activation::kSigmoid},
    {"nn.Tanh", Activation::kTanh},    {"nn.GELU", Activation::kGelu},
    {"nn.SiLU", Activation::kSilu},    {"nn.LeakyReLU", Activation::kLeakyRelu},
    {"nn.Identity", Activation::kNone}};

class ActivationOp : public Op {
 public:
  ActivationOp(Tensor* x, Activation activation, Tensor* out)
      : Op({x}, out), activation_(activation) {}
  const char* kind() const override { return name_of(activation_); }
  double flops_per_row() const override { return static_cast<double>(out().cols); }

  void forward(const Pass& pass) override {
    with_activation(activation_, [&](auto f) {
      parallel_for(pass.context, pass.rows * out().cols, 16384, [&](int64_t begin, int64_t end) {
        const float* x = in(0).value;
        float* y = out().value;
        for (int64_t i = begin; i < end; ++i) y[i] = f.value(x[i]);
      });
    });
  }

  void backward(const Pass& pass) override {
    with_activation(activation_, [&](auto f) {
      const float* kept = f.kFromOutput ? out().value : in(0).value;
      with_write(write(0), [&](auto add) {
        parallel_for(pass.context, pass.rows * out().cols, 16384, [&](int64_t begin, int64_t end) {
          const float* dy = out().gradient;
          float* dx = in(0).gradient;
          for (int64_t i = begin; i < end; ++i)
            dx[i] = (add ? dx[i] : 0.0f) + dy[i] * f.slope(kept[i]);
        });
      });
    });
  }

 private:
  Activation activation_;
};

}  // namespace

Activation activation_from_name(const std::string& name) {
  std::vector<std::string> known;
  for (const Name& candidate : kNames) {
    if (name == candidate.text) return candidate.activation;
    known.push_back(candidate.text);
  }
  const auto nearest = nearest_name(name, known);
  std::string list;
  for (const std::string& candidate : known) list += (list.empty() ? "" : ", ") + candidate;
  throw Error(ErrorCode::kInvalidArgument,
              cat("unknown activation '", name, "'",
                  nearest ? cat("; did you mean ", *nearest, "?") : "", " (known: ", list, ")"));
}

const char* name_of(Activation activation) {
  for (const Name& candidate : kNames) {
    if (candidate.activation == activation) return candidate.text + 3;  // behind "nn."
  }
  return "?";
}

bool invertible_from_output(Activation activation) {
  bool result = false;
  with_activation(activation, [&](auto f) { result = f.kFromOutput; });
  return result;
}

std::unique_ptr<Op> make_activation(Tensor* x, Activation activation, Tensor* out) {
  return std::make_unique<ActivationOp>(x, activation, out);
}

}  // namespace emblem
