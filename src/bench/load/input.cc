#include "bench/load/input.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/tables/bounded_power_law.h"
#include "core/files/file.h"
#include "core/math/half.h"
#include "core/math/random.h"
#include "core/text/json_error.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"

namespace emblem {
namespace {

using Json = nlohmann::json;

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(value));
}

void append_string(std::vector<std::byte>& bytes, std::string_view text) {
  append(bytes, static_cast<uint32_t>(text.size()));
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), from, from + text.size());
}

// The shape of one row, with a leading 1 if the model has a batch dimension. `given` overrides the
// metadata.
std::vector<int64_t> row_shape(const TensorMetadata& tensor, const LoadInputOptions& options) {
  std::vector<int64_t> shape = tensor.shape;
  const bool batches = !shape.empty() && shape[0] == -1;
  if (batches) shape[0] = 1;
  const auto given = options.shapes.find(tensor.name);
  if (given != options.shapes.end()) {
    shape = given->second;
    if (batches && shape.size() + 1 == tensor.shape.size()) shape.insert(shape.begin(), 1);
    EMBLEM_REQUIRE(shape.size() == tensor.shape.size(), "--shape of ", tensor.name, " is ",
                   shape_text(given->second), ", but the model's is ", shape_text(tensor.shape));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    EMBLEM_REQUIRE(shape[i] >= 0, "input ", tensor.name, " has the shape ",
                   shape_text(tensor.shape), ": give its variable sizes with --shape ", tensor.name,
                   ":1,...");
    EMBLEM_REQUIRE(i == 0 || tensor.shape[i] < 0 || tensor.shape[i] == shape[i], "--shape of ",
                   tensor.name, " is ", shape_text(shape), ", but the model's is ",
                   shape_text(tensor.shape));
  }
  EMBLEM_REQUIRE(batches || options.batch == 1, "input ", tensor.name, " of shape ",
                 shape_text(tensor.shape), " has no batch dimension: --batch must be 1");
  return shape;
}

// ---- random requests ----

class RandomValues {
 public:
  explicit RandomValues(const LoadInputOptions& options)
      : random_{options.seed, 17},
        key_range_(options.key_range),
        is_uniform_(options.alpha == 0),
        // Keys begin at 1.
        power_law_(options.key_range + 1, options.alpha == 0 ? 1.0 : options.alpha),
        seed_(options.seed) {}

  int64_t key() {
    if (is_uniform_) return static_cast<int64_t>(random_.below(static_cast<uint64_t>(key_range_)));
    return power_law_(seed_, 18, random_.index++) - 1;
  }
  int64_t key_below(int64_t bound) { return key() % bound; }
  float number() { return random_.uniform(); }

 private:
  Random random_;
  int64_t key_range_;
  bool is_uniform_;
  BoundedPowerLaw power_law_;
  uint64_t seed_;
};

void append_random(std::vector<std::byte>& bytes, DataType type, RandomValues& values) {
  switch (type) {
    case DataType::kBool:
      return append(bytes, static_cast<uint8_t>(values.key_below(2)));
    case DataType::kUint8:
      return append(bytes, static_cast<uint8_t>(values.key_below(256)));
    case DataType::kInt8:
      return append(bytes, static_cast<int8_t>(values.key_below(128)));
    case DataType::kUint16:
      return append(bytes, static_cast<uint16_t>(values.key_below(65536)));
    case DataType::kInt16:
      return append(bytes, static_cast<int16_t>(values.key_below(32768)));
    case DataType::kUint32:
      return append(bytes, static_cast<uint32_t>(values.key_below(int64_t{1} << 32)));
    case DataType::kInt32:
      return append(bytes, static_cast<int32_t>(values.key_below(int64_t{1} << 31)));
    case DataType::kUint64:
    case DataType::kInt64:
      return append(bytes, values.key());
    case DataType::kFp16:
      return append(bytes, F16::from(values.number()).bits);
    case DataType::kBf16:
      return append(bytes, Bf16::from(values.number()).bits);
    case DataType::kFp32:
      return append(bytes, values.number());
    case DataType::kFp64:
      return append(bytes, static_cast<double>(values.number()));
    case DataType::kBytes:
      return append_string(bytes, std::to_string(values.key()));
  }
}

