#include "ps/remote/row_message.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/files/byte_io.h"
#include "core/math/checksum.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are as memory holds them");

// The last character changes with the format.
constexpr std::string_view kRowRequest = "EMBKEYS1";
constexpr std::string_view kRowAnswer = "EMBROWS1";
constexpr std::string_view kStatusRequest = "EMBASKS1";
constexpr std::string_view kStatusAnswer = "EMBHAVE1";
constexpr size_t kKindBytes = 8;
constexpr size_t kChecksumBytes = sizeof(uint64_t);
constexpr size_t kAnswerHead = kKindBytes + 3 * sizeof(uint64_t);  // number, version, content
constexpr uint32_t kMostTables = 1 << 16;
constexpr uint32_t kLongestText = 1 << 12;
constexpr uint32_t kMostModels = 1 << 16;
constexpr int64_t kLargestDim = 1 << 20;

void add_model(ByteWriter& writer, const ModelId& id) {
  writer.add_text<uint32_t>(id.model).add(id.version).add(id.content);
}

std::string finish(ByteWriter writer) {
  const uint64_t checksum = checksum_of(writer.bytes());
  return std::move(writer.add(checksum)).bytes();
}

// What is between the kind and the checksum, both of which it checks.
ByteReader content_of(std::string_view kind, std::string_view bytes, const char* what,
                      ErrorCode code) {
  const ByteReader whole(bytes, what, code);
  if (!bytes.starts_with(kind) || bytes.size() < kKindBytes + kChecksumBytes)
    whole.fail(cat("a message of ", bytes.size(), " bytes that does not begin as one"));
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - kChecksumBytes, kChecksumBytes);
  bytes.remove_suffix(kChecksumBytes);
  if (checksum != checksum_of(bytes)) whole.fail("its checksum does not match its content");
  return {bytes.substr(kKindBytes), what, code};
}

ModelId read_model(ByteReader& reader) {
  ModelId id;
  id.model = reader.read_text<uint32_t>(kLongestText);
  reader.read(id.version);
  reader.read(id.content);
  return id;
}

// Flags are padded, so that rows and checksum are at multiples of 4.
size_t flag_bytes(size_t keys) { return (keys + 3) / 4 * 4; }
size_t row_floats(const RowRequest::Table& table) {
  return table.keys.size() * static_cast<size_t>(table.dim);
}

std::vector<ModelId> read_models(ByteReader& reader) {
  std::vector<ModelId> models(reader.read_count<uint32_t>(1, kMostModels));
  for (ModelId& model : models) model = read_model(reader);
  return models;
}

void add_models(ByteWriter& writer, const std::vector<ModelId>& models) {
  writer.add(static_cast<uint32_t>(models.size()));
  for (const ModelId& model : models) add_model(writer, model);
}

}  // namespace

std::string ModelId::text() const { return cat("model ", printable(model), " version ", version); }

ModelId model_id(std::string model, int64_t version, std::string_view manifest) {
  return {std::move(model), version, checksum_of(manifest)};
}

// ---- rows ----

std::string encode(const RowRequest& request) {
  ByteWriter writer;
  writer.add_bytes(kRowRequest).add(request.number);
  add_model(writer, request.model);
  writer.add(static_cast<uint32_t>(request.tables.size()));
  for (const RowRequest::Table& table : request.tables) {
    writer.add_text<uint32_t>(table.name).add(static_cast<uint32_t>(table.dim));
    writer.add_all<uint32_t>(table.keys);
  }
  return finish(std::move(writer));
}

RowRequest decode_row_request(std::string_view bytes) {
  ByteReader reader =
      content_of(kRowRequest, bytes, "a request for rows", ErrorCode::kInvalidArgument);
  RowRequest request;
  reader.read(request.number);
  request.model = read_model(reader);
  const size_t tables = reader.read_count<uint32_t>(1, kMostTables);
  for (size_t t = 0; t < tables; ++t) {
    RowRequest::Table& table = request.tables.emplace_back();
    table.name = reader.read_text<uint32_t>(kLongestText);
    table.dim = reader.read<uint32_t>();
    if (table.dim < 1 || table.dim > kLargestDim) reader.fail(cat("rows of dimension ", table.dim));
    reader.read_all<uint32_t>(table.keys);
  }
  reader.end();
  return request;
}

size_t most_decoded_bytes(size_t message_bytes) {
  // Length of the name, dimension and number of keys; a list that doubles when it is full.
  constexpr size_t kSmallestTable = 3 * sizeof(uint32_t), kGrowing = 3;
  const size_t tables = std::min<size_t>(message_bytes / kSmallestTable, kMostTables);
  return message_bytes + tables * kGrowing * sizeof(RowRequest::Table);
}

