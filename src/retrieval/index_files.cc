// Index::save and Index::load.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/files/atomic_folder.h"
#include "core/files/file.h"
#include "core/math/checksum.h"
#include "core/text/json_error.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/api.h"
#include "emblem/error.h"
#include "retrieval/device_items.h"
#include "retrieval/index.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char *kFormat = "emblem-index", *kManifest = "manifest.json";
constexpr int64_t kFormatVersion = 1;

// An index in the making.
class NewIndex {
 public:
  explicit NewIndex(const std::string& path) : folder_(path, "the index") {}

  template <class T>
  void write(const std::string& name, std::span<const T> values) {
    FileWriter file(folder_.path() + "/" + name);
    file.write(values.data(), values.size_bytes());
    file.finish();
    files_[name] = {{"bytes", file.bytes_written()},
                    {"checksum", checksum_digits(file.checksum())}};
  }

  void finish(Json manifest) {
    manifest["files"] = files_;
    FileWriter file(folder_.path() + "/" + kManifest);
    file.write(set_self_checksum(manifest.dump(1) + "\n"));
    file.finish();
    folder_.commit();
  }

 private:
  AtomicFolder folder_;
  Json files_ = Json::object();
};

// A saved index.
class SavedFolder {
 public:
  explicit SavedFolder(const std::string& path) : path_(path) {
    const std::string name = path + "/" + kManifest;
    std::error_code ignored;
    if (!fs::is_regular_file(name, ignored))
      throw Error(ErrorCode::kNotFound, cat(path, " is not an index: it has no ", kManifest));
    const std::string text = read_text_file(name);
    manifest_ = Json::parse(text, shallow_json, /*allow_exceptions=*/false);
    if (manifest_.is_discarded()) damaged(kManifest, "is not valid JSON");
    EMBLEM_REQUIRE(manifest_.is_object() && manifest_.value("format", Json()) == kFormat, name,
                   " is not the manifest of an index");
    const Json version = manifest_.value("format_version", Json());
    EMBLEM_REQUIRE(!version.is_number_integer() || version.get<int64_t>() <= kFormatVersion, name,
                   " has index format ", version.dump(), ", but this program reads formats up to ",
                   kFormatVersion, "; use a newer emblem");
    if (!has_valid_self_checksum(text)) damaged(kManifest, "does not match its checksum");
  }

  const Json& manifest() const { return manifest_; }

  // A file of `count` values.
  template <class Values>
  Values read(const char* name, int64_t count) const {
    using T = typename Values::value_type;
    const Json& facts = manifest_.at("files").at(name);
    std::error_code ignored;
    if (!fs::is_regular_file(path_ + "/" + name, ignored)) damaged(name, "is missing");
    const MappedFile file(path_ + "/" + name);
    const size_t bytes = file.bytes().size();
    if (bytes != facts.at("bytes").get<uint64_t>())
      damaged(name, cat("has ", bytes, " bytes, but ", facts.at("bytes").dump(), " were written"));
    if (checksum_of(file.bytes().data(), bytes) != parse_checksum_digits(facts.at("checksum")))
      damaged(name, "does not match its checksum");
    if (count < 0 || bytes / sizeof(T) != static_cast<uint64_t>(count) || bytes % sizeof(T) != 0)
      damaged(name, cat("has ", bytes, " bytes, which is not the size of ", count, " values"));
    Values values(static_cast<size_t>(count));
    std::copy_n(file.bytes().data(), bytes, reinterpret_cast<char*>(values.data()));
    return values;
  }

  [[noreturn]] void damaged(std::string_view file, std::string_view how) const {
    throw Error(ErrorCode::kCorruption, cat("index ", path_, " is damaged: file ", file, " ", how));
  }

 private:
  std::string path_;
  Json manifest_;
};

template <class T>
T one_of(const Json& name, std::initializer_list<T> values) {
  for (const T value : values)
    if (name == name_of(value)) return value;
  throw std::invalid_argument(cat("has the unknown value ", name.dump()));
}

IndexSettings settings_of(const Json& manifest) {
  IndexSettings settings{
      .dim = manifest.at("dim"),
      .similarity =
          one_of(manifest.at("similarity"), {Similarity::kInnerProduct, Similarity::kCosine}),
      .dtype = one_of(manifest.at("dtype"), {DType::kF32, DType::kF16, DType::kBf16, DType::kInt8}),
      .kind = one_of(manifest.at("kind"), {IndexKind::kFlat, IndexKind::kIvfFlat}),
      .lists = manifest.at("lists"),
      .probes = manifest.value("probes", IndexSettings{}.probes),  // not written at first
      .attributes = manifest.at("attributes").get<std::vector<std::string>>(),
      .seed = manifest.at("seed")};
  if (manifest.contains("recall")) settings.recall = manifest.at("recall").get<double>();
  return settings;
}

