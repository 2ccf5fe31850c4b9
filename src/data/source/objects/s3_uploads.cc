#include "data/source/objects/s3_uploads.h"

#include "emblem/error.h"

#if defined(EMBLEM_WITH_CURL)

#include <array>
#include <charconv>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "data/source/objects/curl_library.h"
#include "data/source/objects/object_store.h"

namespace emblem {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;  // of an answer
constexpr int kMostPages = 100;
constexpr int64_t kLeastAgeSeconds = 24 * 3600;  // of an upload that no process works on

size_t take_text(char* data, size_t, size_t bytes, void* into) {
  auto& text = *static_cast<std::string*>(into);
  if (text.size() + bytes > kMostBytes) return 0;
  text.append(data, bytes);
  return bytes;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts);
  return text.data();
}

// The body of the answer.
std::string run(const S3Bucket& bucket, const S3Request& request) {
  const CurlLibrary& library = curl();
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(library.curl_easy_init(),
                                                      library.curl_easy_cleanup);
  if (handle == nullptr) throw Error(ErrorCode::kInternal, "libcurl does not start");
  curl_slist* lines = nullptr;
  for (const std::string& line : signed_headers(request, bucket.credentials, time_now()))
    lines = library.curl_slist_append(lines, line.c_str());
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(lines,
                                                                   library.curl_slist_free_all);
  const std::string url = cat(bucket.scheme, "://", request.host, target_of(request));
  std::string body;
  library.curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  library.curl_easy_setopt(handle.get(), CURLOPT_CUSTOMREQUEST, request.method.c_str());
  library.curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  library.curl_easy_setopt(handle.get(), CURLOPT_PATH_AS_IS, 1L);
  library.curl_easy_setopt(handle.get(), CURLOPT_NOSIGNAL, 1L);
  library.curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT, 10L);
  library.curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, take_text);
  library.curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &body);
  if (const std::string trusted = system_certificates(); !trusted.empty())
    library.curl_easy_setopt(handle.get(), CURLOPT_CAINFO, trusted.c_str());
  const CURLcode result = library.curl_easy_perform(handle.get());
  long status = 0;
  library.curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (result != CURLE_OK) throw Error(ErrorCode::kUnavailable, library.curl_easy_strerror(result));
  if (status < 200 || status >= 300)
    throw Error(ErrorCode::kUnavailable, cat("HTTP status ", status));
  return body;
}

// The text of the next element `name`, from `at` on, which moves behind it; "": there is none.
std::string next_element(const std::string& xml, const std::string& name, size_t& at) {
  const size_t begin = xml.find("<" + name + ">", at);
  const size_t end = begin == xml.npos ? xml.npos : xml.find("</" + name + ">", begin);
  at = end;
  if (end == xml.npos) return "";
  return xml.substr(begin + name.size() + 2, end - begin - name.size() - 2);
}

// The character of an entity without its '&' and ';': "lt", "#13", "#xD". None: kept as it is.
std::optional<char> character_of(std::string_view entity) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kNames = {
      {{"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"amp", '&'}}};
  for (const auto& [name, c] : kNames)
    if (entity == name) return c;
  if (!entity.starts_with('#')) return std::nullopt;
  const bool is_hex = entity.starts_with("#x");
  const char* const end = entity.data() + entity.size();
  int code = 0;
  const auto [rest, error] =
      std::from_chars(entity.data() + (is_hex ? 2 : 1), end, code, is_hex ? 16 : 10);
  if (error != std::errc() || rest != end || code < 0 || code > 127) return std::nullopt;
  return static_cast<char>(code);
}

std::string unescaped(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = text[at] == '&' ? text.find(';', at) : text.npos;
    const auto c =
        end == text.npos ? std::nullopt : character_of(text.substr(at + 1, end - at - 1));
    plain += c.value_or(text[at]);
    if (c) at = end;
  }
  return plain;
}

// Seconds since 1970 of "2026-11-19T10:15:00.000Z"; nothing: it is no such time.
std::optional<int64_t> seconds_of(const std::string& time) {
  std::tm parts{};
  if (::strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return std::nullopt;
  return ::timegm(&parts);
}

struct Upload {
  std::string key, id;
  std::optional<int64_t> began;  // seconds since 1970
};

struct UploadPage {
  std::vector<Upload> uploads;
  std::map<std::string, std::string> next;  // the query of the next page; empty: there is none
};

UploadPage list_uploads(const S3Bucket& bucket, std::map<std::string, std::string> query) {
  const std::string path = bucket.path.empty() ? "/" : bucket.path;
  const std::string answer = run(bucket, {"GET", bucket.host, path, query});
  const auto text_of = [](const std::string& xml, const std::string& name) {
    size_t at = 0;
    return unescaped(next_element(xml, name, at));
  };
  UploadPage page;
  for (size_t at = 0; at != answer.npos;) {
    const std::string upload = next_element(answer, "Upload", at);
    const Upload found = {text_of(upload, "Key"), text_of(upload, "UploadId"),
                          seconds_of(text_of(upload, "Initiated"))};
    if (!found.key.empty() && !found.id.empty()) page.uploads.push_back(found);
  }
  if (text_of(answer, "IsTruncated") == "true") {
    query["key-marker"] = text_of(answer, "NextKeyMarker");
    query["upload-id-marker"] = text_of(answer, "NextUploadIdMarker");
    if (!query["key-marker"].empty()) page.next = std::move(query);
  }
  return page;
}

bool is_meant(const Upload& upload, const std::string& key, UploadsOf of) {
  if (of == UploadsOf::kObject) return upload.key == key;
  return upload.key.starts_with(key) && upload.began &&
         *upload.began + kLeastAgeSeconds <= std::time(nullptr);
}

}  // namespace

int64_t abort_uploads(const S3Bucket& bucket, const std::string& key, UploadsOf of) {
  int64_t aborted = 0;
  std::string problem;
  std::map<std::string, std::string> query = {{"prefix", key}, {"uploads", ""}};
  for (int page = 0; page < kMostPages && !query.empty(); ++page) {
    const UploadPage found = list_uploads(bucket, query);
    for (const Upload& upload : found.uploads) {
      if (!is_meant(upload, key, of)) continue;
      try {
        run(bucket,
            {"DELETE", bucket.host, bucket.path + "/" + upload.key, {{"uploadId", upload.id}}});
        ++aborted;
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    query = found.next;
  }
  if (!problem.empty()) throw Error(ErrorCode::kUnavailable, problem);
  return aborted;
}

}  // namespace emblem

#else

namespace emblem {

int64_t abort_uploads(const S3Bucket&, const std::string&, UploadsOf) {
  throw Error(ErrorCode::kUnsupported, "this program was built without libcurl");
}

}  // namespace emblem

#endif
