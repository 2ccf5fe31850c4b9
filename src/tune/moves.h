// tune/moves.h - changes of settings that a search tries.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "init/starter.h"

namespace emblem {

struct Move {
  // Changes the settings. False: there is no such change of these.
  std::function<bool(PipelineSettings& settings)> apply;
  // The setting that it changes, with its value: "dense_lr 0.003".
  std::function<std::string(const PipelineSettings& settings)> text;
};

// In the order in which they are tried: those that usually gain most come first.
std::vector<Move> moves_for(const StarterDraft& draft);

}  // namespace emblem
