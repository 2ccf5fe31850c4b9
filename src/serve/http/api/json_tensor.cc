#include "serve/http/api/json_tensor.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include "emblem/error.h"
#include "serve/protocol/encoding/json_writer.h"

namespace emblem {
namespace {

[[noreturn]] void refuse_half(const std::string& name, DataType type) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("tensor ", name, " of type ", name_of(type),
                  " has no JSON form; use the binary data extension for it"));
}

// JSON numbers as T. Numbers too close to 0 for T become 0; those too large are refused.
template <class T>
bool parse_number(std::string_view digits, T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (digits == "NaN") {
      value = std::numeric_limits<T>::quiet_NaN();
      return true;
    }
    if (digits == "Infinity" || digits == "-Infinity") {
      value = std::numeric_limits<T>::infinity();
      if (digits.front() == '-') value = -value;
      return true;
    }
  }
  const char* last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (end != last) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) {
      value = static_cast<T>(std::strtod(std::string(digits).c_str(), nullptr));
      return std::abs(value) < T{1};
    }
  }
  return error == std::errc();
}

class ArrayReader {
 public:
  ArrayReader(JsonReader& reader, const InputTensor& input, MemoryBudget::Lease& lease)
      : reader_(reader),
        input_(input),
        lease_(lease),
        total_(static_cast<size_t>(element_count(input.shape))) {
    // A value and its comma take two bytes: shapes beyond that would only make us reserve memory.
    if (total_ > reader.bytes_left() / 2 + 1) refuse_count("fewer");
  }

  template <class T>
  std::vector<std::byte> numbers() {
    allocate(total_ * sizeof(T));
    level(1, [&] {
      const std::string_view digits = reader_.number();
      T value;
      if (!parse_number(digits, value)) refuse_value(digits);
      std::memcpy(data_.data() + count_ * sizeof(T), &value, sizeof(T));
    });
    return finish();
  }

  std::vector<std::byte> booleans() {
    allocate(total_);
    level(1, [&] { data_[count_] = std::byte{reader_.boolean()}; });
    return finish();
  }

  std::vector<std::byte> strings() {
    // Texts are no longer than their JSON.
    JsonReader ahead = reader_;
    ahead.skip();
    const size_t most = total_ * sizeof(uint32_t) + (ahead.position() - reader_.position());
    lease_.grow(most);
    data_.reserve(most);
    level(1, [&] {
      const size_t at = data_.size();
      data_.resize(at + sizeof(uint32_t));
      reader_.string_to(data_);
      const auto length = static_cast<uint32_t>(data_.size() - at - sizeof(uint32_t));
      std::memcpy(data_.data() + at, &length, sizeof(length));
    });
    return finish();
  }

 private:
  void allocate(size_t bytes) {
    lease_.grow(bytes);
    data_.resize(bytes);
  }

  template <class TakeValue>
  void level(size_t depth, const TakeValue& take_value) {
    int64_t here = 0;
    bool nested = depth > 1;
    reader_.array([&] {
      ++here;
      if (reader_.kind() == JsonReader::Kind::kArray) {
        nested = true;
        if (depth >= input_.shape.size())
          throw Error(ErrorCode::kInvalidArgument,
                      cat("input ", input_.name, ": data is nested deeper than its shape ",
                          shape_text(input_.shape)));
        level(depth + 1, take_value);
        return;
      }
      if (count_ == total_) refuse_count("more");
      if (reader_.kind() == JsonReader::Kind::kNull) refuse_null();
      take_value();
      ++count_;
    });
    EMBLEM_REQUIRE(!nested || here == input_.shape[depth - 1], "input ", input_.name,
                   ": data has an array of ", here, " where the shape ", shape_text(input_.shape),
                   " needs ", input_.shape[depth - 1]);
  }

  std::vector<std::byte> finish() {
    if (count_ != total_) refuse_count("fewer");
    return std::move(data_);
  }

  [[noreturn]] void refuse_count(const char* how) const {
    throw Error(ErrorCode::kInvalidArgument,
                cat("input ", input_.name, ": data has ", how, " values than the ", total_,
                    " of its shape ", shape_text(input_.shape)));
  }
  [[noreturn]] void refuse_value(std::string_view digits) const {
    throw Error(ErrorCode::kInvalidArgument, cat("input ", input_.name, ": ", digits.substr(0, 40),
                                                 " is not a value of ", name_of(input_.type)));
  }

