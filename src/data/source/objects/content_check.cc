#include "data/source/objects/content_check.h"

#include <cstdlib>
#include <string_view>

#include "core/system/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool is_secure(const ObjectUri& uri, const std::string& endpoint) {
  if (uri.kind == StoreKind::kHttp) return uri.scheme == "https";
  return !endpoint.starts_with("http://");
}

bool is_wanted() {
  const char* value = std::getenv("EMBLEM_CHECK_ETAGS");
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace

ContentCheck::ContentCheck(const ObjectUri& uri, const std::string& endpoint)
    : is_secure_(is_secure(uri, endpoint)), is_on_(is_wanted()) {}

std::string ContentCheck::problem(const ObjectUri& uri, const std::string& expected,
                                  const std::string& found) {
  if (!is_on_ || expected.empty()) return "";
  if (expected == found) {
    has_fitted_ = true;
    return "";
  }
  if (is_secure_ && !has_fitted_) {
    if (!has_warned_.exchange(true))
      log_warn(
          cat("the ETag of ", uri.shown(),
              " is not the MD5 of its content, as in buckets with keys of their own (SSE-KMS); "
              "contents of this bucket are not verified"));
    return "";
  }
  return cat(
      uri.shown(), " arrived damaged: its content has the MD5 ", found, ", but the store says ",
      expected,
      "; start again, or set EMBLEM_CHECK_ETAGS=0 where ETags are not MD5s (SSE-KMS, SSE-C)");
}

}  // namespace emblem
