// emblem/api.h - what all public headers share, and which emblem this is.
//
// The types of this folder are emblem::Runtime, emblem::Trainer and so on. Emblem's own sources,
// which have types of these names, see them as emblem::api::Runtime.
#pragma once

#define EMBLEM_API __attribute__((visibility("default")))

#if defined(EMBLEM_LIBRARY)
#define EMBLEM_PUBLIC namespace api
#else
#define EMBLEM_PUBLIC inline namespace api
#endif

namespace emblem {

inline constexpr const char* kVersion = "0.2.0";

}  // namespace emblem
