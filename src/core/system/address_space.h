// core/system/address_space.h - the limit on the addresses of this process (ulimit -v).
#pragma once

#include <cstdint>

namespace emblem {

// What is left to map; INT64_MAX without a limit.
int64_t free_address_space_bytes();

}  // namespace emblem
