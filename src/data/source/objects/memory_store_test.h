// data/source/objects/memory_store_test.h - a store in memory for tests, with faults.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "core/files/file.h"
#include "data/source/objects/object_store.h"
#include "emblem/error.h"

namespace emblem {

// Thrown before a write or a removal: nothing is changed, though the store says so.
struct SkippedRequest {};
// Thrown before a listing: it is answered by nothing, as when a proxy's page is in its place.
struct EmptyListing {};

// What all stores of a test share.
struct MemoryObjects {
  struct Object {
    std::string content;
    int64_t modified = 1000;
    int version = 0;
  };
  std::mutex mutex;
  std::map<std::string, Object> objects;  // by address
  std::atomic<int> failures{0};           // number of reads that fail
  std::atomic<int> short_reads{0};        // number of reads that return half
  std::atomic<int> reads{0}, finds{0}, lists{0};
  // Called with "PUT URI", "GET URI", "HEAD URI", "LIST URI" or "DELETE URI" before a request has
  // its effect, and after; what they throw, the request throws.
  std::function<void(const std::string&request)> before, after;

  // Runs a request between the two.
  template <class Request>
  auto requested(const std::string& what, const Request& request) {
    if (before) before(what);
    if constexpr (std::is_void_v<decltype(request())>) {
      request();
      if (after) after(what);
    } else {
      auto result = request();
      if (after) after(what);
      return result;
    }
  }

  void put(const std::string& uri, std::string content, int64_t modified = 1000) {
    const std::lock_guard lock(mutex);
    Object& object = objects[uri];
    object = {std::move(content), modified, object.version + 1};
  }
  std::string get(const std::string& uri) {
    const std::lock_guard lock(mutex);
    return objects.at(uri).content;
  }
  void remove(const std::string& uri) {
    const std::lock_guard lock(mutex);
    objects.erase(uri);
  }
};

class MemoryReader final : public ObjectReader {
 public:
  MemoryReader(MemoryObjects& all, std::string uri) : all_(all), uri_(std::move(uri)) {}
  int64_t read_at(int64_t offset, int64_t count, void* into) override {
    return all_.requested("GET " + uri_, [&] { return read(offset, count, into); });
  }

 private:
  int64_t read(int64_t offset, int64_t count, void* into) {
    ++all_.reads;
    if (all_.failures.fetch_sub(1) > 0)
      throw Error(ErrorCode::kUnavailable, "cannot read " + uri_ + ": HTTP status 503");
    all_.failures = std::max(0, all_.failures.load());
    const std::lock_guard lock(all_.mutex);
    const auto found = all_.objects.find(uri_);
    if (found == all_.objects.end()) throw Error(ErrorCode::kNotFound, "cannot read " + uri_);
    const std::string& content = found->second.content;
    int64_t bytes = std::clamp<int64_t>(static_cast<int64_t>(content.size()) - offset, 0, count);
    if (bytes > 1 && all_.short_reads.fetch_sub(1) > 0) bytes /= 2;
    if (bytes > 0) std::memcpy(into, content.data() + offset, static_cast<size_t>(bytes));
    return bytes;
  }

  MemoryObjects& all_;
  std::string uri_;
};

class TestObjectStore final : public ObjectStore {
 public:
  explicit TestObjectStore(MemoryObjects& all) : all_(all) {}

  std::optional<ObjectInfo> find(const ObjectUri& uri) override {
    return all_.requested("HEAD " + uri.text(), [&] { return find_now(uri); });
  }
  ObjectListing list(const ObjectUri& folder, ListDepth depth) override {
    try {
      return all_.requested("LIST " + folder.text(), [&] { return list_now(folder, depth); });
    } catch (const EmptyListing&) {
      return {};
    }
  }
  std::unique_ptr<ObjectReader> open(const ObjectUri& uri, const ObjectInfo&) override {
    return std::make_unique<MemoryReader>(all_, uri.text());
  }
  void write(const ObjectUri& uri, std::string_view content) override {
    change("PUT " + uri.text(), [&] { all_.put(uri.text(), std::string(content)); });
  }
  void upload(const std::string& file, const ObjectUri& uri, const BeforePiece&) override {
    change("PUT " + uri.text(), [&] { all_.put(uri.text(), read_text_file(file)); });
  }
  void remove(const ObjectUri& uri) override {
    change("DELETE " + uri.text(), [&] { all_.remove(uri.text()); });
  }
  void remove_folder(const ObjectUri& uri) override {
    change("DELETE " + uri.text() + "/", [&] {
      const std::lock_guard lock(all_.mutex);
      std::erase_if(all_.objects,
                    [&](const auto& entry) { return entry.first.starts_with(uri.text() + "/"); });
    });
  }

 private:
  template <class Change>
  void change(const std::string& what, const Change& change) {
    try {
      all_.requested(what, change);
    } catch (const SkippedRequest&) {
    }
  }
  std::optional<ObjectInfo> find_now(const ObjectUri& uri) {
    ++all_.finds;
    const std::lock_guard lock(all_.mutex);
    const auto found = all_.objects.find(uri.text());
    if (found == all_.objects.end()) return std::nullopt;
    ObjectInfo info = info_of(*found);
    info.etag = "v" + std::to_string(found->second.version);
    return info;
  }
  ObjectListing list_now(const ObjectUri& folder, ListDepth depth) {
    ++all_.lists;
    const std::lock_guard lock(all_.mutex);
    ObjectListing listing;
    const std::string prefix = folder.text();
    for (const auto& entry : all_.objects) {
      if (!entry.first.starts_with(prefix)) continue;
      const size_t slash = entry.first.find('/', prefix.size());
      if (depth == ListDepth::kAll || slash == std::string::npos) {
        listing.objects.push_back(info_of(entry));
        continue;
      }
      const std::string name = entry.first.substr(prefix.size(), slash - prefix.size());
      if (listing.folders.empty() || listing.folders.back() != name)
        listing.folders.push_back(name);
    }
    return listing;
  }
  static ObjectInfo info_of(const std::pair<const std::string, MemoryObjects::Object>& entry) {
    return {entry.first, static_cast<int64_t>(entry.second.content.size()), entry.second.modified,
            ""};
  }
  MemoryObjects& all_;
};

inline StoreFactory memory_stores(MemoryObjects& all) {
  return [&all](const ObjectUri&, const StoreOptions&) {
    return std::make_unique<TestObjectStore>(all);
  };
}

// Bytes that differ from place to place.
inline std::string test_content(size_t bytes, uint64_t seed = 1) {
  std::string content(bytes, '\0');
  for (char& c : content) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    c = static_cast<char>(seed >> 56);
  }
  return content;
}

}  // namespace emblem
