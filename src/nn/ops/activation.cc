#include "nn/ops/activation.h"

#include "core/text.h"

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
    if (candidate.activation == activation) return candidate.text + 3;  // after "nn."
  }
  return "?";
}

bool invertible_from_output(Activation activation) {
  bool result = false;
  with_activation(activation, [&](auto f) { result = f.kFromOutput; });
  return result;
}

}  // namespace emblem
