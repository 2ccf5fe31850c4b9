// core/device/phase.h - whether a pass may learn: insert rows, drop units, update statistics.
#pragma once

namespace emblem {

enum class Phase { kTrain, kEval };

}  // namespace emblem
