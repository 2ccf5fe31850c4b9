#include "serve/engine/finite_model.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "checkpoint/input_ranges.h"
#include "checkpoint/safetensors.h"
#include "core/files/file.h"
#include "core/math/finite.h"

namespace emblem {
namespace {

constexpr size_t kPiece = 1 << 16;  // floats at a time

[[noreturn]] void refuse(const Checkpoint& checkpoint, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument,
              cat(checkpoint.path, ": ", what,
                  " NaN or infinite: training has diverged; export an earlier checkpoint, or train "
                  "with a lower learning rate"));
}

// Counts rows with such values in a file emb_vector.
int64_t count_rows(const std::string& path, int64_t dim) {
  const MappedFile file(path);
  const std::span values(reinterpret_cast<const float*>(file.bytes().data()),
                         file.bytes().size() / sizeof(float));
  const auto width = static_cast<size_t>(dim);
  int64_t bad = 0;
  for (size_t at = 0; at + width <= values.size(); at += width)
    bad += are_finite(values.subspan(at, width)) ? 0 : 1;
  return bad;
}

// The tensor's bytes need not be aligned.
bool is_finite(const TensorRef& tensor) {
  std::vector<float> piece(kPiece);
  const auto* bytes = static_cast<const char*>(tensor.data);
  for (auto left = static_cast<size_t>(tensor.elements()); left > 0;) {
    const size_t count = std::min(left, kPiece);
    std::memcpy(piece.data(), bytes, count * sizeof(float));
    if (!are_finite({piece.data(), count})) return false;
    bytes += count * sizeof(float);
    left -= count;
  }
  return true;
}

}  // namespace

void require_finite_model(const Checkpoint& checkpoint) {
  for (const ManifestTable& table : checkpoint.manifest.tables) {
    int64_t bad = 0;
    for (const std::string& file : table.files) {
      if (file.ends_with("/emb_vector")) bad += count_rows(checkpoint.file(file), table.dim);
    }
    if (bad > 0)
      refuse(checkpoint, cat(bad, " of ", table.rows, " rows of table ", table.name, " are"));
  }
  require_finite_parameters(checkpoint);
}

void require_finite_parameters(const Checkpoint& checkpoint) {
  const SafetensorsFile dense(checkpoint.file("dense.safetensors"));
  for (const TensorRef& tensor : dense.tensors()) {
    const bool is_served = tensor.type == TensorType::kF32 &&
                           !tensor.name.starts_with("optimizer.") && !is_input_range(tensor);
    if (is_served && !is_finite(tensor)) refuse(checkpoint, cat("parameter ", tensor.name, " is"));
  }
}

}  // namespace emblem
