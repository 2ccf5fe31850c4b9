#include "data/source/objects/s3_signature.h"

#include <cctype>

#include "core/math/sha256.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string encoded(std::string_view text, std::string_view kept) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view("-._~").find(c) != std::string_view::npos ||
        kept.find(c) != std::string_view::npos) {
      result += c;
    } else {
      result += '%';
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15];
    }
  }
  return result;
}

std::string encoded_query(const S3Request& request) {
  std::string query;
  for (const auto& [name, value] : request.query)
    query += cat(query.empty() ? "" : "&", encoded(name, ""), "=", encoded(value, ""));
  return query;
}

std::string bytes_of(const Sha256& digest) { return {digest.begin(), digest.end()}; }

}  // namespace

std::string target_of(const S3Request& request) {
  const std::string query = encoded_query(request);
  return encoded(request.path, "/") + (query.empty() ? "" : "?" + query);
}

std::vector<std::string> signed_headers(const S3Request& request, const S3Credentials& credentials,
                                        std::string_view time) {
  if (credentials.access_key.empty()) return {};
  const std::string content = to_hex(bytes_of(sha256("")));
  std::map<std::string, std::string> headers = {
      {"host", request.host}, {"x-amz-content-sha256", content}, {"x-amz-date", std::string(time)}};
  if (!credentials.session_token.empty())
    headers["x-amz-security-token"] = credentials.session_token;
  std::string lines, names;
  for (const auto& [name, value] : headers) {
    lines += cat(name, ":", value, "\n");
    names += cat(names.empty() ? "" : ";", name);
  }
  const std::string canonical =
      cat(request.method, "\n", encoded(request.path, "/"), "\n", encoded_query(request), "\n",
          lines, "\n", names, "\n", content);
  const std::string day(time.substr(0, 8));
  const std::string scope = cat(day, "/", credentials.region, "/s3/aws4_request");
  const std::string text =
      cat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", to_hex(bytes_of(sha256(canonical))));
  std::string key = "AWS4" + credentials.secret_key;
  for (const std::string& part :
       {day, credentials.region, std::string("s3"), std::string("aws4_request"), text})
    key = bytes_of(hmac_sha256(key, part));
  std::vector<std::string> result;
  for (const auto& [name, value] : headers)
    if (name != "host") result.push_back(cat(name, ": ", value));
  result.push_back(cat("Authorization: AWS4-HMAC-SHA256 Credential=", credentials.access_key, "/",
                       scope, ", SignedHeaders=", names, ", Signature=", to_hex(key)));
  return result;
}

}  // namespace emblem
