// data/source/remote_storage.h - remote stores with the settings of one configuration: addresses
// become lists of objects, objects become files that are kept in the cache folder.
//
// A process has one for each configuration that it reads (data/source/storage.h), with an endpoint,
// a cache folder and connections of its own; two of them may use the same cache folder.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/proto/data.pb.h"
#include "data/source/known_objects.h"
#include "data/source/objects/content_check.h"
#include "data/source/objects/object_file.h"
#include "data/source/remote_statistics.h"
#include "data/source/storage.h"

namespace emblem {

struct RemoteOptions {
  std::string cache_dir;    // "": EMBLEM_CACHE, or the user's cache folder
  int64_t cache_bytes = 0;  // 0: 80 % of what is free
  int download_threads = 16;
  int64_t part_bytes = int64_t{8} << 20;
  std::string endpoint;

  bool operator==(const RemoteOptions&) const = default;
};

RemoteOptions remote_options(const config::DataConfig& data);

// Begins a pass over rows in memory that are asked for table by table; null at the end of the pass.
using NextTableOfPass = std::function<std::shared_ptr<const ColumnTable>()>;
using TablePasses = std::function<NextTableOfPass()>;

// Thread-safe. Files must not outlive it. Requests are sent without a lock that others wait for,
// apart from those who need the same connection.
class RemoteStorage {
 public:
  explicit RemoteStorage(RemoteOptions options, StoreFactory factory = make_store);
  ~RemoteStorage();

  const RemoteOptions& options() const { return options_; }

  // Distinguishes an address from the same one at another endpoint.
  std::string identity_of(const std::string& uri) const;

  // The objects that `uri` stands for, sorted: an object, all below a prefix ("s3://bucket/dir/";
  // hidden names are skipped), or those that fit a pattern ("s3://bucket/day=*/part-*.csv"). Throws
  // Error when there are none, and for a data set that Emblem has not written to the end
  // (data/source/data_set_manifest.h).
  std::vector<ObjectInfo> expand(const std::string& uri);

  // The version that the last expand() has seen, or the newest. Objects that are open already are
  // shared.
  std::shared_ptr<ObjectFile> open(const std::string& uri);
  // Nothing when there is no such object.
  std::optional<ObjectInfo> find(const std::string& uri);
  // The names of folders and objects directly below a prefix.
  ObjectListing list(const std::string& prefix, ListDepth depth);

  // A part of an object, past the cache.
  std::string read_range(const ObjectInfo& object, int64_t offset, int64_t bytes);
  // All of it, compared with what the store says of its content.
  std::string read_text(const std::string& uri);
  // Throws kUnavailable when the file, a copy of `object` as find() described it, is damaged.
  void check_copy(const ObjectInfo& object, const std::string& file);
  void write_text(const std::string& uri, std::string_view text, const BeforeWrite& before = {});
  void upload(const std::string& file, const std::string& uri, const BeforeWrite& before = {});
  // What uploads below it left that began more than a day ago and were never completed. Does
  // nothing for a whole bucket.
  void remove_unfinished(const std::string& uri);
  void remove(const std::string& uri, const BeforeWrite& before = {});
  void remove_folder(const std::string& uri, const BeforeWrite& before = {});

  // Rows in memory by address (data/source/storage.h); no tables: there are none any more.
  void set_tables(const std::string& address, MemoryTables tables);
  MemoryTables tables(const std::string& address);
  // The same for rows that are asked for table by table; null: there are none any more.
  void set_table_passes(const std::string& address, TablePasses source);
  TablePasses table_passes(const std::string& address);

  // From now on a request that fails is not tried again: the process is about to end.
  void stop_trying_again() { counters_.stopped = true; }

  std::shared_ptr<const StoreActivity> activity() const { return counters_.activity; }

  ObjectCache& cache();
  const DownloadQueue& queue() const { return queue_; }
  RemoteStatistics statistics();

 private:
  struct Connection {
    Connection(const ObjectUri& uri, std::string place)
        : endpoint(std::move(place)), check(uri, endpoint) {}
    const std::string endpoint;
    ContentCheck check;
    std::mutex mutex;  // held while the store is reached for the first time
    std::unique_ptr<ObjectStore> store;
  };

  Connection& connection_of(const ObjectUri& uri);  // connected
  ObjectStore& store_of(const ObjectUri& uri) { return *connection_of(uri).store; }
  StoreOptions store_options() const { return {options_.endpoint, options_.download_threads}; }
  std::vector<ObjectInfo> match(const ObjectUri& pattern);
  bool arrives_again(const ObjectInfo& object, std::span<const char> content);
  void check_whole(ObjectListing& listing);

  const RemoteOptions options_;
  const StoreFactory factory_;
  RemoteCounters counters_;
  MemoryParts memory_;
  std::mutex mutex_;  // guards what follows up to the files
  std::unique_ptr<ObjectCache> cache_;
  std::map<std::string, std::unique_ptr<Connection>> stores_;  // by scheme and bucket
  KnownObjects known_;
  OpenObjects files_;
  std::map<std::string, MemoryTables> tables_;       // by address
  std::map<std::string, TablePasses> table_passes_;  // by address
  DownloadQueue queue_;
};

// The source of the rows at a memory address; null where these are tables, or not there.
TablePasses table_passes(const Storage& storage, const std::string& address);

// As core/files/file.h's expand_paths, for a list that may hold addresses of remote objects, too.
std::vector<std::string> expand_inputs(std::string_view list, const Storage& storage);
// As core/files/file.h's absolute_paths; addresses stay as they are.
std::string absolute_inputs(std::string_view list);

}  // namespace emblem
