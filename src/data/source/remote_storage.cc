#include "data/source/remote_storage.h"

#include <algorithm>

#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "data/source/data_set_manifest.h"
#include "data/source/objects/content_md5.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kMemoryBytes = int64_t{256} << 20;  // memory for parts that are read through it

bool has_hidden_segment(const std::string& key, size_t from) {
  const std::vector<std::string> segments = split(std::string_view(key).substr(from), '/');
  return std::any_of(segments.begin(), segments.end(),
                     [](const auto& name) { return is_hidden_name(name); });
}

std::string folder_of(const std::string& key) {
  return key.empty() || key.ends_with('/') ? key : key + "/";
}

}  // namespace

RemoteOptions remote_options(const config::DataConfig& data) {
  RemoteOptions options;
  options.cache_dir = data.cache_dir();
  options.cache_bytes = static_cast<int64_t>(data.cache_bytes());
  options.download_threads = static_cast<int>(data.download_threads());
  options.part_bytes = static_cast<int64_t>(data.part_bytes());
  options.endpoint = data.endpoint();
  return options;
}

RemoteStatistics RemoteStatistics::operator-(const RemoteStatistics& before) const {
  return {requests - before.requests,
          retries - before.retries,
          downloaded_bytes - before.downloaded_bytes,
          objects - before.objects,
          bytes - before.bytes,
          cached_objects - before.cached_objects,
          cached_bytes - before.cached_bytes,
          memory_objects - before.memory_objects,
          evictions - before.evictions,
          wait_seconds - before.wait_seconds};
}

RemoteStorage::RemoteStorage(RemoteOptions options, StoreFactory factory)
    : options_(std::move(options)),
      factory_(std::move(factory)),
      memory_(std::max(kMemoryBytes, 4 * options_.part_bytes)),
      queue_(options_.download_threads) {
  EMBLEM_REQUIRE(options_.download_threads >= 1 && options_.download_threads <= 1024,
                 "data_config.download_threads is ", options_.download_threads,
                 "; expected 1 to 1024");
  EMBLEM_REQUIRE(options_.part_bytes >= 65536, "data_config.part_bytes is ", options_.part_bytes,
                 "; expected at least 65536");
}

RemoteStorage::~RemoteStorage() {
  counters_.stopped = true;
  queue_.stop();
}

RemoteStorage::Connection& RemoteStorage::connection_of(const ObjectUri& uri) {
  Connection* connection = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto& slot = stores_[uri.scheme + "://" + uri.authority];
    if (slot == nullptr)
      slot = std::make_unique<Connection>(uri, endpoint_of(uri, store_options()));
    connection = slot.get();
  }
  const std::lock_guard connecting(connection->mutex);
  if (connection->store == nullptr)
    with_retries(counters_, [&] { connection->store = factory_(uri, store_options()); });
  return *connection;
}

std::string RemoteStorage::identity_of(const std::string& text) const {
  const ObjectUri uri = parse_object_uri(text);
  const std::string endpoint = endpoint_of(uri, store_options());
  return endpoint.empty() ? uri.text() : endpoint + " " + uri.text();
}

ObjectCache& RemoteStorage::cache() {
  const std::lock_guard lock(mutex_);
  if (cache_ == nullptr)
    cache_ = std::make_unique<ObjectCache>(cache_folder(options_.cache_dir), options_.cache_bytes);
  return *cache_;
}

std::optional<ObjectInfo> RemoteStorage::find(const std::string& text) {
  const ObjectUri uri = parse_object_uri(text);
  Connection& connection = connection_of(uri);
  std::optional<ObjectInfo> info;
  with_retries(counters_, [&] { info = connection.store->find(uri); });
  if (info) info->store = connection.endpoint;
  return info;
}

ObjectListing RemoteStorage::list(const std::string& prefix, ListDepth depth) {
  ObjectUri uri = parse_object_uri(prefix);
  uri.key = folder_of(uri.key);
  Connection& connection = connection_of(uri);
  ObjectListing listing;
  with_retries(counters_, [&] { listing = connection.store->list(uri, depth); });
  for (ObjectInfo& info : listing.objects) info.store = connection.endpoint;
  return listing;
}

