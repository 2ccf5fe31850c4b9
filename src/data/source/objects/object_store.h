// data/source/objects/object_store.h - a remote store of objects: a bucket of S3 or GCS, a
// container of Azure, a Hadoop file system, a web server. Objects change only as a whole.
//
// Errors tell what to do about them by their code: kUnavailable may pass (data/source/retry.h tries
// again), kNotFound, kPermissionDenied, kUnauthenticated and others stay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/uri.h"

namespace emblem {

// What a store says of an object without its content being read.
struct ObjectInfo {
  std::string uri;
  int64_t bytes = 0;
  int64_t modified = 0;  // seconds since 1970; 0: not known
  std::string
      etag;  // or what else names the version; "": not known (listings of S3 do not have it)
  // MD5 of the content, 32 hexadecimal digits, or that of its parts (md5_of_etag); "": not known.
  std::string md5;
  // XXH64 of the content that was written, 16 hexadecimal digits (data/source/data_set_manifest.h);
  // "": not known.
  std::string checksum;
  std::string store;  // the endpoint that has it (endpoint_of); set by RemoteStorage
};

// The content of an object; read_at may run concurrently.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  // Up to `count` bytes from `offset` on; fewer only at the end of the object.
  virtual int64_t read_at(int64_t offset, int64_t count, void* into) = 0;
  // Whether all reads are of the version that was there at open, or fail.
  virtual bool reads_one_version() const { return false; }
  // MD5 of the content of that version; "": not known.
  virtual std::string md5() const { return ""; }
};

enum class ListDepth { kDirect, kAll };

// Called before every request that writes or removes: what it throws is thrown, and the request is
// not sent.
using BeforeWrite = std::function<void()>;

// The same while a file is sent by several requests, with the bytes that the store has not taken
// yet, and whether it has taken some since the last call.
using BeforePiece = std::function<void(int64_t under_way, bool has_taken)>;

struct ObjectListing {
  std::vector<ObjectInfo> objects;
  std::vector<std::string> folders;  // names; kDirect alone
};

// Thread-safe.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Nothing when there is no such object. Asks for the etag where the store has one.
  virtual std::optional<ObjectInfo> find(const ObjectUri& uri) = 0;
  // What is below `folder` (its key ends with '/' or is empty); nothing is not an error.
  virtual ObjectListing list(const ObjectUri& folder, ListDepth depth) = 0;
  // Sends no request, or one; `info` is what find or list said.
  virtual std::unique_ptr<ObjectReader> open(const ObjectUri& uri, const ObjectInfo& info) = 0;
  // The object appears whole when this returns, in the place of an older one.
  virtual void write(const ObjectUri& uri, std::string_view content) = 0;
  // Large files are sent by several requests.
  virtual void upload(const std::string& file, const ObjectUri& uri, const BeforePiece& before) = 0;
  // Removes what uploads below `folder` left that began long ago and were never completed. Only
  // their cost depends on it.
  virtual void remove_unfinished(const ObjectUri&) {}
  // Nothing to remove is not an error.
  virtual void remove(const ObjectUri& uri) = 0;
  // All objects below it.
  virtual void remove_folder(const ObjectUri& uri) = 0;
};

struct StoreOptions {
  // Address of S3 or GCS: "http://127.0.0.1:9000"; "": AWS_ENDPOINT_URL, or the store's own.
  std::string endpoint;
  int connections = 16;  // that may be open at the same time
};

// The endpoint that a store is reached by: of `options`, or of the environment. "": the one that
// its scheme stands for. The same address is another object at another endpoint.
std::string endpoint_of(const ObjectUri& uri, const StoreOptions& options);

using StoreFactory =
    std::function<std::unique_ptr<ObjectStore>(const ObjectUri&, const StoreOptions&)>;

// The store that has `uri`. Throws kUnsupported where the program was built without its library.
std::unique_ptr<ObjectStore> make_store(const ObjectUri& uri, const StoreOptions& options);

// One function a library.
std::unique_ptr<ObjectStore> make_arrow_store(const ObjectUri& uri, const StoreOptions& options);
std::unique_ptr<ObjectStore> make_http_store(const ObjectUri& uri, const StoreOptions& options);

// The file with the certificates of TLS that the system trusts: as the variable says, else where
// distributions have it. "": not found.
inline constexpr char kCertificatesVariable[] = "SSL_CERT_FILE";
std::string system_certificates();

// S3's library ends here for good, since Arrow cannot start it again; no store may exist any more.
// Called by main() before it returns: the library crashes where it is ended later (a handler of
// atexit) or not at all. Called again and without use it does nothing.
void finalize_stores();

}  // namespace emblem