size_t answer_bytes(const RowRequest& request) {
  size_t bytes = kAnswerHead + kChecksumBytes;
  for (const RowRequest::Table& table : request.tables)
    bytes += row_floats(table) * sizeof(float) + flag_bytes(table.keys.size());
  return bytes;
}

std::vector<std::byte> make_answer(const RowRequest& request, const FetchRows& fetch) {
  std::vector<std::byte> bytes(answer_bytes(request));
  std::byte* to = bytes.data();
  const auto put = [&](const void* from, size_t count) {
    std::memcpy(to, from, count);
    to += count;
  };
  put(kRowAnswer.data(), kKindBytes);
  put(&request.number, sizeof(uint64_t));
  put(&request.model.version, sizeof(int64_t));
  put(&request.model.content, sizeof(uint64_t));
  for (size_t t = 0; t < request.tables.size(); ++t) {
    const size_t floats = row_floats(request.tables[t]), keys = request.tables[t].keys.size();
    auto* const rows = reinterpret_cast<float*>(to);
    auto* const found = reinterpret_cast<uint8_t*>(to + floats * sizeof(float));
    fetch(t, {rows, floats}, {found, keys});
    to += floats * sizeof(float) + flag_bytes(keys);
  }
  const uint64_t checksum = checksum_of(bytes.data(), bytes.size() - kChecksumBytes);
  put(&checksum, kChecksumBytes);
  return bytes;
}

void read_answer(const RowRequest& request, std::string_view bytes, const TakeRows& take) {
  const auto fail = [](const std::string& why) {
    throw Error(ErrorCode::kCorruption, "an answer " + why);
  };
  if (bytes.size() != answer_bytes(request))
    fail(cat("of ", bytes.size(), " bytes; ", answer_bytes(request), " were expected"));
  ByteReader reader = content_of(kRowAnswer, bytes, "an answer", ErrorCode::kCorruption);
  const auto number = reader.read<uint64_t>();
  const auto version = reader.read<int64_t>();
  const auto content = reader.read<uint64_t>();
  if (number != request.number) fail("to another request");
  if (version != request.model.version || content != request.model.content)
    fail(cat("with rows of version ", version, " (content ", std::hex, content, "), not of ",
             std::dec, request.model.version, " (content ", std::hex, request.model.content, ")"));
  const char* at = bytes.data() + kAnswerHead;
  for (size_t t = 0; t < request.tables.size(); ++t) {
    const size_t keys = request.tables[t].keys.size();
    const char* const rows = at;
    const auto* const found =
        reinterpret_cast<const uint8_t*>(at + row_floats(request.tables[t]) * sizeof(float));
    if (std::any_of(found, found + keys, [](uint8_t flag) { return flag > 1; }))
      fail("with flags that are neither 0 nor 1");
    take(t, rows, found);
    at = reinterpret_cast<const char*>(found) + flag_bytes(keys);
  }
}

// ---- status ----

std::string encode(const StatusRequest& request) {
  ByteWriter writer;
  writer.add_bytes(kStatusRequest);
  add_models(writer, request.in_use);
  return finish(std::move(writer));
}

std::string encode(const StatusAnswer& answer) {
  ByteWriter writer;
  writer.add_bytes(kStatusAnswer).add(answer.parts.first).add(answer.parts.last);
  writer.add(static_cast<uint8_t>(answer.row_type));
  add_models(writer, answer.models);
  return finish(std::move(writer));
}

StatusRequest decode_status_request(std::string_view bytes) {
  ByteReader reader =
      content_of(kStatusRequest, bytes, "a request for the status", ErrorCode::kInvalidArgument);
  StatusRequest request{read_models(reader)};
  reader.end();
  return request;
}

StatusAnswer decode_status_answer(std::string_view bytes) {
  ByteReader reader = content_of(kStatusAnswer, bytes, "a status", ErrorCode::kCorruption);
  StatusAnswer answer;
  answer.parts.first = reader.read<int32_t>();
  answer.parts.last = reader.read<int32_t>();
  if (answer.parts.first < 0 || answer.parts.last > kParts || answer.parts.count() < 1)
    reader.fail(cat("parts from ", answer.parts.first, " to ", answer.parts.last));
  const auto row_type = reader.read<uint8_t>();
  if (row_type > static_cast<uint8_t>(DType::kInt8))
    reader.fail(cat("rows of type ", static_cast<int>(row_type)));
  answer.row_type = static_cast<DType>(row_type);
  answer.models = read_models(reader);
  reader.end();
  return answer;
}

}  // namespace emblem