void RemoteStorage::check_whole(ObjectListing& listing) {
  check_data_sets(listing.objects,
                  [&](const ObjectInfo& object) { return read_range(object, 0, object.bytes); });
}

// Folder by folder, so that only what may fit is listed.
std::vector<ObjectInfo> RemoteStorage::match(const ObjectUri& pattern) {
  const std::vector<std::string> segments = split(pattern.key, '/');
  std::vector<std::string> folders{""};  // keys
  std::vector<ObjectInfo> found;
  for (size_t level = 0; level < segments.size(); ++level) {
    const bool is_last = level + 1 == segments.size();
    std::vector<std::string> next;
    for (const std::string& folder : folders) {
      if (!is_glob(segments[level]) && !is_last) {
        next.push_back(folder + segments[level] + "/");
        continue;
      }
      ObjectListing listing = list(pattern.with_key(folder).text(), ListDepth::kDirect);
      if (is_last) check_whole(listing);
      for (const std::string& name : listing.folders) {
        if (!matches_segment(segments[level], name)) continue;
        if (!is_last) {
          next.push_back(folder + name + "/");
          continue;
        }
        // A folder that fits stands for what is in it, as on a disk.
        ObjectListing below = list(pattern.with_key(folder + name).text(), ListDepth::kDirect);
        check_whole(below);
        for (const ObjectInfo& info : below.objects)
          if (!has_hidden_segment(parse_object_uri(info.uri).key, folder.size()))
            found.push_back(info);
      }
      for (const ObjectInfo& info : listing.objects)
        if (is_last &&
            matches_segment(segments[level], parse_object_uri(info.uri).key.substr(folder.size())))
          found.push_back(info);
    }
    folders = std::move(next);
  }
  return found;
}

std::vector<ObjectInfo> RemoteStorage::expand(const std::string& text) {
  const ObjectUri uri = parse_object_uri(text);
  std::vector<ObjectInfo> found;
  if (uri.kind != StoreKind::kHttp && is_glob(uri.key)) {
    found = match(uri);
    if (found.empty()) throw Error(ErrorCode::kNotFound, cat("no object matches ", uri.shown()));
  } else {
    const bool is_folder = uri.key.empty() || uri.key.ends_with('/');
    if (!is_folder || uri.kind == StoreKind::kHttp)
      if (auto info = find(text)) found.push_back(*info);
    if (found.empty() && uri.kind != StoreKind::kHttp) {
      const size_t prefix = folder_of(uri.key).size();
      ObjectListing listing = list(text, ListDepth::kAll);
      check_whole(listing);
      for (ObjectInfo& info : listing.objects)
        if (info.bytes > 0 && !has_hidden_segment(parse_object_uri(info.uri).key, prefix))
          found.push_back(std::move(info));
    }
    if (found.empty())
      throw Error(ErrorCode::kNotFound,
                  cat("cannot read ", uri.shown(), ": there is no such object",
                      uri.kind == StoreKind::kHttp ? "" : ", nor any below that prefix"));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.uri < b.uri; });
  const std::lock_guard lock(mutex_);
  known_.add(found);
  return found;
}

std::shared_ptr<ObjectFile> RemoteStorage::open(const std::string& text) {
  const ObjectUri uri = parse_object_uri(text);
  std::optional<ObjectInfo> info;
  {
    const std::lock_guard lock(mutex_);
    info = known_.find(uri.text());
  }
  if (!info) {
    info = find(text);
    if (!info)
      throw Error(ErrorCode::kNotFound,
                  cat("cannot open ", uri.shown(), ": there is no such object"));
    const std::lock_guard lock(mutex_);
    known_.add_one(*info);
  }
  if (info->bytes == 0)
    throw Error(ErrorCode::kCorruption, cat(uri.shown(), " is empty; expected a file with rows"));
  Connection& connection = connection_of(uri);
  const RemoteParts shared{&cache(), &queue_,           &counters_,
                           &memory_, &connection.check, options_.part_bytes};
  const std::lock_guard lock(mutex_);
  return files_.find_or_make(cache_name(*info), [&] {
    return std::make_shared<ObjectFile>(*info, *connection.store, shared);
  });
}

