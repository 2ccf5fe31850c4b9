// Files of web servers, read by ranges.
#include "data/source/objects/object_store.h"
#include "emblem/error.h"

#if defined(EMBLEM_WITH_CURL)

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "core/text/text.h"
#include "data/source/objects/curl_library.h"
#include "data/source/objects/md5.h"

namespace emblem {
namespace {

// What a request asks for and what it got.
struct Transfer {
  int64_t skip = 0;  // bytes of the body before those that are wanted
  int64_t wanted = 0;
  char* into = nullptr;
  int64_t got = 0;
  int64_t begin = -1, total = -1;  // from Content-Range: where the body begins, bytes of the whole
  std::string etag, md5;
  bool is_s3 = false, is_opaque = false;  // its ETags are MD5s; not of this object
  long status = 0;
  curl_off_t length = -1;
  curl_off_t modified = 0;
};

size_t take_body(char* data, size_t, size_t bytes, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  auto count = static_cast<int64_t>(bytes);
  const int64_t skipped = std::min(transfer.skip, count);
  transfer.skip -= skipped;
  count = std::min(count - skipped, transfer.wanted - transfer.got);
  if (count > 0)
    std::memcpy(transfer.into + transfer.got, data + skipped, static_cast<size_t>(count));
  transfer.got += std::max<int64_t>(count, 0);
  const bool is_complete =
      transfer.got == transfer.wanted && count < static_cast<int64_t>(bytes) - skipped;
  return is_complete ? 0 : bytes;  // 0: the rest is not needed
}

// The value of a header line that begins with `name`, in any case.
std::optional<std::string> value_of(std::string_view line, std::string_view name) {
  const bool fits = line.size() > name.size() &&
                    std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
                      return a == std::tolower(static_cast<unsigned char>(b));
                    });
  if (!fits) return std::nullopt;
  return std::string(trim(line.substr(name.size())));
}

size_t take_header(char* data, size_t, size_t bytes, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const std::string_view line(data, bytes);
  if (line.starts_with("HTTP/")) {  // begins the last answer, after redirects
    transfer.etag.clear();
    transfer.md5.clear();
    transfer.is_s3 = transfer.is_opaque = false;
    transfer.got = 0;
    transfer.begin = transfer.total = -1;
  }
  if (const auto range = value_of(line, "content-range:"))
    std::sscanf(range->c_str(), "bytes %" SCNd64 "-%*d/%" SCNd64, &transfer.begin, &transfer.total);
  if (const auto etag = value_of(line, "etag:")) transfer.etag = *etag;
  if (const auto md5 = value_of(line, "content-md5:")) transfer.md5 = md5_of_base64(*md5);
  if (const auto hash = value_of(line, "x-goog-hash:"); hash && hash->starts_with("md5="))
    transfer.md5 = md5_of_base64(hash->substr(4));
  if (const auto server = value_of(line, "server:")) transfer.is_s3 = *server == "AmazonS3";
  // "AES256" leaves the ETag an MD5, "aws:kms" does not.
  if (const auto keys = value_of(line, "x-amz-server-side-encryption:"))
    transfer.is_opaque |= *keys != "AES256";
  transfer.is_opaque |=
      value_of(line, "x-amz-server-side-encryption-customer-algorithm:").has_value();
  return bytes;
}

ErrorCode code_of(long status) {
  if (status == 401) return ErrorCode::kUnauthenticated;
  if (status == 403) return ErrorCode::kPermissionDenied;
  if (status == 404 || status == 410) return ErrorCode::kNotFound;
  if (status == 408 || status == 429 || status >= 500) return ErrorCode::kUnavailable;
  return ErrorCode::kInvalidArgument;
}

class HttpStore;

class HttpReader final : public ObjectReader {
 public:
  HttpReader(HttpStore& store, ObjectUri uri, ObjectInfo info)
      : store_(store), uri_(std::move(uri)), info_(std::move(info)) {}
  int64_t read_at(int64_t offset, int64_t count, void* into) override;

 private:
  HttpStore& store_;
  ObjectUri uri_;
  ObjectInfo info_;
};

