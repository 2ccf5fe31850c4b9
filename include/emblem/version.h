// emblem/version.h - which emblem this is.
#pragma once

namespace emblem {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace emblem
