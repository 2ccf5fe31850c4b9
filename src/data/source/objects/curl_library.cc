#ifdef EMBLEM_WITH_CURL

#include "data/source/objects/curl_library.h"

#include "core/system/module.h"

namespace emblem {
namespace {

CurlLibrary load_curl() {
  const DynamicLibrary library = load_module(
      "curl", "data of web servers need it and libcurl: install libcurl4, or Emblem again");
  CurlLibrary functions;
#define EMBLEM_CURL_FIND(name) library.find(#name, functions.name);
  EMBLEM_CURL_FUNCTIONS(EMBLEM_CURL_FIND)
#undef EMBLEM_CURL_FIND
  functions.curl_global_init(CURL_GLOBAL_DEFAULT);
  return functions;
}

}  // namespace

const CurlLibrary& curl() {
  static const CurlLibrary functions = load_curl();
  return functions;
}

}  // namespace emblem

#endif
