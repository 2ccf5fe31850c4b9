#include "retrieval/faiss_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <unordered_set>

#include "core/files/atomic_folder.h"
#include "core/files/byte_io.h"
#include "core/files/file.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFaissIndex = "faiss_index", *kIdMapping = "id_mapping";

constexpr uint32_t code_of(const char (&name)[5]) {
  uint32_t code = 0;
  for (int i = 3; i >= 0; --i) code = code << 8 | static_cast<uint8_t>(name[i]);
  return code;
}

constexpr uint32_t kFlatCode = code_of("IxFI"), kListsCode = code_of("IwFl"),
                   kArrayListsCode = code_of("ilar"), kAllSizes = code_of("full"),
                   kSomeSizes = code_of("sprs");
constexpr int32_t kInnerProductMetric = 0;
constexpr int64_t kUnusedField = 1 << 20;  // what faiss writes there
constexpr uint8_t kNoDirectMap = 0;

std::string path_in(const std::string& folder, const char* name) { return folder + "/" + name; }

[[noreturn]] void damaged(const std::string& file, const std::string& how) {
  throw Error(ErrorCode::kCorruption, cat(file, " is damaged: it ", how));
}

// What faiss writes of every index.
struct FaissHeader {
  int32_t dim = 0;
  int64_t count = 0;
};

// Reads a file of faiss. Counts are compared with what is left of the file before memory is taken.
class FaissReader {
 public:
  FaissReader(const std::string& file, std::span<const char> bytes)
      : file_(file), bytes_({bytes.data(), bytes.size()}, "a whole faiss index") {}

  void read(FaissFolder& folder) {
    const auto code = bytes_.read<uint32_t>();
    EMBLEM_REQUIRE(code == kFlatCode || code == kListsCode, file_, " has a faiss index of kind \"",
                   name_of(code), "\", expected \"IxFI\" or \"IwFl\": IndexFlatIP or ",
                   "IndexIVFFlat with METRIC_INNER_PRODUCT");
    const FaissHeader header = read_header();
    folder.dim = header.dim;
    if (code == kFlatCode) {
      folder.vectors = read_vectors(header);
      folder.ids.resize(static_cast<size_t>(header.count));
      std::iota(folder.ids.begin(), folder.ids.end(), 0);
    } else {
      read_lists(header, folder);
    }
    bytes_.end();
    require_finite("row", folder.vectors, folder.dim);
    require_finite("centroid", folder.centroids, folder.dim);
  }

 private:
  static std::string name_of(uint32_t code) {
    return printable(std::string(reinterpret_cast<const char*>(&code), sizeof(code)));
  }

  FaissHeader read_header() {
    FaissHeader header;
    bytes_.read(header.dim);
    bytes_.read(header.count);
    bytes_.read<int64_t>();
    bytes_.read<int64_t>();
    const auto is_trained = bytes_.read<uint8_t>();
    const auto metric = bytes_.read<int32_t>();
    if (header.dim < 1) damaged(file_, cat("has vectors of ", header.dim, " elements"));
    if (header.count < 0) damaged(file_, cat("has ", header.count, " items"));
    EMBLEM_REQUIRE(is_trained == 1, file_, " was not trained");
    EMBLEM_REQUIRE(metric == kInnerProductMetric, file_, " has metric ", metric,
                   " of faiss, expected 0, inner products (METRIC_INNER_PRODUCT)");
    return header;
  }

  std::vector<float> read_vectors(const FaissHeader& header) {
    std::vector<float> values;
    bytes_.read_all(values);
    if (values.size() % static_cast<size_t>(header.dim) != 0 ||
        std::ssize(values) / header.dim != header.count)
      damaged(file_, cat("has ", values.size(), " elements for ", header.count, " vectors of ",
                         header.dim));
    return values;
  }