  [[noreturn]] void refuse_null() const {
    const bool has_nan = input_.type == DataType::kFp32 || input_.type == DataType::kFp64;
    throw Error(ErrorCode::kInvalidArgument,
                cat("input ", input_.name, ": null is not a value of ", name_of(input_.type),
                    has_nan ? "; write NaN for a missing number" : ""));
  }

  JsonReader& reader_;
  const InputTensor& input_;
  MemoryBudget::Lease& lease_;
  const size_t total_;
  size_t count_ = 0;
  std::vector<std::byte> data_;
};

template <class T>
void append_numbers(std::string& out, const OutputTensor& output) {
  const size_t count = output.data.size() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, output.data.data() + i * sizeof(T), sizeof(T));
    if (i > 0) out += ',';
    append_json_number(out, value);
  }
}

void append_booleans(std::string& out, const OutputTensor& output) {
  const char* comma = "";
  for (const std::byte value : output.data) {
    out += comma;
    out += value == std::byte{0} ? "false" : "true";
    comma = ",";
  }
}

void append_strings(std::string& out, const OutputTensor& output) {
  const char* comma = "";
  for_each_string(output.data, element_count(output.shape), [&](std::string_view text) {
    out += comma;
    EMBLEM_REQUIRE(append_json_string(out, text), "output ", output.name,
                   " has bytes that are not UTF-8; ask for it with binary_data");
    comma = ",";
  });
}

}  // namespace

std::vector<std::byte> read_json_tensor(JsonReader& reader, const InputTensor& input,
                                        MemoryBudget::Lease& lease) {
  ArrayReader array(reader, input, lease);
  switch (input.type) {
    case DataType::kBool:
      return array.booleans();
    case DataType::kUint8:
      return array.numbers<uint8_t>();
    case DataType::kUint16:
      return array.numbers<uint16_t>();
    case DataType::kUint32:
      return array.numbers<uint32_t>();
    case DataType::kUint64:
      return array.numbers<uint64_t>();
    case DataType::kInt8:
      return array.numbers<int8_t>();
    case DataType::kInt16:
      return array.numbers<int16_t>();
    case DataType::kInt32:
      return array.numbers<int32_t>();
    case DataType::kInt64:
      return array.numbers<int64_t>();
    case DataType::kFp32:
      return array.numbers<float>();
    case DataType::kFp64:
      return array.numbers<double>();
    case DataType::kBytes:
      return array.strings();
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  refuse_half(input.name, input.type);
}

size_t most_json_bytes(const OutputTensor& output) {
  // Size of a value with its comma: "-1.17549435e-38," and "-2.2250738585072014e-308,".
  constexpr size_t kFloat = 16, kDouble = 25, kInteger = 21, kShort = 7;
  // Size of a byte of text, as "\u0000", and of quotes and comma in the place of its length.
  constexpr size_t kTextByte = 6;
  const size_t bytes = output.data.size();
  switch (output.type) {
    case DataType::kFp32:
      return 2 + bytes / sizeof(float) * kFloat;
    case DataType::kFp64:
      return 2 + bytes / sizeof(double) * kDouble;
    case DataType::kBytes:
      return 2 + bytes * kTextByte;
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUint8:
      return 2 + bytes * kShort;
    default:
      return 2 + bytes / element_bytes(output.type) * kInteger;
  }
}

void append_json_tensor(std::string& out, const OutputTensor& output) {
  out += '[';
  switch (output.type) {
    case DataType::kBool:
      append_booleans(out, output);
      break;
    case DataType::kUint8:
      append_numbers<uint8_t>(out, output);
      break;
    case DataType::kUint16:
      append_numbers<uint16_t>(out, output);
      break;
    case DataType::kUint32:
      append_numbers<uint32_t>(out, output);
      break;
    case DataType::kUint64:
      append_numbers<uint64_t>(out, output);
      break;
    case DataType::kInt8:
      append_numbers<int8_t>(out, output);
      break;
    case DataType::kInt16:
      append_numbers<int16_t>(out, output);
      break;
    case DataType::kInt32:
      append_numbers<int32_t>(out, output);
      break;
    case DataType::kInt64:
      append_numbers<int64_t>(out, output);
      break;
    case DataType::kFp32:
      append_numbers<float>(out, output);
      break;
    case DataType::kFp64:
      append_numbers<double>(out, output);
      break;
    case DataType::kBytes:
      append_strings(out, output);
      break;
    case DataType::kFp16:
    case DataType::kBf16:
      refuse_half(output.name, output.type);
  }
  out += ']';
}

}  // namespace emblem
