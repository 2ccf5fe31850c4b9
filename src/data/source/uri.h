// data/source/uri.h - names of objects in remote stores: "s3://bucket/day=1/part-0.parquet".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace emblem {

enum class StoreKind { kS3, kGcs, kAzure, kHdfs, kHttp };

struct ObjectUri {
  StoreKind kind = StoreKind::kS3;
  std::string scheme;     // "s3", "gs", "abfs", "abfss", "hdfs", "http" or "https"
  std::string authority;  // bucket, container@account, name node or host
  std::string key;        // without a leading '/'

  std::string text() const { return scheme + "://" + authority + "/" + key; }
  // Another key of the same bucket.
  ObjectUri with_key(std::string other) const {
    return {kind, scheme, authority, std::move(other)};
  }
  // The part of a key after '?' is not shown: it may be a signature.
  std::string shown() const;
};

// Whether `path` names an object, a prefix or a pattern in a remote store that Emblem reads.
bool is_object_uri(std::string_view path);

// Throws Error for an unknown scheme, a missing bucket, and for secrets, which it does not print:
// credentials are never part of a URI.
ObjectUri parse_object_uri(const std::string& text);

// `text` for messages: without user names, passwords and signatures.
std::string shown_uri(const std::string& text);

// Whether a pattern has *, ? or [.
bool is_glob(std::string_view key);

// Whether one segment of a key (without '/') fits a segment of a pattern: * ? [a-z].
bool matches_segment(const std::string& pattern, const std::string& segment);

// Skipped by prefixes: ".name", and what writers of data sets leave beside them ("_SUCCESS").
bool is_hidden_name(std::string_view name);

// "s3://b/dir" and "a/b" -> "s3://b/dir/a/b".
std::string join_uri(const std::string& folder, const std::string& name);

}  // namespace emblem