  void read_lists(const FaissHeader& header, FaissFolder& folder) {
    const auto lists = bytes_.read<uint64_t>(), probes = bytes_.read<uint64_t>();
    const auto code = bytes_.read<uint32_t>();
    EMBLEM_REQUIRE(code == kFlatCode, file_, " finds lists by an index of kind \"", name_of(code),
                   "\", expected \"IxFI\" (IndexFlatIP)");
    const FaissHeader centroids = read_header();
    if (centroids.dim != header.dim)
      damaged(file_,
              cat("has centroids of ", centroids.dim, " elements for vectors of ", header.dim));
    if (static_cast<uint64_t>(centroids.count) != lists)
      damaged(file_, cat("has ", centroids.count, " centroids for ", lists, " lists"));
    folder.centroids = read_vectors(centroids);
    if (lists == 0) damaged(file_, "has no lists");
    folder.probes = static_cast<int64_t>(std::clamp<uint64_t>(probes, 1, lists));
    const auto map = bytes_.read<uint8_t>();
    EMBLEM_REQUIRE(map == kNoDirectMap, file_, " has a direct map; write it without");
    if (bytes_.read<uint64_t>() != 0) damaged(file_, "has a direct map of no kind");
    read_list_sizes(header, static_cast<size_t>(lists), folder.lists);
    for (const int64_t size : folder.lists) read_list(header, size, folder);
  }

  void read_list_sizes(const FaissHeader& header, size_t lists, std::vector<int64_t>& sizes) {
    const auto code = bytes_.read<uint32_t>();
    EMBLEM_REQUIRE(code == kArrayListsCode, file_, " has lists of kind \"", name_of(code),
                   "\", expected \"ilar\": lists in the same file");
    if (bytes_.read<uint64_t>() != lists) damaged(file_, "has two numbers of lists");
    const auto item_bytes = bytes_.read<uint64_t>();
    if (item_bytes != sizeof(float) * static_cast<uint64_t>(header.dim))
      damaged(file_, cat("has ", item_bytes, " bytes for vectors of ", header.dim, " elements"));
    const auto form = bytes_.read<uint32_t>();
    if (form != kAllSizes && form != kSomeSizes)
      damaged(file_, cat("has sizes of lists in the form \"", name_of(form), "\""));
    std::vector<uint64_t> given;
    bytes_.read_all(given);
    sizes.assign(lists, 0);
    if (form == kAllSizes) {
      if (given.size() != lists)
        damaged(file_, cat("has ", given.size(), " sizes of ", lists, " lists"));
      std::ranges::copy(given, sizes.begin());
    } else {  // pairs of a list and its size
      for (size_t i = 0; i + 1 < given.size(); i += 2) {
        if (given[i] >= lists || (i > 0 && given[i] <= given[i - 2]))
          damaged(file_, cat("has a size of list ", given[i], " of ", lists));
        sizes[given[i]] = static_cast<int64_t>(given[i + 1]);
      }
    }
    int64_t left = header.count;
    for (const int64_t size : sizes) {
      if (size < 0 || size > left) damaged(file_, cat("has more than ", header.count, " items"));
      left -= size;
    }
    if (left != 0) damaged(file_, cat("has ", header.count - left, " of ", header.count, " items"));
  }

  void read_list(const FaissHeader& header, int64_t size, FaissFolder& folder) {
    for (int64_t i = 0; i < size * header.dim; ++i) folder.vectors.push_back(bytes_.read<float>());
    for (int64_t i = 0; i < size; ++i) folder.ids.push_back(bytes_.read<int64_t>());
  }

  void require_finite(const char* what, const std::vector<float>& values, int64_t dim) const {
    const auto bad =
        std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    if (bad != values.end())
      damaged(file_,
              cat("holds NaN or infinite elements in ", what, " ", (bad - values.begin()) / dim));
  }

  const std::string& file_;
  ByteReader bytes_;
};

// The ids of the items that faiss numbers from 0.
std::vector<int64_t> read_id_mapping(const std::string& file) {
  const std::string text = read_text_file(file);
  std::vector<int64_t> ids;
  std::unordered_set<int64_t> known;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto id = parse_number<int64_t>(line);
    EMBLEM_REQUIRE(id, file, ", line ", ids.size() + 1, " is \"", printable(std::string(line)),
                   "\", expected the id of an item, a whole number of 64 bits");
    EMBLEM_REQUIRE(known.insert(*id).second, file, ", line ", ids.size() + 1, ": duplicate item ",
                   *id, "; ids must be unique");
    ids.push_back(*id);
  }
  return ids;
}

// Replaces the numbers of faiss, each once, by ids.
void map_ids(const std::string& file, const std::vector<int64_t>& mapping,
             std::vector<int64_t>& numbers) {
  std::vector<bool> is_used(mapping.size());
  for (int64_t& number : numbers) {
    if (number < 0 || number >= std::ssize(mapping) || is_used[static_cast<size_t>(number)])
      damaged(file, cat("has an item of number ", number, ", expected the numbers below ",
                        mapping.size(), ", each once"));
    is_used[static_cast<size_t>(number)] = true;
    number = mapping[static_cast<size_t>(number)];
  }
}

