// comm/tcp/host_name.h - the name by which ranks of one host find each other.
#pragma once

#include <string>

#include "core/system/host_name.h"

namespace emblem {

// What ranks here call their host: EMBLEM_HOST_NAME, where it is set, or host_name(). Ranks with
// the same one share a host.
inline constexpr const char* kHostNameVariable = "EMBLEM_HOST_NAME";
std::string rank_host_name();

}  // namespace emblem
