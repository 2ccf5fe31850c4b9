// data/source/objects/content_check.h - whether what arrived is what the store has, where it says
// so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "data/source/uri.h"

namespace emblem {

// What arrived damaged is fetched again, up to this many times in all.
inline constexpr int kDamagedAttempts = 3;

// The check of one bucket. Thread-safe.
class ContentCheck {
 public:
  // `endpoint`: of the store; "": its own, which is reached by TLS.
  ContentCheck(const ObjectUri& uri, const std::string& endpoint);

  // Why content with the MD5 `found` (ContentMd5) is not that of `uri`, of which the store said
  // `expected` ("": nothing); "" if it is.
  //
  // ETags of S3 are MD5s, but not in buckets that are encrypted by keys of their own (SSE-KMS,
  // SSE-C), and nothing distinguishes them beforehand. TLS protects what it carries: if there no
  // ETag of the bucket has fitted so far, they are taken for those of such a bucket, which a
  // warning says once. Without TLS that is an error. EMBLEM_CHECK_ETAGS=0: nothing is compared.
  std::string problem(const ObjectUri& uri, const std::string& expected, const std::string& found);
  // The same for content that `read` gives piece by piece to what it is called with; it is called
  // again where parts of another size than those of earlier objects have to be tried.
  using Take = std::function<void(const char* data, size_t bytes)>;
  std::string problem(const ObjectUri& uri, const std::string& expected, int64_t bytes,
                      const std::function<void(const Take&)>& read);
  // Whether problem() compares anything with `expected`.
  bool compares(const std::string& expected) const;

  // The same content arrived twice, though it does not fit `expected`, the MD5 of an object that
  // was uploaded in parts: these have sizes that are not tried. Such objects of the bucket are not
  // compared from now on; a warning says so.
  void accept_parts(const ObjectUri& uri, const std::string& expected);

 private:
  const bool is_secure_;
  const bool is_on_;
  std::atomic<bool> has_fitted_{false}, has_warned_{false};
  std::atomic<bool> parts_have_fitted_{false}, skips_parts_{false};
  std::atomic<int64_t> part_bytes_{0};  // of the last object whose parts have fitted
};

}  // namespace emblem