std::string RemoteStorage::read_range(const ObjectInfo& object, int64_t offset, int64_t bytes) {
  const ObjectUri uri = parse_object_uri(object.uri);
  ObjectStore& store = store_of(uri);
  std::string content(static_cast<size_t>(bytes), '\0');
  with_retries(counters_, [&] {
    const int64_t got =
        bytes == 0 ? 0 : store.open(uri, object)->read_at(offset, bytes, content.data());
    counters_.downloaded_bytes += got;
    if (got < bytes)
      throw Error(ErrorCode::kUnavailable,
                  cat("cannot read ", uri.shown(), ": ", got, " bytes arrived, expected ", bytes));
  });
  return content;
}

std::string RemoteStorage::read_text(const std::string& text) {
  const auto info = find(text);
  if (!info)
    throw Error(ErrorCode::kNotFound,
                cat("cannot read ", shown_uri(text), ": there is no such object"));
  const ObjectUri uri = parse_object_uri(text);
  ContentCheck& check = connection_of(uri).check;
  std::string content, before, problem;
  for (int attempt = 0; attempt < kDamagedAttempts; ++attempt) {
    content = read_range(*info, 0, info->bytes);
    problem = check.problem(uri, info->md5, info->bytes, [&](const ContentCheck::Take& take) {
      take(content.data(), content.size());
    });
    if (!problem.empty() && is_md5_of_parts(info->md5) && content == before) {
      check.accept_parts(uri, info->md5);
      problem.clear();
    }
    if (problem.empty()) return content;
    before = std::move(content);
  }
  throw Error(ErrorCode::kUnavailable, problem);
}

void RemoteStorage::check_copy(const ObjectInfo& object, const std::string& path) {
  const ObjectUri uri = parse_object_uri(object.uri);
  ContentCheck& check = connection_of(uri).check;
  if (!check.compares(object.md5)) return;
  const MappedFile file(path);
  const std::string problem = check.problem(
      uri, object.md5, object.bytes,
      [&](const ContentCheck::Take& take) { take(file.bytes().data(), file.bytes().size()); });
  if (problem.empty()) return;
  if (!is_md5_of_parts(object.md5) || !arrives_again(object, file.bytes()))
    throw Error(ErrorCode::kUnavailable, problem);
  check.accept_parts(uri, object.md5);
}

// Whether another download of the object has the same content.
bool RemoteStorage::arrives_again(const ObjectInfo& object, std::span<const char> content) {
  if (static_cast<int64_t>(content.size()) != object.bytes) return false;
  for (int64_t at = 0; at < object.bytes; at += options_.part_bytes) {
    const int64_t count = std::min(options_.part_bytes, object.bytes - at);
    const auto here = content.subspan(static_cast<size_t>(at), static_cast<size_t>(count));
    if (read_range(object, at, count) != std::string_view(here.data(), here.size())) return false;
  }
  return true;
}

void RemoteStorage::write_text(const std::string& text, std::string_view content,
                               const BeforeWrite& before) {
  const ObjectUri uri = parse_object_uri(text);
  ObjectStore& store = store_of(uri);
  with_retries(counters_, before, [&] { store.write(uri, content); });
}

void RemoteStorage::upload(const std::string& file, const std::string& text,
                           const BeforeWrite& before) {
  const ObjectUri uri = parse_object_uri(text);
  ObjectStore& store = store_of(uri);
  with_retries(counters_, before, [&] {
    BytesUnderWay bytes(*counters_.activity);
    store.upload(file, uri, [&](int64_t under_way, bool has_taken) {
      bytes.set(under_way, has_taken);
      if (before) before();
    });
  });
}

void RemoteStorage::remove_unfinished(const std::string& text) {
  ObjectUri uri = parse_object_uri(text);
  if (uri.key.empty()) return;  // of a whole bucket, which others use, too
  uri.key = folder_of(uri.key);
  store_of(uri).remove_unfinished(uri);
}

void RemoteStorage::remove(const std::string& text, const BeforeWrite& before) {
  const ObjectUri uri = parse_object_uri(text);
  ObjectStore& store = store_of(uri);
  with_retries(counters_, before, [&] { store.remove(uri); });
}

void RemoteStorage::remove_folder(const std::string& text, const BeforeWrite& before) {
  ObjectUri uri = parse_object_uri(text);
  while (uri.key.ends_with('/')) uri.key.pop_back();
  ObjectStore& store = store_of(uri);
  with_retries(counters_, before, [&] { store.remove_folder(uri); });
}