// What `read` gives; what it does not find in the manifest is damage.
template <class Read>
auto read_from(const SavedFolder& folder, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    folder.damaged(kManifest, json_problem(error.what()));
  } catch (const std::invalid_argument& error) {
    folder.damaged(kManifest, error.what());
  }
}

void require_finite(const SavedFolder& folder, const char* file, const ItemRows& rows) {
  std::vector<float> row(static_cast<size_t>(rows.dim()));
  for (int64_t i = 0; i < rows.count(); ++i) {
    rows.read(i, row.data());
    if (!(length_of(row) <= 1.01 * kLongestVector))
      folder.damaged(file, cat("holds NaN or infinite elements in row ", i));
  }
}

ItemTable read_items(const SavedFolder& folder, const IndexSettings& settings) {
  const int64_t count = folder.manifest().at("count");
  ItemTable items{.rows = ItemRows(settings.dtype, settings.dim)};
  if (count < 0 || count > INT32_MAX) folder.damaged(kManifest, cat("has a count of ", count));
  items.ids = folder.read<std::vector<int64_t>>("id", count);
  HostVector<float> scales;
  if (settings.dtype == DType::kInt8) scales = folder.read<HostVector<float>>("scale", count);
  items.rows.assign(folder.read<HostVector<std::byte>>("vector", count * items.rows.row_bytes()),
                    std::move(scales));
  items.attributes = settings.attributes.empty()
                         ? std::vector<uint64_t>(static_cast<size_t>(count))
                         : folder.read<std::vector<uint64_t>>("attributes", count);
  require_finite(folder, "vector", items.rows);
  return items;
}

// What `make` gives; the content of a file is what it refuses.
template <class Make>
auto made_of(const SavedFolder& folder, std::string_view file, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    folder.damaged(file, cat("cannot be used: ", error.what()));
  }
}

}  // namespace

void Index::save(const std::string& folder) const {
  const auto [items, lists, centroids] = contents();
  NewIndex to(folder);
  to.write<int64_t>("id", items.ids);
  to.write("vector", items.rows.bytes());
  if (settings_.dtype == DType::kInt8) to.write("scale", items.rows.scales());
  if (!settings_.attributes.empty()) to.write<uint64_t>("attributes", items.attributes);
  if (!lists.empty()) {
    to.write("centroid", centroids.bytes());
    to.write<int64_t>("list", lists);
  }
  Json manifest = {{"format", kFormat},
                   {"format_version", kFormatVersion},
                   {"checksum", no_checksum()},
                   {"emblem_version", kVersion},
                   {"dim", settings_.dim},
                   {"similarity", name_of(settings_.similarity)},
                   {"dtype", name_of(settings_.dtype)},
                   {"kind", name_of(settings_.kind)},
                   {"lists", settings_.lists},
                   {"seed", settings_.seed},
                   {"attributes", settings_.attributes},
                   {"count", items.rows.count()},
                   {"centroids", lists.size()}};
  if (settings_.kind == IndexKind::kIvfFlat) manifest["probes"] = settings_.probes;
  if (settings_.recall) manifest["recall"] = *settings_.recall;
  to.finish(std::move(manifest));
}

bool Index::is_for_gpu(const std::string& path) {
  const SavedFolder folder(path);
  return read_from(folder, [&] {
    const IndexSettings settings = settings_of(folder.manifest());
    return settings.kind == IndexKind::kFlat && settings.dim <= cuda::DeviceItems::kMostDim;
  });
}

std::unique_ptr<Index> Index::load(const Context& context, const std::string& path) {
  const SavedFolder folder(path);
  return read_from(folder, [&] {
    const IndexSettings settings = settings_of(folder.manifest());
    auto index = made_of(folder, kManifest, [&] { return std::make_unique<Index>(settings); });
    index->require_device(context);
    Contents contents{.items = read_items(folder, settings)};
    const int64_t count = contents.items.rows.count();
    const int64_t centroids = folder.manifest().at("centroids");
    if (centroids < 0 || centroids > INT32_MAX)
      folder.damaged(kManifest, cat("has ", centroids, " centroids"));
    if (centroids > 0) {
      contents.lists = folder.read<std::vector<int64_t>>("list", centroids);
      int64_t listed = 0;
      for (const int64_t length : contents.lists) {
        if (length < 0 || length > count - listed) folder.damaged("list", "has too many items");
        listed += length;
      }
      contents.centroids = ItemRows(DType::kF32, settings.dim);
      contents.centroids.assign(folder.read<HostVector<std::byte>>(
                                    "centroid", centroids * contents.centroids.row_bytes()),
                                {});
      require_finite(folder, "centroid", contents.centroids);
    }
    index->set_state(
        made_of(folder, "id", [&] { return index->state_of(context, std::move(contents)); }));
    return index;
  });
}

}  // namespace emblem
