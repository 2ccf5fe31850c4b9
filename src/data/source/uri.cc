#include "data/source/uri.h"

#include <fnmatch.h>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

struct Scheme {
  std::string_view name;
  std::string_view means;  // s3a is Hadoop's name for s3
  StoreKind kind;
};

constexpr Scheme kSchemes[] = {
    {"s3", "s3", StoreKind::kS3},          {"s3a", "s3", StoreKind::kS3},
    {"s3n", "s3", StoreKind::kS3},         {"gs", "gs", StoreKind::kGcs},
    {"gcs", "gs", StoreKind::kGcs},        {"abfs", "abfs", StoreKind::kAzure},
    {"abfss", "abfss", StoreKind::kAzure}, {"hdfs", "hdfs", StoreKind::kHdfs},
    {"https", "https", StoreKind::kHttp},  {"http", "http", StoreKind::kHttp},
};

const Scheme* find_scheme(std::string_view path) {
  const size_t end = path.find("://");
  if (end == std::string_view::npos) return nullptr;
  for (const Scheme& scheme : kSchemes)
    if (scheme.name == path.substr(0, end)) return &scheme;
  return nullptr;
}

std::string without_query(const std::string& key) {
  const size_t query = key.find('?');
  return query == std::string::npos ? key : key.substr(0, query) + "?...";
}

const char* credentials_advice(StoreKind kind) {
  switch (kind) {
    case StoreKind::kS3:
      return "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws";
    case StoreKind::kGcs:
      return "GOOGLE_APPLICATION_CREDENTIALS";
    case StoreKind::kAzure:
      return "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, or AZURE_CLIENT_ID and its secret";
    case StoreKind::kHdfs:
      return "Hadoop's configuration";
    case StoreKind::kHttp:
      return "~/.netrc";
  }
  return "";
}

}  // namespace

std::string ObjectUri::shown() const {
  return with_key(kind == StoreKind::kHttp ? without_query(key) : key).text();
}

bool is_object_uri(std::string_view path) { return find_scheme(path) != nullptr; }

ObjectUri parse_object_uri(const std::string& text) {
  const Scheme* scheme = find_scheme(text);
  EMBLEM_REQUIRE(scheme != nullptr, "\"", printable(shown_uri(text)),
                 "\" is not the address of an object; expected s3://, gs://, abfs://, hdfs:// or "
                 "https://");
  const size_t begin = scheme->name.size() + 3;
  const size_t slash = std::min(text.find('/', begin), text.size());
  ObjectUri uri{scheme->kind, std::string(scheme->means), text.substr(begin, slash - begin),
                slash < text.size() ? text.substr(slash + 1) : ""};
  const size_t at = uri.authority.rfind('@');
  const bool is_container = scheme->kind == StoreKind::kAzure && at != std::string::npos &&
                            uri.authority.find(':') == std::string::npos;
  EMBLEM_REQUIRE(at == std::string::npos || is_container, shown_uri(text),
                 " was given with a user name or password; omit them and set ",
                 credentials_advice(scheme->kind));
  EMBLEM_REQUIRE(!uri.authority.empty() || scheme->kind == StoreKind::kHdfs, "\"", text,
                 "\" names no bucket; expected ", scheme->name, "://BUCKET/PATH");
  return uri;
}

std::string shown_uri(const std::string& text) {
  const Scheme* scheme = find_scheme(text);
  if (scheme == nullptr) return text;
  const size_t begin = scheme->name.size() + 3;
  const size_t slash = std::min(text.find('/', begin), text.size());
  std::string authority = text.substr(begin, slash - begin);
  const size_t at = authority.rfind('@');
  if (at != std::string::npos &&
      (scheme->kind != StoreKind::kAzure || authority.find(':') != std::string::npos))
    authority.erase(0, at + 1);
  const std::string key = text.substr(slash);
  return text.substr(0, begin) + authority +
         (scheme->kind == StoreKind::kHttp ? without_query(key) : key);
}

bool is_glob(std::string_view key) { return key.find_first_of("*?[") != std::string_view::npos; }

bool matches_segment(const std::string& pattern, const std::string& segment) {
  return ::fnmatch(pattern.c_str(), segment.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

bool is_hidden_name(std::string_view name) {
  return name.starts_with('.') || name.starts_with('_');
}

std::string join_uri(const std::string& folder, const std::string& name) {
  parse_object_uri(folder);  // without a bucket, the name would become one
  return folder + (folder.ends_with('/') ? "" : "/") + name;
}

}  // namespace emblem
