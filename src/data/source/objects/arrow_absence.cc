#include "data/source/objects/arrow_absence.h"

namespace emblem {

std::string_view arrow_absence() {
#if defined(EMBLEM_ARROW_NEEDS)
  return "Arrow needs a CPU of level " EMBLEM_ARROW_NEEDS
         " (SSE4.2), and this program runs at a lower one (emblem inspect --machine)";
#else
  return "this program was built without Arrow; build with -DEMBLEM_ARROW=ON (cmake/Arrow.cmake)";
#endif
}

}  // namespace emblem
