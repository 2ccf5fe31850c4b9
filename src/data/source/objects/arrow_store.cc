// Stores by Arrow's file systems: S3, GCS, Azure, HDFS.
#include "core/system/log.h"
#include "core/system/process.h"
#include "core/system/warn_once.h"
#include "data/source/objects/arrow_absence.h"
#include "data/source/objects/object_store.h"
#include "emblem/error.h"

#if defined(EMBLEM_WITH_ARROW)

#include <arrow/filesystem/azurefs.h>
#include <arrow/filesystem/filesystem.h>
#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/hdfs.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/config.h>
#include <arrow/util/io_util.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>

#include "core/files/file.h"
#include "core/text/text.h"
#include "data/source/objects/md5.h"
#include "data/source/objects/s3_uploads.h"

namespace emblem {
namespace {

namespace afs = arrow::fs;

// One line of what the libraries say, which may be many.
std::string reason_of(const arrow::Status& status) {
  std::string text = status.message();
  text = text.substr(0, text.find('\n'));
  constexpr size_t kMost = 300;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return printable(text);
}

bool mentions(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

constexpr const char* kClockSkew = "REQUEST_TIME_TOO_SKEWED";
constexpr const char* kRedirect = "HTTP status 301";

ErrorCode code_of(const arrow::Status& status) {
  const std::string& text = status.message();
  if (arrow::internal::ErrnoFromStatus(status) == ENOENT ||
      mentions(text, {"HTTP status 404", "NO_SUCH_BUCKET", "NO_SUCH_KEY", "does not exist",
                      "kNotFound", "NOT_FOUND"}))
    return ErrorCode::kNotFound;
  if (mentions(text, {kClockSkew, "HTTP status 401", "UNAUTHENTICATED", "kUnauthenticated"}))
    return ErrorCode::kUnauthenticated;
  if (mentions(text, {"HTTP status 403", "ACCESS_DENIED", "PERMISSION_DENIED", "kPermissionDenied",
                      "SIGNATURE_DOES_NOT_MATCH", "INVALID_ACCESS_KEY_ID", "AccessDenied"}))
    return ErrorCode::kPermissionDenied;
  // GCS, after an error on another thread: the file is opened again.
  if (mentions(text, {"closed file"})) return ErrorCode::kUnavailable;
  if (status.IsInvalid() || mentions(text, {kRedirect, "HTTP status 400", "HTTP status 412",
                                            "HTTP status 416", "Unable to load lib"}))
    return ErrorCode::kInvalidArgument;
  return ErrorCode::kUnavailable;
}

const char* advice_for(ErrorCode code, StoreKind kind) {
  if (code != ErrorCode::kPermissionDenied && code != ErrorCode::kUnauthenticated) return "";
  switch (kind) {
    case StoreKind::kS3:
      return "; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE, and the bucket's "
             "policy "
             "(EMBLEM_ANONYMOUS=1 for public buckets)";
    case StoreKind::kGcs:
      return "; check GOOGLE_APPLICATION_CREDENTIALS and the bucket's permissions "
             "(EMBLEM_ANONYMOUS=1 for public "
             "buckets)";
    default:
      return "; check the credentials in the environment";
  }
}

[[noreturn]] void fail(const arrow::Status& status, const char* doing, const ObjectUri& uri) {
  const ErrorCode code = code_of(status);
  const std::string& text = status.message();
  const char* advice = advice_for(code, uri.kind);
  if (mentions(text, {kClockSkew}))
    advice = "; the clocks of this machine and of the store differ: set this one";
  if (mentions(text, {kRedirect}))
    advice = "; the bucket is in another region, or at another endpoint: set AWS_REGION";
  throw Error(code, cat("cannot ", doing, " ", uri.shown(), ": ", reason_of(status), advice));
}

template <class T>
T value_of(arrow::Result<T> result, const char* doing, const ObjectUri& uri) {
  if (!result.ok()) fail(result.status(), doing, uri);
  return std::move(result).ValueUnsafe();
}

void require(const arrow::Status& status, const char* doing, const ObjectUri& uri) {
  if (!status.ok()) fail(status, doing, uri);
}

// Tries of data/source/retry.h are counted and reported; the library's would hide behind them.
class NoRetries final : public afs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail&, int64_t) override { return false; }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t) override { return 0; }
};

