// core/device/blocks.h - how many blocks a launch has.
#pragma once

#include <cstdint>

#include "core/math/divide.h"

namespace emblem::cuda {

inline unsigned blocks_of(int64_t items, int64_t each) {
  return static_cast<unsigned>(divide_up(items, each));
}

}  // namespace emblem::cuda
