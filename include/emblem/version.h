// emblem/version.h - which emblem this is.
#pragma once

namespace emblem {

inline constexpr const char* kVersion = "0.2.0";

}  // namespace emblem