bool is_anonymous() { return environment_variable("EMBLEM_ANONYMOUS") == "1"; }

// "http://host:9000" as scheme and host.
std::pair<std::string, std::string> split_endpoint(const std::string& endpoint) {
  const size_t end = endpoint.find("://");
  EMBLEM_REQUIRE(
      end != std::string::npos && endpoint.find('@') == std::string::npos &&
          end + 3 < endpoint.size(),
      "the endpoint \"", printable(endpoint.find('@') == std::string::npos ? endpoint : "..."),
      "\" is not an address; expected http://HOST:PORT or https://HOST:PORT, without credentials");
  std::string host = endpoint.substr(end + 3);
  while (host.ends_with('/')) host.pop_back();
  return {endpoint.substr(0, end), host};
}

std::mutex s3_mutex;
enum class S3State { kNotStarted, kStarted, kFinalized } s3_state = S3State::kNotStarted;

void start_s3(const ObjectUri& uri) {
  const std::lock_guard lock(s3_mutex);
  if (s3_state == S3State::kStarted) return;
  if (s3_state == S3State::kFinalized)
    throw Error(ErrorCode::kInternal,
                cat("cannot reach ", uri.shown(), ": S3 was finalized in this process"));
  // The libraries inside of Arrow look for certificates where Debian's do not put them.
  afs::FileSystemGlobalOptions certificates;
  certificates.tls_ca_file_path = system_certificates();
  require(afs::Initialize(certificates), "reach", uri);
  afs::S3GlobalOptions options = afs::S3GlobalOptions::Defaults();
  options.log_level = afs::S3LogLevel::Off;
  require(afs::InitializeS3(options), "reach", uri);
  s3_state = S3State::kStarted;
}

constexpr size_t kPartBytes = size_t{10} << 20;  // of what Arrow uploads in parts

// A connection on which nothing arrives for this long is given up.
double stall_seconds() {
#if defined(EMBLEM_TEST_HOOKS)
  if (const char* seconds = std::getenv("EMBLEM_TEST_STALL_SECONDS")) return std::atof(seconds);
#endif
  return 20;
}

std::shared_ptr<afs::FileSystem> connect_s3(const ObjectUri& uri, const StoreOptions& options) {
  start_s3(uri);
  afs::S3Options s3 = is_anonymous() ? afs::S3Options::Anonymous() : afs::S3Options::Defaults();
  const std::string endpoint = endpoint_of(uri, options);
  if (!endpoint.empty()) std::tie(s3.scheme, s3.endpoint_override) = split_endpoint(endpoint);
  s3.region = environment_variable("AWS_REGION");
  if (s3.region.empty()) s3.region = environment_variable("AWS_DEFAULT_REGION");
  if (s3.region.empty())
    s3.region = endpoint.empty() ? value_of(afs::ResolveS3BucketRegion(uri.authority), "reach", uri)
                                 : "us-east-1";
  s3.force_virtual_addressing = environment_variable("AWS_S3_ADDRESSING_STYLE") == "virtual";
  s3.connect_timeout = 5;
  s3.request_timeout = stall_seconds();
  s3.allow_delayed_open = true;  // small objects are written by one request
  s3.retry_strategy = std::make_shared<NoRetries>();
  return value_of(afs::S3FileSystem::Make(s3), "reach", uri);
}

// The bucket of a store, for requests past Arrow.
S3Bucket s3_bucket(const ObjectUri& uri, const afs::S3Options& options) {
  S3Bucket bucket{.scheme = options.scheme,
                  .host = options.endpoint_override,
                  .path = "/" + uri.authority,
                  .credentials = {.access_key = options.GetAccessKey(),
                                  .secret_key = options.GetSecretKey(),
                                  .session_token = options.GetSessionToken(),
                                  .region = options.region}};
  if (bucket.host.empty())
    bucket.host = cat("s3.", options.region, ".amazonaws.com",
                      options.region.starts_with("cn-") ? ".cn" : "");
  if (options.force_virtual_addressing) {
    bucket.host = cat(uri.authority, ".", bucket.host);
    bucket.path.clear();
  }
  return bucket;
}

