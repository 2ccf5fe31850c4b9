#include "data/source/object_store.h"

#include <cstdlib>

namespace emblem {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string endpoint_of(const ObjectUri& uri, const StoreOptions& options) {
  switch (uri.kind) {
    case StoreKind::kS3:
      if (!options.endpoint.empty()) return options.endpoint;
      if (std::string of_s3 = variable("AWS_ENDPOINT_URL_S3"); !of_s3.empty()) return of_s3;
      return variable("AWS_ENDPOINT_URL");
    case StoreKind::kGcs:
      return options.endpoint;
    case StoreKind::kAzure:  // of the account, unless the address has it
      return uri.authority.find('@') == std::string::npos ? variable("AZURE_STORAGE_ACCOUNT") : "";
    default:
      return "";
  }
}

std::unique_ptr<ObjectStore> make_store(const ObjectUri& uri, const StoreOptions& options) {
  return uri.kind == StoreKind::kHttp ? make_http_store(uri, options)
                                      : make_arrow_store(uri, options);
}

}  // namespace emblem
