// data/source/objects/s3_uploads.h - uploads to S3 in parts that will not be completed. Their parts
// are billed and shown by no listing of objects until the upload is aborted.
#pragma once

#include <cstdint>
#include <string>

#include "data/source/objects/s3_signature.h"

namespace emblem {

struct S3Bucket {
  std::string scheme, host;  // "https", "s3.eu-west-1.amazonaws.com"
  std::string path;          // "/bucket"; "": the host is that of the bucket
  S3Credentials credentials;
};

enum class UploadsOf { kObject, kFolder };

// Aborts the uploads of the object `key`; or of all objects below it ("runs/1/") that began more
// than a day ago, as others may be under way. Returns how many. Throws Error where the store
// refuses to abort one of them, and without libcurl.
int64_t abort_uploads(const S3Bucket& bucket, const std::string& key, UploadsOf of);

}  // namespace emblem
