// checkpoint/safetensors.h - named tensors in one file, in the safetensors format: an 8-byte
// little-endian header length, a JSON header, then the tensors' bytes without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_facts.h"
#include "core/files/file.h"
#include "emblem/error.h"

namespace emblem {

enum class TensorType { kF32, kI64, kU64 };

constexpr const char* name_of(TensorType type) {
  return type == TensorType::kF32 ? "F32" : type == TensorType::kI64 ? "I64" : "U64";
}
constexpr int64_t size_of(TensorType type) { return type == TensorType::kF32 ? 4 : 8; }

template <class T>
constexpr TensorType tensor_type();
template <>
constexpr TensorType tensor_type<float>() {
  return TensorType::kF32;
}
template <>
constexpr TensorType tensor_type<int64_t>() {
  return TensorType::kI64;
}
template <>
constexpr TensorType tensor_type<uint64_t>() {
  return TensorType::kU64;
}

// A row-major tensor that somebody else owns.
struct TensorRef {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  const void* data = nullptr;  // need not be aligned

  template <class T>
  static TensorRef of(std::string name, std::vector<int64_t> shape, std::span<const T> values);

  int64_t elements() const;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Writes the tensors to `path` and syncs it to the disk. Equal input gives equal bytes, whatever
// the order of the tensors. Throws for names used twice.
FileFacts write_safetensors(const std::string& path, std::span<const TensorRef> tensors,
                            const SafetensorsMetadata& metadata = {});

// A file open for reading. The constructor checks the whole structure and throws Error(kCorruption)
// that says what is wrong: truncated, no JSON, unknown type, gaps, overlaps, names used twice.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::vector<TensorRef>& tensors() const {
    return tensors_;
  }  // by name; data valid while this lives
  const SafetensorsMetadata& metadata() const { return metadata_; }

  // Throws Error naming the file when there is no such tensor.
  const TensorRef& find(const std::string& name) const;

  // Copies a tensor out. Throws Error when its type is not T or `out` has another size.
  template <class T>
  void read(const std::string& name, std::span<T> out) const {
    copy(name, tensor_type<T>(), out.data(), static_cast<int64_t>(out.size()));
  }

 private:
  void copy(const std::string& name, TensorType type, void* out, int64_t elements) const;

  MappedFile file_;
  std::vector<TensorRef> tensors_;
  SafetensorsMetadata metadata_;
};

template <class T>
TensorRef TensorRef::of(std::string name, std::vector<int64_t> shape, std::span<const T> values) {
  TensorRef tensor{std::move(name), tensor_type<T>(), std::move(shape), values.data()};
  EMBLEM_REQUIRE(tensor.elements() == static_cast<int64_t>(values.size()), "tensor ", tensor.name,
                 " has ", values.size(), " values, but its shape needs ", tensor.elements());
  return tensor;
}

}  // namespace emblem
