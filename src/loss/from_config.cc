#include "loss/from_config.h"
#include "core/text/joined.h"

#include <google/protobuf/descriptor.h>

#include <type_traits>
#include <vector>

namespace emblem {
namespace {

// Calls body(Loss::from(loss)) for the loss of this name. Returns whether there is one.
template <class... All, class Body>
bool with_loss(std::type_identity<std::variant<All...>>, const config::LossConfig& loss,
               const Body& body) {
  const std::string name = loss_name(loss);
  return ((name == All::kName && (body(All::from(loss)), true)) || ...);
}

constexpr std::type_identity<AnyLoss> kAll;

template <class... All>
std::vector<std::string> names_of(std::type_identity<std::variant<All...>>) {
  return {All::kName...};
}

}  // namespace

AnyLoss loss_from(const config::LossConfig& loss) {
  AnyLoss found;
  if (!with_loss(kAll, loss, [&](const auto& one) { found = one; }))
    throw Error(ErrorCode::kInvalidArgument,
                cat("a loss is empty; set one of ", joined(names_of(kAll))));
  return found;
}

std::string loss_name(const config::LossConfig& loss) {
  const auto* field = config::LossConfig::descriptor()->FindFieldByNumber(loss.loss_case());
  return field == nullptr ? "" : field->name();
}

HeadKind kind_of_head(const config::LossConfig& loss) {
  HeadKind kind = HeadKind::kBinary;
  with_loss(kAll, loss, [&](const auto& one) { kind = one.kHead; });
  return kind;
}

std::optional<std::string> session_of(const config::LossConfig& loss) {
  std::optional<std::string> session;
  with_loss(kAll, loss, [&](const auto& one) {
    if constexpr (requires { one.session(loss); }) session = one.session(loss);
  });
  return session;
}

LabelScale label_scale_of(const config::LossConfig& loss) {
  LabelScale scale;
  with_loss(kAll, loss, [&](const auto& one) {
    if constexpr (requires { LabelScale{one.mean, one.deviation}; })
      scale = {one.mean, one.deviation};
  });
  return scale;
}

}  // namespace emblem