std::shared_ptr<afs::FileSystem> connect_gcs(const ObjectUri& uri, const StoreOptions& options) {
  const bool anonymous =
      is_anonymous() ||
      (!options.endpoint.empty() && environment_variable("GOOGLE_APPLICATION_CREDENTIALS").empty());
  afs::GcsOptions gcs = anonymous ? afs::GcsOptions::Anonymous() : afs::GcsOptions::Defaults();
  if (!options.endpoint.empty())
    std::tie(gcs.scheme, gcs.endpoint_override) = split_endpoint(options.endpoint);
  gcs.retry_limit_seconds = 3;
  return value_of(afs::GcsFileSystem::Make(gcs), "reach", uri);
}

std::shared_ptr<afs::FileSystem> connect_azure(const ObjectUri& uri) {
  std::string path;
  afs::AzureOptions azure = value_of(
      afs::AzureOptions::FromUri(uri.scheme + "://" + uri.authority + "/", &path), "reach", uri);
  const std::string key = environment_variable("AZURE_STORAGE_KEY");
  if (azure.account_name.empty())
    azure.account_name = environment_variable("AZURE_STORAGE_ACCOUNT");
  if (is_anonymous())
    require(azure.ConfigureAnonymousCredential(), "reach", uri);
  else if (!key.empty())
    require(azure.ConfigureAccountKeyCredential(key), "reach", uri);
  return value_of(afs::AzureFileSystem::Make(azure), "reach", uri);
}

std::shared_ptr<afs::FileSystem> connect_hdfs(const ObjectUri& uri) {
  const afs::HdfsOptions options =
      value_of(afs::HdfsOptions::FromUri("hdfs://" + uri.authority + "/"), "reach", uri);
  return value_of(afs::HadoopFileSystem::Make(options), "reach", uri);
}

std::shared_ptr<afs::FileSystem> connect(const ObjectUri& uri, const StoreOptions& options) {
  // The number of connections of S3's client follows from it.
  if (arrow::io::GetIOThreadPoolCapacity() < options.connections)
    require(arrow::io::SetIOThreadPoolCapacity(options.connections), "reach", uri);
  switch (uri.kind) {
    case StoreKind::kS3:
      return connect_s3(uri, options);
    case StoreKind::kGcs:
      return connect_gcs(uri, options);
    case StoreKind::kAzure:
      return connect_azure(uri);
    default:
      return connect_hdfs(uri);
  }
}

class ArrowReader final : public ObjectReader {
 public:
  ArrowReader(ObjectUri uri, std::shared_ptr<arrow::io::RandomAccessFile> file)
      : uri_(std::move(uri)), file_(std::move(file)) {}

  int64_t read_at(int64_t offset, int64_t count, void* into) override {
    return value_of(file_->ReadAt(offset, count, into), "read", uri_);
  }
  // GCS's reader names the generation of the object with every request.
  bool reads_one_version() const override { return uri_.kind == StoreKind::kGcs; }
  // GCS's reader has it from its first request; objects that were composed have none.
  std::string md5() const override {
    if (uri_.kind != StoreKind::kGcs) return "";
    const auto metadata = file_->ReadMetadata();
    if (!metadata.ok() || *metadata == nullptr) return "";
    return md5_of_base64((*metadata)->Get("md5Hash").ValueOr(""));
  }

 private:
  ObjectUri uri_;
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
};

