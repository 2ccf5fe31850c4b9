#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include <nlohmann/json.hpp>

namespace emblem {
namespace {

using Header = nlohmann::json;

constexpr int kDeepest = 16;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// The format's own limit; a longer header means that the file is something else.
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr const char* kMetadataName = "__metadata__";

constexpr TensorType kTypes[] = {TensorType::kF32, TensorType::kI64, TensorType::kU64};

std::vector<const TensorRef*> file_order(std::span<const TensorRef> tensors) {
  std::vector<const TensorRef*> order;
  for (const TensorRef& tensor : tensors) order.push_back(&tensor);
  // Wide elements first, so that every tensor of the file is aligned to its element.
  std::sort(order.begin(), order.end(), [](const TensorRef* a, const TensorRef* b) {
    return std::tuple(-size_of(a->type), std::string_view(a->name)) <
           std::tuple(-size_of(b->type), std::string_view(b->name));
  });
  return order;
}

std::string header_text(const std::vector<const TensorRef*>& order,
                        const SafetensorsMetadata& metadata) {
  Header header = Header::object();
  if (!metadata.empty()) header[kMetadataName] = metadata;
  int64_t offset = 0;
  for (const TensorRef* tensor : order) {
    EMBLEM_REQUIRE(tensor->name != kMetadataName, "a tensor cannot be named ", kMetadataName);
    EMBLEM_REQUIRE(!header.contains(tensor->name), "two tensors are named ", tensor->name,
                   "; names in a safetensors file must be unique");
    const int64_t end = offset + tensor->elements() * size_of(tensor->type);
    header[tensor->name] = {{"dtype", name_of(tensor->type)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  // A name that is not UTF-8 still gives a readable file.
  std::string text = header.dump(-1, ' ', false, Header::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // tensors start at a multiple of 8
  return text;
}

// ---- reading ----

[[noreturn]] void reject_file(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kCorruption, cat(path, " is not a valid safetensors file: ", why));
}

std::string_view header_of(const MappedFile& file) {
  const std::span<const char> bytes = file.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof length)
    reject_file(file.path(), cat("it has only ", bytes.size(), " bytes"));
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kLongestHeader) reject_file(file.path(), cat("its header length is ", length));
  if (length > bytes.size() - sizeof length) {
    reject_file(file.path(), cat("its header needs ", length, " bytes, but only ",
                                 bytes.size() - sizeof length, " follow (truncated)"));
  }
  return {bytes.data() + sizeof length, length};
}

// Unlike the parser on its own, does not let a name used twice pass, nor what is nested so deeply
// that a copy of it would end the process.
Header parse_header(std::string_view text, const std::string& path) {
  std::vector<std::set<std::string>> names;  // names in each object that encloses the current place
  const auto on_event = [&](int depth, Header::parse_event_t event, Header& value) {
    if (depth > kDeepest) reject_file(path, "its header is nested more deeply than tensors are");
    if (event == Header::parse_event_t::object_start) names.emplace_back();
    if (event == Header::parse_event_t::object_end) names.pop_back();
    if (event == Header::parse_event_t::key &&
        !names.back().insert(value.get<std::string>()).second) {
      reject_file(path, cat("its header names ", value.get<std::string>(), " twice"));
    }
    return true;
  };
  Header header;
  try {
    header = Header::parse(text, on_event);
  } catch (const Header::exception&) {
    reject_file(path, "its header is not JSON");
  }
  if (!header.is_object()) reject_file(path, "its header is not a JSON object");
  return header;
}

bool is_list_of_counts(const Header& value) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Header& item) {
           return item.is_number_unsigned() && item.get<uint64_t>() <= kMost;
         });
}

TensorType parse_type(const Header& value, const std::string& name, const std::string& path) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  for (const TensorType type : kTypes) {
    if (text == name_of(type)) return type;
  }
  reject_file(path,
              cat("tensor ", name, " has type ", text, "; this program reads F32, I64 and U64"));
}

