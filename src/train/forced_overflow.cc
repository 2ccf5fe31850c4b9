#include "train/forced_overflow.h"

#if defined(EMBLEM_TEST_HOOKS)

#include <cstdlib>
#include <string>

namespace emblem {

bool overflow_is_forced(int64_t step) {
  const char* steps = std::getenv("EMBLEM_TEST_OVERFLOW_STEPS");
  if (steps == nullptr) return false;
  const std::string list = std::string(",") + steps + ",";
  return list == ",all," || list.find("," + std::to_string(step) + ",") != std::string::npos;
}

}  // namespace emblem

#endif