// ---- requests from a file ----

struct Place {
  const std::string& source;
  size_t entry;
  const std::string& input;

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorCode::kInvalidArgument,
                cat(source, ": data[", entry, "].", input, " ", problem));
  }
};

void flatten(const Json& json, std::vector<const Json*>& leaves) {
  if (!json.is_array()) return leaves.push_back(&json);
  for (const Json& item : json) flatten(item, leaves);
}

template <class T>
void append_integer(std::vector<std::byte>& bytes, const Json& json, const Place& place) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (std::in_range<T>(value)) return append(bytes, static_cast<T>(value));
  } else if (json.is_number_integer()) {
    const auto value = json.get<int64_t>();
    if (std::in_range<T>(value)) return append(bytes, static_cast<T>(value));
  }
  place.fail(cat("has ", json.dump(), ", which is not an integer of the input's type"));
}

double number_of(const Json& json, const Place& place) {
  if (!json.is_number()) place.fail(cat("has ", json.dump(), "; expected a number"));
  return json.get<double>();
}

void append_value(std::vector<std::byte>& bytes, DataType type, const Json& json,
                  const Place& place) {
  switch (type) {
    case DataType::kBool:
      if (json.is_boolean()) return append(bytes, static_cast<uint8_t>(json.get<bool>()));
      return append(bytes, static_cast<uint8_t>(number_of(json, place) != 0));
    case DataType::kUint8:
      return append_integer<uint8_t>(bytes, json, place);
    case DataType::kUint16:
      return append_integer<uint16_t>(bytes, json, place);
    case DataType::kUint32:
      return append_integer<uint32_t>(bytes, json, place);
    case DataType::kUint64:
      return append_integer<uint64_t>(bytes, json, place);
    case DataType::kInt8:
      return append_integer<int8_t>(bytes, json, place);
    case DataType::kInt16:
      return append_integer<int16_t>(bytes, json, place);
    case DataType::kInt32:
      return append_integer<int32_t>(bytes, json, place);
    case DataType::kInt64:
      return append_integer<int64_t>(bytes, json, place);
    case DataType::kFp16:
      return append(bytes, F16::from(static_cast<float>(number_of(json, place))).bits);
    case DataType::kBf16:
      return append(bytes, Bf16::from(static_cast<float>(number_of(json, place))).bits);
    case DataType::kFp32:
      return append(bytes, static_cast<float>(number_of(json, place)));
    case DataType::kFp64:
      return append(bytes, number_of(json, place));
    case DataType::kBytes:
      if (!json.is_string()) place.fail(cat("has ", json.dump(), "; expected text"));
      return append_string(bytes, json.get<std::string>());
  }
}