class HttpStore final : public ObjectStore {
 public:
  HttpStore() { curl(); }
  ~HttpStore() override {
    for (CURL* handle : idle_) curl().curl_easy_cleanup(handle);
  }

  std::optional<ObjectInfo> find(const ObjectUri& uri) override {
    Transfer transfer;
    run(uri, "", "", Method::kHead, transfer);
    if (transfer.status == 404 || transfer.status == 410) return std::nullopt;
    require_success(uri, transfer.status);
    if (transfer.length < 0)
      throw Error(ErrorCode::kUnsupported,
                  cat("cannot read ", uri.shown(),
                      ": the server does not say how long it is; download it first"));
    ObjectInfo info{uri.text(), transfer.length, std::max<int64_t>(transfer.modified, 0),
                    transfer.etag, transfer.md5};
    if (info.md5.empty() && transfer.is_s3 && !transfer.is_opaque)
      info.md5 = md5_of_etag(transfer.etag);
    return info;
  }

  ObjectListing list(const ObjectUri& uri, ListDepth) override {
    throw Error(ErrorCode::kUnsupported,
                cat("cannot list ", uri.shown(),
                    ": web servers have no folders; name the files one by one"));
  }

  std::unique_ptr<ObjectReader> open(const ObjectUri& uri, const ObjectInfo& info) override {
    return std::make_unique<HttpReader>(*this, uri, info);
  }

  void write(const ObjectUri& uri, std::string_view) override { refuse_to_write(uri); }
  void upload(const std::string&, const ObjectUri& uri, const BeforePiece&) override {
    refuse_to_write(uri);
  }
  void remove(const ObjectUri& uri) override { refuse_to_write(uri); }
  void remove_folder(const ObjectUri& uri) override { refuse_to_write(uri); }

  int64_t read_at(const ObjectUri& uri, const ObjectInfo& info, int64_t offset, int64_t count,
                  char* into) {
    Transfer transfer;
    transfer.skip = offset;  // a server that does not know ranges sends all
    transfer.wanted = count;
    transfer.into = into;
    const bool is_strong = info.etag.starts_with('"');
    run(uri, cat(offset, "-", offset + count - 1), is_strong ? "If-Match: " + info.etag : "",
        Method::kGet, transfer);
    require_success(uri, transfer.status);
    require_part(uri, info, offset, transfer);
    return transfer.got;
  }

 private:
  enum class Method { kGet, kHead };

  [[noreturn]] static void refuse_to_write(const ObjectUri& uri) {
    throw Error(ErrorCode::kUnsupported,
                cat("cannot write ", uri.shown(), ": files of web servers are only read"));
  }

  static void require_success(const ObjectUri& uri, long status) {
    if (status >= 200 && status < 300) return;
    const ErrorCode code = code_of(status);
    const bool needs_login =
        code == ErrorCode::kUnauthenticated || code == ErrorCode::kPermissionDenied;
    throw Error(
        code,
        cat("cannot read ", uri.shown(), ": HTTP status ", status,
            needs_login ? "; give a user and a password in ~/.netrc, or a signed address" : ""));
  }

  // Not every server gives what was asked for, and files may grow.
  static void require_part(const ObjectUri& uri, const ObjectInfo& info, int64_t offset,
                           const Transfer& transfer) {
    const bool is_part = transfer.status == 206;
    if (is_part && transfer.begin >= 0 && transfer.begin != offset)
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot read ", uri.shown(), ": the server sent what is at byte ",
                      transfer.begin, ", asked for was byte ", offset));
    const int64_t total = is_part ? transfer.total : transfer.length;
    if (total >= 0 && total != info.bytes)
      throw Error(ErrorCode::kCorruption,
                  cat(uri.shown(), " has ", total, " bytes, but ", info.bytes,
                      " when the data set was opened; start again to read what it is now"));
  }

  CURL* take_handle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return curl().curl_easy_init();
    CURL* handle = idle_.back();
    idle_.pop_back();
    curl().curl_easy_reset(handle);  // connections stay
    return handle;
  }

  void set_options(CURL* handle, const ObjectUri& uri) {
    curl().curl_easy_setopt(handle, CURLOPT_URL, uri.text().c_str());
    curl().curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl().curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
    curl().curl_easy_setopt(handle, CURLOPT_MAXREDIRS, 5L);
    // Never from TLS to none.
#if LIBCURL_VERSION_NUM >= 0x075500
    const char* protocols = uri.scheme == "https" ? "https" : "http,https";
    curl().curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, protocols);
    curl().curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
