#include "nn/ops/dense/activation.h"

#include <optional>

#include "core/text/joined.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"

namespace emblem {
namespace {

// An argument, and its value where it is not given.
struct Argument {
  const char* name = "";  // "": there is none
  float value = 0.0f;
};
struct Name {
  const char* text;
  Activation::Kind kind;
  Argument arguments[2] = {};
};
constexpr Name kNames[] = {
    {"nn.ReLU", Activation::kRelu},
    {"nn.Sigmoid", Activation::kSigmoid},
    {"nn.Tanh", Activation::kTanh},
    {"nn.GELU", Activation::kGelu},
    {"nn.SiLU", Activation::kSilu},
    {"nn.LeakyReLU", Activation::kLeakyRelu, {{"negative_slope", 0.01f}}},
    {"nn.PReLU", Activation::kPrelu, {{"init", 0.25f}}},
    {"Dice", Activation::kDice},
    {"nn.ELU", Activation::kElu, {{"alpha", 1.0f}}},
    {"nn.SELU", Activation::kSelu},
    {"nn.CELU", Activation::kCelu, {{"alpha", 1.0f}}},
    {"nn.Softplus", Activation::kSoftplus, {{"beta", 1.0f}, {"threshold", 20.0f}}},
    {"nn.Softsign", Activation::kSoftsign},
    {"nn.Hardswish", Activation::kHardswish},
    {"nn.Hardsigmoid", Activation::kHardsigmoid},
    {"nn.Hardtanh", Activation::kHardtanh, {{"min_val", -1.0f}, {"max_val", 1.0f}}},
    {"nn.ReLU6", Activation::kRelu6, {{"", 0.0f}, {"", 6.0f}}},
    {"nn.Mish", Activation::kMish},
    {"nn.LogSigmoid", Activation::kLogSigmoid},
    {"nn.Identity", Activation::kNone}};

const Name* find(Activation::Kind kind) {
  for (const Name& name : kNames) {
    if (name.kind == kind) return &name;
  }
  return nullptr;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, cat("activation '", text, "': ", why));
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

float number_in(const std::string& text, const std::string& value) {
  const auto number = parse_number<float>(value);
  if (!number) refuse(text, cat("'", value, "' is not a number"));
  return *number;
}

// One of "name=value" and "value".
void apply_argument(const std::string& text, const Name& name, size_t position,
                    const std::string& argument, Activation& activation) {
  const size_t equals = argument.find('=');
  const std::string key = trimmed(argument.substr(0, equals == std::string::npos ? 0 : equals));
  const std::string value =
      trimmed(equals == std::string::npos ? argument : argument.substr(equals + 1));
  if (key == "inplace") return;  // no effect on results
  if (name.kind == Activation::kGelu && key == "approximate") {
    if (value == "'tanh'" || value == "\"tanh\"")
      activation.kind = Activation::kGeluTanh;
    else if (value != "'none'" && value != "\"none\"")
      refuse(text, cat("approximate is ", value, ", but must be 'none' or 'tanh'"));
    return;
  }
  if (name.kind == Activation::kPrelu && key == "num_parameters") {
    if (number_in(text, value) != 1.0f)
      refuse(text, "num_parameters above 1 is not supported; one slope is trained for a layer");
    return;
  }
  std::string known;
  for (size_t i = 0; i < 2; ++i) {
    const char* candidate = name.arguments[i].name;
    if (*candidate == 0) continue;
    known += (known.empty() ? "" : ", ") + std::string(candidate);
    if (key.empty() ? i != position : key != candidate) continue;
    (i == 0 ? activation.first : activation.second) = number_in(text, value);
    return;
  }
  refuse(text, cat("unknown argument '", key.empty() ? value : key, "'",
                   known.empty() ? "; it has none" : cat(" (known: ", known, ")")));
}

}  // namespace

Activation::Activation(Kind kind) : kind(kind), first(0.0f), second(0.0f) {
  const Name* name = find(kind);
  if (name == nullptr) return;
  first = name->arguments[0].value;
  second = name->arguments[1].value;
}

Activation activation_from_name(const std::string& text) {
  const size_t open = text.find('(');
  const std::string called = trimmed(std::string_view(text).substr(0, open));
  if (called.empty() && open == std::string::npos) return Activation::kNone;
  std::vector<std::string> known;
  const Name* name = nullptr;
  for (const Name& candidate : kNames) {
    if (called == candidate.text) name = &candidate;
    known.push_back(candidate.text);
  }
  if (name == nullptr) {
    const auto nearest = nearest_name(called, known);
    throw Error(
        ErrorCode::kInvalidArgument,
        cat("unknown activation '", called, "'",
            nearest ? cat("; did you mean ", *nearest, "?") : "", " (known: ", joined(known), ")"));
  }
  Activation activation(name->kind);
  if (open == std::string::npos) return activation;
  const std::string rest = trimmed(std::string_view(text).substr(open + 1));
  if (rest.empty() || rest.back() != ')') refuse(text, "')' is missing at its end");
  std::string_view arguments(rest.data(), rest.size() - 1);
  for (size_t position = 0; !trimmed(arguments).empty(); ++position) {
    const size_t comma = arguments.find(',');
    apply_argument(text, *name, position, trimmed(arguments.substr(0, comma)), activation);
    arguments = comma == std::string_view::npos ? "" : arguments.substr(comma + 1);
  }
  return activation;
}

const char* name_of(Activation activation) {
  if (activation.kind == Activation::kGeluTanh) return "GELU";
  const Name* name = find(activation.kind);
  if (name == nullptr) return "?";
  return activation.kind == Activation::kDice ? name->text : name->text + 3;  // after "nn."
}

bool can_be_fused(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu ||
         activation == Activation::kSigmoid || activation == Activation::kTanh ||
         activation == Activation::kLeakyRelu;
}

}  // namespace emblem
