#include "data/source/objects/object_store.h"

#include <unistd.h>

#include "core/system/process.h"

namespace emblem {

std::string system_certificates() {
  std::string given = environment_variable(kCertificatesVariable);
  if (!given.empty()) return given;
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (::access(path, R_OK) == 0) return path;
  return "";
}

namespace {

std::string without_slash(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

}  // namespace

std::string endpoint_of(const ObjectUri& uri, const StoreOptions& options) {
  switch (uri.kind) {
    case StoreKind::kS3:
      if (!options.endpoint.empty()) return without_slash(options.endpoint);
      if (std::string of_s3 = environment_variable("AWS_ENDPOINT_URL_S3"); !of_s3.empty())
        return without_slash(of_s3);
      return without_slash(environment_variable("AWS_ENDPOINT_URL"));
    case StoreKind::kGcs:
      return without_slash(options.endpoint);
    case StoreKind::kAzure:  // the account's, unless the address has it
      return uri.authority.find('@') == std::string::npos
                 ? environment_variable("AZURE_STORAGE_ACCOUNT")
                 : "";
    default:
      return "";
  }
}

std::unique_ptr<ObjectStore> make_store(const ObjectUri& uri, const StoreOptions& options) {
  return uri.kind == StoreKind::kHttp ? make_http_store(uri, options)
                                      : make_arrow_store(uri, options);
}

}  // namespace emblem