RemoteStatistics RemoteStorage::statistics() {
  RemoteStatistics statistics;
  statistics.requests = counters_.requests;
  statistics.retries = counters_.retries;
  statistics.downloaded_bytes = counters_.downloaded_bytes;
  statistics.objects = counters_.opened_objects;
  statistics.bytes = counters_.opened_bytes;
  statistics.cached_objects = counters_.cached_objects;
  statistics.cached_bytes = counters_.cached_bytes;
  statistics.memory_objects = counters_.memory_objects;
  statistics.wait_seconds = static_cast<double>(counters_.wait_nanoseconds) / 1e9;
  const std::lock_guard lock(mutex_);
  if (cache_ != nullptr) statistics.evictions = cache_->evictions();
  return statistics;
}

void RemoteStorage::set_tables(const std::string& address, MemoryTables tables) {
  const std::lock_guard lock(mutex_);
  if (tables.empty())
    tables_.erase(address);
  else
    tables_[address] = std::move(tables);
}

void RemoteStorage::set_table_passes(const std::string& address, TablePasses source) {
  const std::lock_guard lock(mutex_);
  if (source == nullptr)
    table_passes_.erase(address);
  else
    table_passes_[address] = std::move(source);
}

TablePasses RemoteStorage::table_passes(const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto found = table_passes_.find(address);
  return found == table_passes_.end() ? nullptr : found->second;
}

MemoryTables RemoteStorage::tables(const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(address);
  return found == tables_.end() ? MemoryTables() : found->second;
}

// ---- of configurations ----

Storage open_storage(const config::DataConfig& data) {
  return std::make_shared<RemoteStorage>(remote_options(data));
}

RemoteStorage& storage_for(const Storage& storage, const std::string& uri) {
  if (storage == nullptr)
    throw Error(ErrorCode::kInternal,
                cat(shown_uri(uri), " is in a remote store, and no settings of stores were given"));
  return *storage;
}

bool has_remote_inputs(const std::string& inputs) {
  for (const std::string& item : split(inputs, ','))
    if (is_object_uri(trim(item))) return true;
  return false;
}

bool is_memory_address(std::string_view input) { return input.starts_with("memory://"); }

TablePasses table_passes(const Storage& storage, const std::string& address) {
  return storage == nullptr ? nullptr : storage->table_passes(address);
}

MemoryTables memory_tables(const Storage& storage, const std::string& address) {
  MemoryTables tables = storage == nullptr ? MemoryTables() : storage->tables(address);
  if (tables.empty() && table_passes(storage, address) != nullptr)
    throw Error(ErrorCode::kUnsupported,
                cat(printable(address),
                    " is read table by table and cannot be used here; give tables or files"));
  if (tables.empty())
    throw Error(ErrorCode::kNotFound,
                cat(printable(address),
                    " names rows in the memory of the process that trained on "
                    "them; give files with --input, --train-input or --eval-input"));
  return tables;
}

std::vector<std::string> expand_inputs(std::string_view list, const Storage& storage) {
  std::vector<std::string> files;
  for (const std::string& piece : split(list, ',')) {
    const std::string item(trim(piece));
    if (item.empty()) continue;
    if (is_memory_address(item)) {
      if (table_passes(storage, item) == nullptr) memory_tables(storage, item);  // is it there?
      files.push_back(item);
    } else if (is_object_uri(item)) {
      for (const ObjectInfo& info : storage_for(storage, item).expand(item))
        files.push_back(info.uri);
    } else {
      for (std::string& file : expand_paths(item)) files.push_back(std::move(file));
    }
  }
  if (files.empty()) expand_paths("");  // the same message
  return files;
}

std::string absolute_inputs(std::string_view list) {
  if (list.starts_with("kafka://")) return absolute_paths(list);  // has commas between brokers
  std::string absolute;
  for (const std::string& piece : split(list, ',')) {
    const std::string item(trim(piece));
    if (item.empty()) continue;
    const bool is_address = is_object_uri(item) || is_memory_address(item);
    absolute += (absolute.empty() ? "" : ",") + (is_address ? item : absolute_paths(item));
  }
  return absolute;
}

}  // namespace emblem
