// emblem/api.h - what all public headers share.
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
