#include "data/source/objects/content_check.h"

#include <cstdlib>
#include <string_view>

#include "core/system/log.h"
#include "data/source/objects/content_md5.h"
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

bool ContentCheck::compares(const std::string& expected) const {
  return is_on_ && !expected.empty() && !(skips_parts_ && is_md5_of_parts(expected));
}

void ContentCheck::accept_parts(const ObjectUri& uri, const std::string& expected) {
  if (!skips_parts_.exchange(true))
    log_warn(cat("the ETag of ", uri.shown(), ", ", expected,
                 ", fits its content with no usual size of parts; contents of objects of this "
                 "bucket that were uploaded in parts are not verified"));
}

std::string ContentCheck::problem(const ObjectUri& uri, const std::string& expected, int64_t bytes,
                                  const std::function<void(const Take&)>& read) {
  if (!compares(expected)) return "";
  for (int64_t likely = part_bytes_;; likely = 0) {
    ContentMd5 sum(expected, bytes, likely);
    read([&](const char* data, size_t count) { sum.add(data, count); });
    const std::string found = sum.found();
    if (found != expected && sum.tried_likely_alone()) continue;
    if (sum.part_bytes() > 0) part_bytes_ = sum.part_bytes();
    return problem(uri, expected, found);
  }
}

std::string ContentCheck::problem(const ObjectUri& uri, const std::string& expected,
                                  const std::string& found) {
  if (!compares(expected)) return "";
  const bool of_parts = is_md5_of_parts(expected);
  if (expected == found) {
    (of_parts ? parts_have_fitted_ : has_fitted_) = true;
    return "";
  }
  if (of_parts) {
    if (!is_secure_ || parts_have_fitted_)
      return cat(uri.shown(), " arrived damaged: its content does not fit the ETag of the store, ",
                 expected,
                 "; start again, or set EMBLEM_CHECK_ETAGS=0 where ETags are not MD5s (SSE-KMS, "
                 "SSE-C)");
    accept_parts(uri, expected);
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