void require_file(const std::string& folder, const char* name) {
  std::error_code ignored;
  if (!fs::is_regular_file(path_in(folder, name), ignored))
    throw Error(ErrorCode::kNotFound,
                cat(folder, " is not a folder of a faiss index: it has no ", name));
}

void add_header(ByteWriter& bytes, uint32_t code, int64_t dim, int64_t count) {
  bytes.add(code).add(static_cast<int32_t>(dim)).add(count);
  bytes.add(kUnusedField).add(kUnusedField).add(uint8_t{1}).add(kInnerProductMetric);
}

std::vector<float> row_of(const ItemRows& rows, int64_t row) {
  std::vector<float> values(static_cast<size_t>(rows.dim()));
  rows.read(row, values.data());
  return values;
}

void write_rows(const ItemRows& rows, int64_t first, int64_t end, FileWriter& file) {
  for (int64_t row = first; row < end; ++row) {
    const std::vector<float> values = row_of(rows, row);
    file.write(values.data(), values.size() * sizeof(float));
  }
}

void write_flat(const ItemRows& rows, FileWriter& file) {
  ByteWriter bytes;
  add_header(bytes, kFlatCode, rows.dim(), rows.count());
  bytes.add(static_cast<uint64_t>(rows.count() * rows.dim()));
  file.write(bytes.bytes());
  write_rows(rows, 0, rows.count(), file);
}

void write_lists(const Index::Contents& contents, int64_t probes, FileWriter& file) {
  const ItemRows& rows = contents.items.rows;
  const uint64_t lists = contents.lists.size();
  ByteWriter before;
  add_header(before, kListsCode, rows.dim(), rows.count());
  file.write(before.add(lists).add(std::min(static_cast<uint64_t>(probes), lists)).bytes());
  write_flat(contents.centroids, file);
  ByteWriter sizes;
  sizes.add(kNoDirectMap).add(uint64_t{0});
  sizes.add(kArrayListsCode).add(lists).add(static_cast<uint64_t>(rows.dim()) * sizeof(float));
  file.write(sizes.add(kAllSizes).add_all(contents.lists).bytes());
  int64_t row = 0;
  for (const int64_t size : contents.lists) {
    write_rows(rows, row, row + size, file);
    std::vector<int64_t> numbers(static_cast<size_t>(size));
    std::iota(numbers.begin(), numbers.end(), row);
    file.write(numbers.data(), numbers.size() * sizeof(int64_t));
    row += size;
  }
}

}  // namespace

bool is_faiss_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path_in(path, kFaissIndex), ignored);
}

FaissFolder read_faiss_folder(const std::string& path) {
  require_file(path, kFaissIndex);
  require_file(path, kIdMapping);
  const std::string index = path_in(path, kFaissIndex), mapping = path_in(path, kIdMapping);
  FaissFolder folder;
  const MappedFile file(index);
  try {
    FaissReader(index, file.bytes()).read(folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorruption) throw;
    const std::string problem = error.what();
    throw Error(ErrorCode::kCorruption,
                problem.starts_with(index) ? problem : cat(index, " is ", problem));
  }
  const std::vector<int64_t> ids = read_id_mapping(mapping);
  if (ids.size() != folder.ids.size())
    throw Error(ErrorCode::kCorruption, cat(mapping, " has ", ids.size(), " ids, but ", index,
                                            " has ", folder.ids.size(), " items"));
  map_ids(index, ids, folder.ids);
  return folder;
}

void write_faiss_folder(const Index& index, const std::string& path) {
  const Index::Contents contents = index.contents();
  const int64_t listed = std::accumulate(contents.lists.begin(), contents.lists.end(), int64_t{0});
  EMBLEM_REQUIRE(contents.lists.empty() || listed == contents.items.rows.count(),
                 contents.items.rows.count() - listed,
                 " items of the index are in no list; rebuild it first");
  AtomicFolder folder(path, "the folder of the faiss index");
  FileWriter file(path_in(folder.path(), kFaissIndex));
  if (contents.lists.empty())
    write_flat(contents.items.rows, file);
  else
    write_lists(contents, index.settings().probes, file);
  file.finish();
  FileWriter mapping(path_in(folder.path(), kIdMapping));
  for (const int64_t id : contents.items.ids) mapping.write(cat(id, "\n"));
  mapping.finish();
  folder.commit();
}

}  // namespace emblem
