#include "ps/remote/row_message.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/checksum.h"
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

uint64_t checksum_of(const void* data, size_t bytes) {
  Checksum checksum;
  checksum.add(data, bytes);
  return checksum.value();
}

class Writer {
 public:
  explicit Writer(std::string_view kind) : bytes_(kind) {}

  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
  }
  void keys(std::span<const int64_t> values) {
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void model(const ModelId& id) {
    text(id.model);
    number(id.version);
    number(id.content);
  }
  std::string finish() {
    number(checksum_of(bytes_.data(), bytes_.size()));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

class Reader {
 public:
  // `what` names the message in errors, which have this code.
  Reader(std::string_view kind, std::string_view bytes, const char* what, ErrorCode code)
      : rest_(bytes), what_(what), code_(code) {
    if (!bytes.starts_with(kind) || bytes.size() < kKindBytes + kChecksumBytes)
      fail(cat("of ", bytes.size(), " bytes that does not begin as one"));
    uint64_t checksum = 0;
    std::memcpy(&checksum, bytes.data() + bytes.size() - kChecksumBytes, kChecksumBytes);
    rest_.remove_suffix(kChecksumBytes);
    if (checksum != checksum_of(rest_.data(), rest_.size()))
      fail("whose checksum does not match its content");
    rest_.remove_prefix(kKindBytes);
  }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(value)), sizeof(value));
    return value;
  }
  uint32_t count(uint32_t most) {
    const auto value = number<uint32_t>();
    if (value > most) fail(cat("with a count of ", value, "; at most ", most, " are possible"));
    return value;
  }
  std::string text() {
    const uint32_t size = count(kLongestText);
    return {take(size), size};
  }
  std::vector<int64_t> keys(size_t count) {
    const char* from = take(count * sizeof(int64_t));
    std::vector<int64_t> values(count);
    if (count > 0) std::memcpy(values.data(), from, count * sizeof(int64_t));
    return values;
  }
  ModelId model() {
    ModelId id;
    id.model = text();
    id.version = number<int64_t>();
    id.content = number<uint64_t>();
    return id;
  }
  void finish() {
    if (!rest_.empty()) fail(cat("with ", rest_.size(), " bytes too many"));
  }
  [[noreturn]] void fail(const std::string& why) const { throw Error(code_, cat(what_, " ", why)); }

 private:
  const char* take(size_t bytes) {
    if (bytes > rest_.size()) fail("that ends too early");
    const char* at = rest_.data();
    rest_.remove_prefix(bytes);
    return at;
  }

  std::string_view rest_;
  const char* what_;
  ErrorCode code_;
};

// Flags are padded, so that rows and checksum are at multiples of 4.
size_t flag_bytes(size_t keys) { return (keys + 3) / 4 * 4; }
size_t row_floats(const RowRequest::Table& table) {
  return table.keys.size() * static_cast<size_t>(table.dim);
}

std::vector<ModelId> read_models(Reader& reader) {
  std::vector<ModelId> models(reader.count(kMostModels));
  for (ModelId& model : models) model = reader.model();
  return models;
}

void write_models(Writer& writer, const std::vector<ModelId>& models) {
  writer.number(static_cast<uint32_t>(models.size()));
  for (const ModelId& model : models) writer.model(model);
}

}  // namespace

std::string ModelId::text() const { return cat("model ", model, " version ", version); }

ModelId model_id(std::string model, int64_t version, std::string_view manifest) {
  return {std::move(model), version, checksum_of(manifest.data(), manifest.size())};
}

// ---- rows ----

std::string encode(const RowRequest& request) {
  Writer writer(kRowRequest);
  writer.number(request.number);
  writer.model(request.model);
  writer.number(static_cast<uint32_t>(request.tables.size()));
  for (const RowRequest::Table& table : request.tables) {
    writer.text(table.name);
    writer.number(static_cast<uint32_t>(table.dim));
    writer.number(static_cast<uint32_t>(table.keys.size()));
    writer.keys(table.keys);
  }
  return writer.finish();
}

RowRequest decode_row_request(std::string_view bytes) {
  Reader reader(kRowRequest, bytes, "a request for rows", ErrorCode::kInvalidArgument);
  RowRequest request;
  request.number = reader.number<uint64_t>();
  request.model = reader.model();
  const uint32_t tables = reader.count(kMostTables);
  for (uint32_t t = 0; t < tables; ++t) {
    RowRequest::Table& table = request.tables.emplace_back();
    table.name = reader.text();
    table.dim = reader.number<uint32_t>();
    if (table.dim < 1 || table.dim > kLargestDim)
      reader.fail(cat("with rows of dimension ", table.dim));
    const auto keys = reader.number<uint32_t>();
    table.keys = reader.keys(keys);
  }
  reader.finish();
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
  Reader reader(kRowAnswer, bytes, "an answer", ErrorCode::kCorruption);
  const auto number = reader.number<uint64_t>();
  const auto version = reader.number<int64_t>();
  const auto content = reader.number<uint64_t>();
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
  Writer writer(kStatusRequest);
  write_models(writer, request.in_use);
  return writer.finish();
}

std::string encode(const StatusAnswer& answer) {
  Writer writer(kStatusAnswer);
  writer.number(answer.parts.first);
  writer.number(answer.parts.last);
  writer.number(static_cast<uint8_t>(answer.row_type));
  write_models(writer, answer.models);
  return writer.finish();
}

StatusRequest decode_status_request(std::string_view bytes) {
  Reader reader(kStatusRequest, bytes, "a request for the status", ErrorCode::kInvalidArgument);
  StatusRequest request{read_models(reader)};
  reader.finish();
  return request;
}

StatusAnswer decode_status_answer(std::string_view bytes) {
  Reader reader(kStatusAnswer, bytes, "a status", ErrorCode::kCorruption);
  StatusAnswer answer;
  answer.parts.first = reader.number<int32_t>();
  answer.parts.last = reader.number<int32_t>();
  if (answer.parts.first < 0 || answer.parts.last > kParts || answer.parts.count() < 1)
    reader.fail(cat("with parts from ", answer.parts.first, " to ", answer.parts.last));
  const auto row_type = reader.number<uint8_t>();
  if (row_type > static_cast<uint8_t>(DType::kInt8))
    reader.fail(cat("with rows of type ", static_cast<int>(row_type)));
  answer.row_type = static_cast<DType>(row_type);
  answer.models = read_models(reader);
  reader.finish();
  return answer;
}

}  // namespace emblem