// The bytes a shape needs, or nothing when they exceed 63 bits.
std::optional<int64_t> bytes_of(const TensorRef& tensor) {
  int64_t bytes = size_of(tensor.type);
  for (const int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

struct Placed {
  TensorRef tensor;
  int64_t begin, end;
};

Placed parse_entry(const std::string& name, const Header& entry, const std::string& path) {
  const bool complete = entry.is_object() && entry.contains("dtype") && entry.contains("shape") &&
                        entry.contains("data_offsets") && is_list_of_counts(entry["shape"]) &&
                        is_list_of_counts(entry["data_offsets"]) &&
                        entry["data_offsets"].size() == 2;
  if (!complete)
    reject_file(path,
                cat("the entry of tensor ", name, " lacks a valid dtype, shape or data_offsets"));
  Placed placed{
      {name, parse_type(entry["dtype"], name, path), entry["shape"].get<std::vector<int64_t>>()},
      entry["data_offsets"][0].get<int64_t>(),
      entry["data_offsets"][1].get<int64_t>()};
  const auto bytes = bytes_of(placed.tensor);
  if (!bytes || placed.end < placed.begin || placed.end - placed.begin != *bytes) {
    reject_file(path, cat("tensor ", name, " is at [", placed.begin, ", ", placed.end,
                          "), which does not fit its type and shape ", entry["shape"].dump()));
  }
  return placed;
}

// Tensors must fill the data section exactly: no gaps, no overlaps, nothing after them.
void check_placement(std::vector<Placed> placed, int64_t data_bytes, const std::string& path) {
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t at = 0;
  for (const Placed& one : placed) {
    if (one.begin != at) {
      reject_file(path, cat("tensor ", one.tensor.name, " starts at ", one.begin,
                            ", but the one before it ends at ", at,
                            one.begin < at ? " (overlap)" : " (gap)"));
    }
    at = one.end;
  }
  if (at != data_bytes) {
    reject_file(path, cat("its tensors need ", at, " bytes, but it holds ", data_bytes,
                          data_bytes < at ? " (truncated)" : " (something follows them)"));
  }
}

SafetensorsMetadata parse_metadata(const Header& value, const std::string& path) {
  SafetensorsMetadata metadata;
  if (!value.is_object()) reject_file(path, "__metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) reject_file(path, cat("the metadata ", key, " is not a string"));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

int64_t TensorRef::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

FileFacts write_safetensors(const std::string& path, std::span<const TensorRef> tensors,
                            const SafetensorsMetadata& metadata) {
  const auto order = file_order(tensors);
  const std::string header = header_text(order, metadata);
  FileWriter file(path);
  const uint64_t length = header.size();
  file.write(&length, sizeof length);
  file.write(header);
  for (const TensorRef* tensor : order) {
    file.write(tensor->data, static_cast<size_t>(tensor->elements() * size_of(tensor->type)));
  }
  file.finish();
  return {file.bytes_written(), file.checksum()};
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const std::string_view text = header_of(file_);
  const Header header = parse_header(text, path);
  const char* data = text.data() + text.size();
  const int64_t data_bytes = file_.bytes().data() + file_.bytes().size() - data;
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataName) {
      metadata_ = parse_metadata(entry, path);
    } else {
      placed.push_back(parse_entry(name, entry, path));
    }
  }
  check_placement(placed, data_bytes, path);
  for (Placed& one : placed) {
    one.tensor.data = data + one.begin;
    tensors_.push_back(std::move(one.tensor));
  }
}

const TensorRef& SafetensorsFile::find(const std::string& name) const {
  for (const TensorRef& tensor : tensors_) {
    if (tensor.name == name) return tensor;
  }
  throw Error(ErrorCode::kNotFound, cat(file_.path(), " has no tensor ", name));
}

void SafetensorsFile::copy(const std::string& name, TensorType type, void* out,
                           int64_t elements) const {
  const TensorRef& tensor = find(name);
  EMBLEM_REQUIRE(tensor.type == type, "tensor ", name, " of ", file_.path(), " has type ",
                 name_of(tensor.type), ", but ", name_of(type), " was expected");
  EMBLEM_REQUIRE(tensor.elements() == elements, "tensor ", name, " of ", file_.path(), " has ",
                 tensor.elements(), " elements, but ", elements, " were expected");
  if (elements > 0) std::memcpy(out, tensor.data, static_cast<size_t>(elements * size_of(type)));
}

}  // namespace emblem
