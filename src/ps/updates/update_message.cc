#include "ps/updates/update_message.h"

#include <cstring>

#include "core/math/checksum.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "store/key_bytes.h"

namespace emblem {
namespace {

constexpr std::string_view kMagic = "HCTR";
constexpr size_t kHead = 8;

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::kCorruption, "an update message " + reason);
}

}  // namespace

UpdateRows parse_update_message(std::string_view message, size_t key_bytes) {
  if (message.size() < kHead || !message.starts_with(kMagic)) {
    refuse("that does not begin with HCTR and a size");
  }
  uint32_t row_bytes = 0;
  std::memcpy(&row_bytes, message.data() + kMagic.size(), sizeof(row_bytes));
  if (row_bytes == 0 || row_bytes % sizeof(float) != 0) {
    refuse(cat("with rows of ", row_bytes, " bytes, which is not a whole number of floats"));
  }
  message.remove_prefix(kHead);
  const size_t pair = key_bytes + row_bytes;
  if (message.size() % pair != 0) {
    refuse(cat("with ", message.size(), " bytes of rows, which is not a multiple of ", pair, ": ",
               key_bytes, " of a key and ", row_bytes, " of a row (\"supportlonglong\" says how ",
               "large keys are)"));
  }
  const size_t count = message.size() / pair;
  const KeyBytes encoding{key_bytes};
  UpdateRows update{.dim = static_cast<int64_t>(row_bytes / sizeof(float))};
  update.keys.reserve(count);
  update.rows.resize(count * static_cast<size_t>(update.dim));
  for (size_t i = 0; i < count; ++i) {
    const char* at = message.data() + i * pair;
    update.keys.push_back(encoding.key(at));
    std::memcpy(update.rows.data() + i * static_cast<size_t>(update.dim), at + key_bytes,
                row_bytes);
  }
  return update;
}

std::string make_update_message(std::span<const int64_t> keys, std::span<const float> rows,
                                int64_t dim, size_t key_bytes) {
  EMBLEM_REQUIRE(keys.size() * static_cast<size_t>(dim) == rows.size(),
                 "update message: ", keys.size(), " keys of dimension ", dim, " do not fit ",
                 rows.size(), " floats");
  const auto row_bytes = static_cast<uint32_t>(static_cast<size_t>(dim) * sizeof(float));
  const KeyBytes encoding{key_bytes};
  std::string message(kMagic);
  message.append(reinterpret_cast<const char*>(&row_bytes), sizeof(row_bytes));
  for (size_t i = 0; i < keys.size(); ++i) {
    encoding.require("(message)", keys[i]);
    message.append(encoding.bytes(keys[i]));
    message.append(reinterpret_cast<const char*>(rows.data() + i * static_cast<size_t>(dim)),
                   row_bytes);
  }
  return message;
}

std::string update_checksum(std::string_view message) {
  return checksum_digits(checksum_of(message));
}

void check_update_checksum(std::string_view message, std::string_view checksum) {
  const std::string found = update_checksum(message);
  if (found == checksum) return;
  refuse(cat("that is damaged: its checksum is ", found, ", but its header says ",
             printable(checksum.substr(0, 64))));
}

}  // namespace emblem