int64_t seconds_of(afs::TimePoint time) {
  if (time == afs::kNoTime) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

class ArrowStore final : public ObjectStore {
 public:
  ArrowStore(const ObjectUri& uri, const StoreOptions& options)
      : root_(uri.with_key("")), system_(connect(uri, options)) {
    if (uri.kind == StoreKind::kHdfs) {
      prefix_ = "/";
    } else {
      prefix_ = uri.authority.substr(0, uri.authority.find('@')) + "/";  // Azure: the container
    }
  }

  std::optional<ObjectInfo> find(const ObjectUri& uri) override {
    if (uri.kind == StoreKind::kS3) return find_in_s3(uri);
    const afs::FileInfo info = value_of(system_->GetFileInfo(path_of(uri)), "read", uri);
    if (info.type() != afs::FileType::File) return std::nullopt;
    return info_of(info);
  }

  ObjectListing list(const ObjectUri& folder, ListDepth depth) override {
    afs::FileSelector selector;
    selector.base_dir = path_of(folder);
    while (selector.base_dir.size() > 1 && selector.base_dir.ends_with('/'))
      selector.base_dir.pop_back();
    // GCS's file system does not list folders that have no object of their own.
    const bool derives_folders = folder.kind == StoreKind::kGcs && depth == ListDepth::kDirect;
    selector.recursive = depth == ListDepth::kAll || derives_folders;
    selector.allow_not_found = true;
    ObjectListing listing;
    for (const afs::FileInfo& info : value_of(system_->GetFileInfo(selector), "list", folder)) {
      if (info.type() == afs::FileType::File)
        listing.objects.push_back(info_of(info));
      else if (info.type() == afs::FileType::Directory && depth == ListDepth::kDirect &&
               !derives_folders)
        listing.folders.push_back(info.base_name());
    }
    if (derives_folders) move_folders(folder, listing);
    return listing;
  }

  std::unique_ptr<ObjectReader> open(const ObjectUri& uri, const ObjectInfo& info) override {
    afs::FileInfo known(path_of(uri), afs::FileType::File);
    known.set_size(info.bytes);
    return std::make_unique<ArrowReader>(uri, value_of(system_->OpenInputFile(known), "read", uri));
  }

  void write(const ObjectUri& uri, std::string_view content) override {
    send(content, uri, [](int64_t, bool) {});
  }

  void upload(const std::string& file, const ObjectUri& uri, const BeforePiece& before) override {
    const MappedFile content(file);
    send({content.bytes().data(), content.bytes().size()}, uri, before);
  }

  void remove_unfinished(const ObjectUri& folder) override {
    if (folder.kind == StoreKind::kS3) abort(folder, UploadsOf::kFolder);
  }

  void remove(const ObjectUri& uri) override {
    const arrow::Status status = system_->DeleteFile(path_of(uri));
    if (!status.ok() && code_of(status) != ErrorCode::kNotFound) fail(status, "remove", uri);
  }

  void remove_folder(const ObjectUri& uri) override {
    const arrow::Status status = system_->DeleteDir(path_of(uri));
    if (!status.ok() && code_of(status) != ErrorCode::kNotFound) fail(status, "remove", uri);
  }

 private:
  std::string path_of(const ObjectUri& uri) const { return prefix_ + uri.key; }

  void send(std::string_view content, const ObjectUri& uri, const BeforePiece& before) {
    const auto stream = open_for_writing(uri);
    const bool has_parts = uri.kind == StoreKind::kS3 && content.size() > kPartBytes;
    bool closes = false;
    try {
      send_pieces(content, *stream, uri, before);
      // Parts are sent by other threads. Arrow aborts an upload whose parts failed, but not after
      // Close() has met the error.
      if (has_parts) require(stream->Flush(), "write", uri);
      before(has_parts ? 0 : std::ssize(content), has_parts);
      closes = true;
      require(stream->Close(), "write", uri);
    } catch (...) {
      // Destructors close streams: parts that were sent would become an object.
      const bool is_aborted = stream->Abort().ok() && !closes;
      if (has_parts && !is_aborted) try_to_abort(uri);
      throw;
    }
  }

  static void send_pieces(std::string_view left, arrow::io::OutputStream& stream,
                          const ObjectUri& uri, const BeforePiece& before) {
    constexpr size_t kPiece = size_t{8} << 20;
    // Arrow keeps in memory what S3 has not taken, without a limit. Others take what is written.
    const size_t most = uri.kind == StoreKind::kS3 ? 4 * kPiece : kPiece;
    size_t under_way = 0;
    while (!left.empty()) {
      const std::string_view piece = left.substr(0, kPiece);
      const bool has_taken = under_way + piece.size() > most;
      if (has_taken) {
        if (uri.kind == StoreKind::kS3) require(stream.Flush(), "write", uri);
        under_way = 0;
      }
      under_way += piece.size();
      before(static_cast<int64_t>(under_way), has_taken);
      require(stream.Write(piece), "write", uri);
      left.remove_prefix(piece.size());
    }
  }

  void abort(const ObjectUri& uri, UploadsOf of) {
    const auto& s3 = dynamic_cast<const afs::S3FileSystem&>(*system_);
    abort_uploads(s3_bucket(uri, s3.options()), uri.key, of);
  }

  // After an upload that failed.
  void try_to_abort(const ObjectUri& uri) {
    try {
      abort(uri, UploadsOf::kObject);
    } catch (const std::exception& error) {
      warn_once("parts of uploads",
                cat("parts of ", uri.shown(), " may stay in the store, not listed but billed (",
                    error.what(), "); give the bucket ", uri.authority,
                    " a lifecycle rule that aborts incomplete multipart uploads "
                    "(AbortIncompleteMultipartUpload)"));
    }
  }

  ObjectInfo info_of(const afs::FileInfo& info) const {
    std::string_view path = info.path();
    if (path.starts_with(prefix_)) path.remove_prefix(prefix_.size());
    const int64_t seconds = seconds_of(info.mtime());
    // Listings of S3 have no etag and whole seconds; GCS's times are as good as a version.
    const std::string etag = root_.kind == StoreKind::kS3 || seconds == 0
                                 ? ""
                                 : cat("t", info.mtime().time_since_epoch().count());
    return {root_.with_key(std::string(path)).text(), info.size(), seconds, etag};
  }

  // Only the folder stays of objects further below.
  static void move_folders(const ObjectUri& folder, ObjectListing& listing) {
    std::set<std::string> folders;
    std::erase_if(listing.objects, [&](const ObjectInfo& info) {
      const std::string name = info.uri.substr(folder.text().size());
      const size_t slash = name.find('/');
      if (slash != std::string::npos) folders.insert(name.substr(0, slash));
      return slash != std::string::npos;
    });
    listing.folders.assign(folders.begin(), folders.end());
  }

  // One request, which has the etag; GetFileInfo would list where there is no such object.
  std::optional<ObjectInfo> find_in_s3(const ObjectUri& uri) {
    const auto opened = system_->OpenInputFile(path_of(uri));
    if (!opened.ok()) {
      if (code_of(opened.status()) == ErrorCode::kNotFound && !is_missing_bucket(opened.status()))
        return std::nullopt;
      fail(opened.status(), "read", uri);
    }
    ObjectInfo info{uri.text(), value_of((*opened)->GetSize(), "read", uri), 0, ""};
    const auto metadata = value_of((*opened)->ReadMetadata(), "read", uri);
    if (metadata == nullptr) return info;
    info.etag = metadata->Get("ETag").ValueOr("");
    info.md5 = md5_of_etag(info.etag);
    info.modified = parse_time(metadata->Get("Last-Modified").ValueOr(""));
    return info;
  }

  static bool is_missing_bucket(const arrow::Status& status) {
    return mentions(status.message(), {"NO_SUCH_BUCKET"});
  }

  // "2026-11-16T19:30:00Z"; 0 for anything else.
  static int64_t parse_time(const std::string& text) {
    std::tm parts{};
    if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return 0;
    return ::timegm(&parts);
  }

  std::shared_ptr<arrow::io::OutputStream> open_for_writing(const ObjectUri& uri) {
    if (uri.kind == StoreKind::kHdfs) {
      const size_t slash = uri.key.rfind('/');
      if (slash != std::string::npos)
        require(system_->CreateDir(prefix_ + uri.key.substr(0, slash), true), "write", uri);
    }
    return value_of(system_->OpenOutputStream(path_of(uri)), "write", uri);
  }

  ObjectUri root_;
  std::shared_ptr<afs::FileSystem> system_;
  std::string prefix_;
};

}  // namespace

std::unique_ptr<ObjectStore> make_arrow_store(const ObjectUri& uri, const StoreOptions& options) {
  return std::make_unique<ArrowStore>(uri, options);
}

void finalize_stores() {
  const std::lock_guard lock(s3_mutex);
  if (s3_state != S3State::kStarted) return;
  s3_state = S3State::kFinalized;
  static_cast<void>(afs::FinalizeS3());
}

}  // namespace emblem

#else

namespace emblem {

std::unique_ptr<ObjectStore> make_arrow_store(const ObjectUri& uri, const StoreOptions&) {
  throw Error(ErrorCode::kUnsupported, cat(uri.shown(), " cannot be read: ", arrow_absence(),
                                           "; or copy the files to this machine by other means"));
}

void finalize_stores() {}

}  // namespace emblem

#endif
