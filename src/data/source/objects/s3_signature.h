// data/source/objects/s3_signature.h - requests to S3 that Arrow has no function for, signed by
// version 4 of AWS's signatures.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

struct S3Credentials {
  std::string access_key;  // "": requests are not signed
  std::string secret_key, session_token;
  std::string region;
};

// A request without a body.
struct S3Request {
  std::string method;  // "GET"
  std::string host;    // with its port, where that is not the one of the scheme
  std::string path;    // not encoded: "/bucket/key"
  std::map<std::string, std::string> query;
};

// The path with its query, encoded: what the signature is of.
std::string target_of(const S3Request& request);

// Lines of the header that authorize the request at `time`: "20130524T000000Z".
std::vector<std::string> signed_headers(const S3Request& request, const S3Credentials& credentials,
                                        std::string_view time);

}  // namespace emblem
