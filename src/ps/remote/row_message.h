// ps/remote/row_message.h - the messages between front ends and table servers, in the bodies of
// HTTP requests and answers:
//
//   POST /v2/tables/rows     keys of several tables of one version of a model -> their rows
//   POST /v2/tables/status   the versions that a front end uses -> parts and versions of the server
//
// Little-endian. A message begins with its kind and ends with a checksum of all bytes before it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/math/half.h"
#include "embedding/parts.h"

namespace emblem {

inline constexpr const char* kRowsPath = "/v2/tables/rows";
inline constexpr const char* kStatusPath = "/v2/tables/status";

// One version of a model, by its number and a hash of its manifest: servers that have other files
// under the same number are never asked for its rows.
struct ModelId {
  std::string model;
  int64_t version = 0;
  uint64_t content = 0;

  std::string text() const;  // "model dlrm version 2"
  auto operator<=>(const ModelId&) const = default;
};
// `manifest` is the text of manifest.json.
ModelId model_id(std::string model, int64_t version, std::string_view manifest);

// ---- rows ----

struct RowRequest {
  struct Table {
    std::string name;
    int64_t dim = 0;
    std::vector<int64_t> keys;
    bool operator==(const Table&) const = default;
  };
  uint64_t number = 0;  // the answer has it, too
  ModelId model;
  std::vector<Table> tables;
  bool operator==(const RowRequest&) const = default;
};

std::string encode(const RowRequest& request);
// Throws kInvalidArgument for anything but what encode() writes.
RowRequest decode_row_request(std::string_view bytes);

// An upper bound of what decode_row_request allocates for a message of this many bytes.
size_t most_decoded_bytes(size_t message_bytes);

// Size of the answer to a request.
size_t answer_bytes(const RowRequest& request);
// `fetch` fills the rows [keys, dim] and the flags (1: found) of table t. Rows that are not found
// are sent as zeros.
using FetchRows =
    std::function<void(size_t table, std::span<float> rows, std::span<uint8_t> found)>;
std::vector<std::byte> make_answer(const RowRequest& request, const FetchRows& fetch);

// Throws kCorruption unless `bytes` answer this request. Otherwise `take` gets each table's rows
// (key after key, dim floats each, at any alignment) and flags, of which each is 0 or 1.
using TakeRows = std::function<void(size_t table, const char* rows, const uint8_t* found)>;
void read_answer(const RowRequest& request, std::string_view bytes, const TakeRows& take);

// ---- status ----

struct StatusRequest {
  std::vector<ModelId> in_use;  // by the front end
  bool operator==(const StatusRequest&) const = default;
};
struct StatusAnswer {
  PartRange parts;
  DType row_type = DType::kF32;  // type of rows in its memory
  std::vector<ModelId> models;
  bool operator==(const StatusAnswer&) const = default;
};

std::string encode(const StatusRequest& request);
std::string encode(const StatusAnswer& answer);
// Throw kInvalidArgument and kCorruption.
StatusRequest decode_status_request(std::string_view bytes);
StatusAnswer decode_status_answer(std::string_view bytes);

}  // namespace emblem
