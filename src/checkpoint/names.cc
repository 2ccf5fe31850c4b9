#include "checkpoint/names.h"

#include <charconv>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr std::string_view kFinished = "model.ckpt-";
constexpr std::string_view kUnfinished = ".tmp-model.ckpt-";
constexpr std::string_view kReplaced = ".old-model.ckpt-";

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take(std::string_view& text, int64_t& number) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc();
}

}  // namespace

std::string CheckpointName::text() const {
  switch (state) {
    case CheckpointState::kFinished:
      return cat(kFinished, step);
    case CheckpointState::kUnfinished:
      return cat(kUnfinished, step, "-", process);
    case CheckpointState::kReplaced:
      break;
  }
  return cat(kReplaced, step, "-", process);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  CheckpointName name;
  bool valid = false;
  if (take(text, kFinished)) {
    valid = take(text, name.step);
  } else {
    name.state =
        text.starts_with(kUnfinished) ? CheckpointState::kUnfinished : CheckpointState::kReplaced;
    valid = (take(text, kUnfinished) || take(text, kReplaced)) && take(text, name.step) &&
            take(text, "-") && take(text, name.process);
  }
  if (!valid || !text.empty()) return std::nullopt;
  return name;
}

}  // namespace emblem
