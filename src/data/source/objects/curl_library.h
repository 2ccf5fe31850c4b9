// data/source/objects/curl_library.h - the functions of libcurl that Emblem calls. They come with
// libemblem_curl.so, which is loaded at the first call: programs start without libcurl. Included by
// .cc files alone, and only where EMBLEM_WITH_CURL is defined.
#pragma once

#define CURL_DISABLE_TYPECHECK  // its macros call the functions themselves
#include <curl/curl.h>

namespace emblem {

// clang-format off
#define EMBLEM_CURL_FUNCTIONS(X) \
  X(curl_easy_cleanup) X(curl_easy_getinfo) X(curl_easy_init) X(curl_easy_perform) \
  X(curl_easy_reset) X(curl_easy_setopt) X(curl_easy_strerror) X(curl_global_init) \
  X(curl_slist_append) X(curl_slist_free_all)
// clang-format on

struct CurlLibrary {
#define EMBLEM_CURL_MEMBER(name) decltype(&::name) name = nullptr;
  EMBLEM_CURL_FUNCTIONS(EMBLEM_CURL_MEMBER)
#undef EMBLEM_CURL_MEMBER
};

// Initialized. Throws kUnsupported where the library is not there. Thread-safe.
const CurlLibrary& curl();

}  // namespace emblem
