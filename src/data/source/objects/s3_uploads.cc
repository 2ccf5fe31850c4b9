#include "data/source/objects/s3_uploads.h"

#include "emblem/error.h"

#if defined(EMBLEM_WITH_CURL)

#include <array>
#include <ctime>
#include <memory>
#include <vector>

#include "data/source/objects/curl_library.h"
#include "data/source/objects/object_store.h"

namespace emblem {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;  // of an answer
constexpr int kMostPages = 100;

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

std::string unescaped(std::string text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'}}};
  for (const auto& [entity, c] : kEntities)
    for (size_t at = 0; (at = text.find(entity, at)) != text.npos; ++at)
      text.replace(at, entity.size(), 1, c);
  return text;
}

struct Upload {
  std::string key, id;
};

std::vector<Upload> list_uploads(const S3Bucket& bucket, const std::string& prefix) {
  const S3Request request = {"GET",
                             bucket.host,
                             bucket.path.empty() ? "/" : bucket.path,
                             {{"prefix", prefix}, {"uploads", ""}}};
  const std::string answer = run(bucket, request);
  std::vector<Upload> uploads;
  for (size_t at = 0; at != answer.npos;) {
    const std::string upload = next_element(answer, "Upload", at);
    size_t in_key = 0, in_id = 0;
    const std::string key = unescaped(next_element(upload, "Key", in_key));
    const std::string id = unescaped(next_element(upload, "UploadId", in_id));
    if (!key.empty() && !id.empty()) uploads.push_back({key, id});
  }
  return uploads;
}

}  // namespace

int64_t abort_uploads(const S3Bucket& bucket, const std::string& key, UploadsOf of) {
  int64_t aborted = 0;
  for (int page = 0; page < kMostPages; ++page) {
    const int64_t before = aborted;
    for (const Upload& upload : list_uploads(bucket, key)) {
      const bool is_meant =
          of == UploadsOf::kObject ? upload.key == key : upload.key.starts_with(key);
      if (!is_meant) continue;
      run(bucket,
          {"DELETE", bucket.host, bucket.path + "/" + upload.key, {{"uploadId", upload.id}}});
      ++aborted;
    }
    if (aborted == before) break;
  }
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