#else
    const long protocols =
        uri.scheme == "https" ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
    curl().curl_easy_setopt(handle, CURLOPT_PROTOCOLS, protocols);
    curl().curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS, protocols);
#endif
    curl().curl_easy_setopt(handle, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
    curl().curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, 5L);
    curl().curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 100L);
    curl().curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, 20L);
    curl().curl_easy_setopt(handle, CURLOPT_FILETIME, 1L);
    if (const char* bundle = std::getenv("SSL_CERT_FILE"))
      curl().curl_easy_setopt(handle, CURLOPT_CAINFO, bundle);
  }

  void run(const ObjectUri& uri, const std::string& range, const std::string& header, Method method,
           Transfer& transfer) {
    CURL* handle = take_handle();
    set_options(handle, uri);
    if (method == Method::kHead) curl().curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
    if (!range.empty()) curl().curl_easy_setopt(handle, CURLOPT_RANGE, range.c_str());
    curl_slist* headers =
        header.empty() ? nullptr : curl().curl_slist_append(nullptr, header.c_str());
    curl().curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    Body body{handle, &transfer};
    curl().curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_answer);
    curl().curl_easy_setopt(handle, CURLOPT_WRITEDATA, &body);
    curl().curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_header);
    curl().curl_easy_setopt(handle, CURLOPT_HEADERDATA, &transfer);
    const CURLcode result = curl().curl_easy_perform(handle);
    curl().curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &transfer.status);
    curl().curl_easy_getinfo(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &transfer.length);
    curl().curl_easy_getinfo(handle, CURLINFO_FILETIME_T, &transfer.modified);
    curl().curl_slist_free_all(headers);
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(handle);
    }
    const bool had_enough = result == CURLE_WRITE_ERROR && transfer.got == transfer.wanted;
    if (result != CURLE_OK && !had_enough && result != CURLE_PARTIAL_FILE) fail(uri, result);
  }

  struct Body {
    CURL* handle;
    Transfer* transfer;
  };

  // Errors have bodies as well, which are not content.
  static size_t take_answer(char* data, size_t size, size_t bytes, void* context) {
    auto& body = *static_cast<Body*>(context);
    long status = 0;
    curl().curl_easy_getinfo(body.handle, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status >= 300) return bytes;
    if (status == 206) body.transfer->skip = 0;
    return take_body(data, size, bytes, body.transfer);
  }

  [[noreturn]] static void fail(const ObjectUri& uri, CURLcode result) {
    const bool stays = result == CURLE_PEER_FAILED_VERIFICATION ||
                       result == CURLE_SSL_CACERT_BADFILE || result == CURLE_TOO_MANY_REDIRECTS ||
                       result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_URL_MALFORMAT;
    throw Error(stays ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable,
                cat("cannot read ", uri.shown(), ": ", curl().curl_easy_strerror(result),
                    result == CURLE_PEER_FAILED_VERIFICATION
                        ? "; set SSL_CERT_FILE to the certificates to trust"
                        : ""));
  }

  std::mutex mutex_;
  std::vector<CURL*> idle_;
};

int64_t HttpReader::read_at(int64_t offset, int64_t count, void* into) {
  return store_.read_at(uri_, info_, offset, count, static_cast<char*>(into));
}

}  // namespace

std::unique_ptr<ObjectStore> make_http_store(const ObjectUri&, const StoreOptions&) {
  return std::make_unique<HttpStore>();
}

}  // namespace emblem

#else

namespace emblem {

std::unique_ptr<ObjectStore> make_http_store(const ObjectUri& uri, const StoreOptions&) {
  throw Error(ErrorCode::kUnsupported,
              cat("cannot read ", uri.shown(),
                  ": this program was built without libcurl; download the file first, or "
                  "build with EMBLEM_CURL=ON"));
}

}  // namespace emblem

#endif
