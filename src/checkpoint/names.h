// checkpoint/names.h - the names in a model dir: finished checkpoints, and hidden ones that a
// writer is about to show or to delete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace emblem {

// kUnfinished is being written or deleted, and of no use when its process is gone. kReplaced was
// moved away for a newer one of the same step; if the process died before that one had its name, it
// is what counts.
enum class CheckpointState { kFinished, kUnfinished, kReplaced };

struct CheckpointName {
  CheckpointState state = CheckpointState::kFinished;
  int64_t step = 0;
  int64_t process = 0;  // process number in hidden names

  std::string text() const;
};

// Nothing for names of other things.
std::optional<CheckpointName> parse_checkpoint_name(std::string_view text);

}  // namespace emblem
