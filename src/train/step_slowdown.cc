#include "train/step_slowdown.h"

#include <cstdlib>

namespace emblem {

double step_slowdown_from_environment() {
  const char* percent = std::getenv("EMBLEM_TEST_STEP_SLOWDOWN");
  return percent == nullptr ? 0.0 : std::atof(percent) / 100;
}

}  // namespace emblem