std::vector<std::byte> decoded_base64(const Json& json, const Place& place) {
  if (!json.is_string()) place.fail("has a b64 that is not text");
  const std::string text = json.get<std::string>();
  std::vector<std::byte> bytes(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) place.fail("has a b64 that is not base64");
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

LoadInput read_input(const Json& json, const TensorMetadata& tensor,
                     const LoadInputOptions& options, const Place& place) {
  LoadInput input{tensor.name, tensor.type, {}, {}};
  const Json* content = &json;
  LoadInputOptions with_shape = options;
  if (json.is_object()) {
    if (json.contains("shape")) {
      if (!json["shape"].is_array()) place.fail("has a shape that is not a list");
      std::vector<int64_t> shape;
      for (const Json& size : json["shape"]) {
        if (!size.is_number_integer()) place.fail("has a shape that is not a list of integers");
        shape.push_back(size.get<int64_t>());
      }
      with_shape.shapes[tensor.name] = std::move(shape);
    }
    const bool is_raw = json.contains("b64");
    if (!is_raw && !json.contains("content")) place.fail("has neither \"content\" nor \"b64\"");
    content = is_raw ? &json["b64"] : &json["content"];
    if (is_raw) input.data = decoded_base64(*content, place);
  }
  input.shape = row_shape(tensor, with_shape);
  if (!json.is_object() || !json.contains("b64")) {
    std::vector<const Json*> leaves;
    flatten(*content, leaves);
    const int64_t count = element_count(input.shape);
    if (static_cast<int64_t>(leaves.size()) != count)
      place.fail(
          cat("has ", leaves.size(), " values, but ", shape_text(input.shape), " needs ", count));
    for (const Json* leaf : leaves) append_value(input.data, tensor.type, *leaf, place);
  }
  check_bytes({input.name, input.type, input.shape, input.data});
  return input;
}

LoadRequest read_entry(const Json& entry, const ModelMetadata& model,
                       const LoadInputOptions& options, const std::string& source, size_t number) {
  EMBLEM_REQUIRE(entry.is_object(), source, ": data[", number,
                 "] is not an object; expected values by input");
  for (const auto& [name, value] : entry.items()) {
    const auto& inputs = model.inputs;
    EMBLEM_REQUIRE(std::any_of(inputs.begin(), inputs.end(),
                               [&, &key = name](const auto& one) { return one.name == key; }),
                   source, ": data[", number, "] has \"", name,
                   "\", which is not an input of model ", model.name);
  }
  LoadRequest request;
  for (const TensorMetadata& tensor : model.inputs) {
    if (!entry.contains(tensor.name)) continue;  // optional, or refused by the server
    request.inputs.push_back(
        read_input(entry[tensor.name], tensor, options, {source, number, tensor.name}));
  }
  EMBLEM_REQUIRE(!request.inputs.empty(), source, ": data[", number, "] has no inputs");
  return request;
}

// Adds the rows of `more` to `request`.
void add_rows(LoadRequest& request, const LoadRequest& more) {
  EMBLEM_REQUIRE(request.inputs.size() == more.inputs.size(),
                 "entries that go into one request have different inputs");
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    LoadInput& to = request.inputs[i];
    const LoadInput& from = more.inputs[i];
    EMBLEM_REQUIRE(to.name == from.name && std::equal(to.shape.begin() + 1, to.shape.end(),
                                                      from.shape.begin() + 1, from.shape.end()),
                   "entries that go into one request have different inputs or shapes: ", to.name);
    to.shape[0] += from.shape[0];
    to.data.insert(to.data.end(), from.data.begin(), from.data.end());
  }
}

}  // namespace

