// ps/tables/count_allocations_test.h - how often the test program has called operator new.
#pragma once

#include <cstdint>

namespace emblem {

int64_t allocations();

}  // namespace emblem