std::vector<LoadRequest> read_load_requests(const std::string& text, const std::string& source,
                                            const ModelMetadata& model,
                                            const LoadInputOptions& options) {
  Json json;
  try {
    json = Json::parse(text, shallow_json);
  } catch (const Json::parse_error& error) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(source, " is not JSON: ", json_problem(error.what())));
  }
  EMBLEM_REQUIRE(json.is_object() && json.contains("data") && json["data"].is_array(), source,
                 " has no list \"data\"; expected {\"data\": [{\"INPUT\": [...]}, ...]}");
  std::vector<LoadRequest> rows;
  for (const Json& entry : json["data"]) {
    // A nested list is a sequence of requests.
    const Json entries = entry.is_array() ? entry : Json::array({entry});
    for (const Json& one : entries)
      rows.push_back(read_entry(one, model, options, source, rows.size()));
  }
  EMBLEM_REQUIRE(!rows.empty(), source, " has no entries in \"data\"");
  if (options.batch == 1) return rows;
  // All entries once; the last request wraps around to the first entries if needed.
  const auto batch = static_cast<size_t>(options.batch);
  const size_t count = (rows.size() + batch - 1) / batch;
  std::vector<LoadRequest> requests;
  for (size_t r = 0; r < count; ++r) {
    LoadRequest request = rows[r * batch % rows.size()];
    for (size_t i = 1; i < batch; ++i) add_rows(request, rows[(r * batch + i) % rows.size()]);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<LoadRequest> random_load_requests(const ModelMetadata& model,
                                              const LoadInputOptions& options) {
  EMBLEM_REQUIRE(options.batch >= 1, "--batch must be at least 1, not ", options.batch);
  EMBLEM_REQUIRE(options.variety >= 1, "--variety must be at least 1, not ", options.variety);
  EMBLEM_REQUIRE(options.key_range >= 1, "--key-range must be at least 1, not ", options.key_range);
  EMBLEM_REQUIRE(options.alpha >= 0, "--alpha must not be negative, but is ", options.alpha);
  EMBLEM_REQUIRE(!model.inputs.empty(), "model ", model.name, " has no inputs");
  RandomValues values(options);
  std::vector<LoadRequest> requests(static_cast<size_t>(options.variety));
  for (LoadRequest& request : requests) {
    for (const TensorMetadata& tensor : model.inputs) {
      LoadInput input{tensor.name, tensor.type, row_shape(tensor, options), {}};
      if (!input.shape.empty()) input.shape[0] *= options.batch;
      for (int64_t i = element_count(input.shape); i > 0; --i)
        append_random(input.data, tensor.type, values);
      request.inputs.push_back(std::move(input));
    }
  }
  return requests;
}

std::vector<LoadRequest> make_load_requests(const ModelMetadata& model,
                                            const LoadInputOptions& options) {
  for (const auto& [name, shape] : options.shapes) {
    const auto& inputs = model.inputs;
    EMBLEM_REQUIRE(std::any_of(inputs.begin(), inputs.end(),
                               [&, &key = name](const auto& one) { return one.name == key; }),
                   "--shape names ", name, ", which is not an input of model ", model.name);
  }
  if (options.input_data.empty()) return random_load_requests(model, options);
  return read_load_requests(read_text_file(options.input_data), options.input_data, model, options);
}

std::pair<std::string, std::vector<int64_t>> parse_shape_option(const std::string& text) {
  const size_t colon = text.rfind(':');
  EMBLEM_REQUIRE(colon != std::string::npos && colon > 0 && colon + 1 < text.size(), "--shape ",
                 text, " is not NAME:SIZE,SIZE..., e.g. ids:1,26");
  std::vector<int64_t> shape;
  for (const std::string& size : split(text.substr(colon + 1), ','))
    shape.push_back(parse_size(size, "--shape " + text));
  return {text.substr(0, colon), shape};
}

int64_t rows_of(const LoadRequest& request) {
  const std::vector<int64_t>& shape = request.inputs.at(0).shape;
  return shape.empty() ? 1 : shape[0];
}

std::string problem_with(const LoadAnswer& answer, const ModelMetadata& model, int64_t rows) {
  if (answer.outputs.empty()) return "has no outputs";
  for (const OutputTensor& output : answer.outputs) {
    const auto known =
        std::find_if(model.outputs.begin(), model.outputs.end(),
                     [&](const TensorMetadata& one) { return one.name == output.name; });
    if (known == model.outputs.end()) return cat("has an unknown output ", output.name);
    bool fits = output.type == known->type && output.shape.size() == known->shape.size();
    for (size_t i = 0; fits && i < output.shape.size(); ++i) {
      const int64_t expected = i == 0 && known->shape[0] == -1 ? rows : known->shape[i];
      fits = output.shape[i] >= 0 && (expected == -1 || output.shape[i] == expected);
    }
    if (!fits)
      return cat("has ", output.name, " as ", name_of(output.type), " ", shape_text(output.shape),
                 "; expected ", name_of(known->type), " ", shape_text(known->shape), " of ", rows,
                 " rows");
    try {
      check_bytes({output.name, output.type, output.shape, output.data});
    } catch (const Error& error) {
      return cat("is invalid: ", error.what());
    }
  }
  return "";
}

}  // namespace emblem
