#ifdef EMBLEM_WITH_ARROW
#include "data/format/columnar/parquet_values.h"

#include <arrow/util/decimal.h>
#include <parquet/types.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/format/columnar/decimal_values.h"
#include "data/format/columnar/leaf_values.h"
#include "data/format/columnar/parquet_schema.h"

namespace emblem {
namespace {

// What all types share. Kind says how values of Type::c_type are appended.
template <class Type, class Kind>
class TypedValues : public ParquetValues {
 public:
  using Value = typename Type::c_type;

  TypedValues(std::shared_ptr<parquet::ColumnReader> reader, ParquetBuffers& buffers, Kind kind)
      : reader_(std::static_pointer_cast<parquet::TypedColumnReader<Type>>(std::move(reader))),
        buffers_(buffers),
        kind_(kind) {}

  int64_t fetch(int64_t levels, int16_t* definition, int16_t* repetition,
                int64_t& values) override {
    const size_t bytes = static_cast<size_t>(levels) * sizeof(Value);
    if (buffers_.values.size() < bytes) buffers_.values.resize(bytes);
    return reader_->ReadBatch(levels, definition, repetition,
                              reinterpret_cast<Value*>(buffers_.values.data()), &values);
  }

  void append(int64_t begin, int64_t count, Column& out,
              std::vector<ValueProblem>& problems) override {
    kind_.append(values() + begin, count, out, problems);
  }

  void append_levels(const int16_t* definition, int64_t levels, int16_t max_level, int64_t begin,
                     Column& out, std::vector<ValueProblem>& problems) override {
    const Value* next = values() + begin;
    if constexpr (requires { kind_.spread(next, definition, levels, max_level, out); }) {
      if (kind_.spread(next, definition, levels, max_level, out)) return;
    }
    for (int64_t i = 0; i < levels;) {
      int64_t run = i;
      while (run < levels && definition[run] == max_level) ++run;
      if (run > i) kind_.append(next, run - i, out, problems);
      next += run - i;
      for (i = run; i < levels && definition[i] != max_level; ++i) append_missing(out);
    }
  }

  int64_t fetch_to(int64_t rows, int16_t* definition, int16_t max_level, Column& out) override {
    if constexpr (requires { kind_.end_of(rows, out); }) {
      Value* const to = kind_.end_of(rows, out);
      if (to == nullptr) return -1;
      int64_t values = 0;
      const int64_t levels = reader_->ReadBatch(rows, definition, nullptr, to, &values);
      kind_.keep(rows - levels, to, definition, levels, values, max_level, out);
      return levels;
    } else {
      return -1;
    }
  }

  int64_t skip(int64_t values) override { return reader_->Skip(values); }

 protected:
  const Value* values() const { return reinterpret_cast<const Value*>(buffers_.values.data()); }

  std::shared_ptr<parquet::TypedColumnReader<Type>> reader_;
  ParquetBuffers& buffers_;
  Kind kind_;
};

// Moves `count` values at the front of `to` to where `levels` has them, from behind.
template <class T>
void spread_in_place(T* to, const int16_t* definition, int64_t levels, int64_t count,
                     int16_t max_level, T missing) {
  for (int64_t i = levels; i-- > 0;) to[i] = definition[i] == max_level ? to[--count] : missing;
}

void mark_missing(const int16_t* definition, int64_t levels, int16_t max_level, Column& out) {
  const size_t begin = out.ints.size() - static_cast<size_t>(levels);
  out.missing.resize(begin, 0);
  out.missing.resize(begin + static_cast<size_t>(levels));
  uint8_t* const to = out.missing.data() + begin;
  for (int64_t i = 0; i < levels; ++i) to[i] = definition[i] != max_level;
}

// Plain numbers; As is what the stored type stands for.
template <class As>
struct Numbers {
  template <class Value>
  void append(const Value* values, int64_t count, Column& out,
              std::vector<ValueProblem>& problems) const {
    static_assert(sizeof(Value) == sizeof(As));
    append_numbers(reinterpret_cast<const As*>(values), count, out, problems);
  }

  // In one pass without branches; false for what has to be looked at value by value.
  template <class Value>
  bool spread(const Value* from, const int16_t* definition, int64_t levels, int16_t max_level,
              Column& out) const {
    const As* next = reinterpret_cast<const As*>(from);
    const auto size = static_cast<size_t>(levels);
    if (out.type == ColumnType::kFloat) {
      const size_t begin = out.floats.size();
      out.floats.resize(begin + size);
      float* const to = out.floats.data() + begin;
      for (size_t i = 0; i < size; ++i) {
        const bool has_value = definition[i] == max_level;
        to[i] = has_value ? static_cast<float>(*next) : std::numeric_limits<float>::quiet_NaN();
        next += has_value;
      }
      return true;
    }
    if constexpr (!std::is_floating_point_v<As>) {
      if (out.type != ColumnType::kInt64) return false;
      const size_t begin = out.ints.size();
      out.ints.resize(begin + size);
      int64_t* const to = out.ints.data() + begin;
      for (size_t i = 0; i < size; ++i) {
        const bool has_value = definition[i] == max_level;
        to[i] = has_value ? static_cast<int64_t>(*next) : 0;
        next += has_value;
      }
      mark_missing(definition, levels, max_level, out);
      return true;
    }
    return false;
  }
};

// Numbers that a Column holds as they are stored.
template <class Element>
struct PlainNumbers : Numbers<Element> {
  static constexpr bool kIsFloat = std::is_same_v<Element, float>;

  // Room for `rows` at the end of `out`; null where they are converted.
  Element* end_of(int64_t rows, Column& out) const {
    if (out.type != (kIsFloat ? ColumnType::kFloat : ColumnType::kInt64)) return nullptr;
    HostVector<Element>& elements = elements_of(out);
    const size_t begin = elements.size();
    elements.resize(begin + static_cast<size_t>(rows));
    return elements.data() + begin;
  }

  void keep(int64_t unused, Element* to, const int16_t* definition, int64_t levels, int64_t values,
            int16_t max_level, Column& out) const {
    HostVector<Element>& elements = elements_of(out);
    elements.resize(elements.size() - static_cast<size_t>(unused));
    if (values == levels) return;
    constexpr Element kMissing = kIsFloat ? std::numeric_limits<Element>::quiet_NaN() : Element{0};
    spread_in_place(to, definition, levels, values, max_level, kMissing);
    if constexpr (!kIsFloat) mark_missing(definition, levels, max_level, out);
  }

 private:
  static HostVector<Element>& elements_of(Column& out) {
    if constexpr (kIsFloat) {
      return out.floats;
    } else {
      return out.ints;
    }
  }
};

struct Texts {
  void append(const parquet::ByteArray* values, int64_t count, Column& out,
              std::vector<ValueProblem>&) const {
    for (int64_t i = 0; i < count; ++i)
      append_text({reinterpret_cast<const char*>(values[i].ptr), values[i].len}, out);
  }
};

struct FixedTexts {
  int bytes = 0;
  void append(const parquet::FixedLenByteArray* values, int64_t count, Column& out,
              std::vector<ValueProblem>&) const {
    for (int64_t i = 0; i < count; ++i)
      append_text({reinterpret_cast<const char*>(values[i].ptr), static_cast<size_t>(bytes)}, out);
  }
};

struct Halves {
  void append(const parquet::FixedLenByteArray* values, int64_t count, Column& out,
              std::vector<ValueProblem>& problems) const {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, values[i].ptr, sizeof bits);
      append_half(bits, out, problems);
    }
  }
};

struct Timestamps {
  void append(const parquet::Int96* values, int64_t count, Column& out,
              std::vector<ValueProblem>& problems) const {
    for (int64_t i = 0; i < count; ++i) {
      int64_t in_day = 0;
      std::memcpy(&in_day, &values[i].value[0], sizeof in_day);
      const int64_t value = nanoseconds_of(values[i].value[2], in_day);
      append_numbers(&value, 1, out, problems);
    }
  }
};

// Doubles as text.
struct Digits {
  void append(const double* values, int64_t count, Column& out, std::vector<ValueProblem>&) const {
    for (int64_t i = 0; i < count; ++i) append_number_text(values[i], out);
  }
};

// Integers with a scale as text.
struct ScaledDigits {
  int scale = 0;
  template <class Value>
  void append(const Value* values, int64_t count, Column& out, std::vector<ValueProblem>&) const {
    for (int64_t i = 0; i < count; ++i)
      append_text(arrow::Decimal128(values[i]).ToString(scale), out);
  }
};

// Integers with a scale.
struct ScaledIntegers {
  double divisor = 1;
  template <class Value>
  void append(const Value* values, int64_t count, Column& out,
              std::vector<ValueProblem>& problems) const {
    for (int64_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(values[i]) / divisor;
      append_numbers(&value, 1, out, problems);
    }
  }
};

// Decimals in bytes, the most significant first.
struct Decimals {
  int bytes = 0;  // 0: ByteArray has them
  int scale = 0;
  bool exact = false;

  template <class Value>
  void append(const Value* values, int64_t count, Column& out,
              std::vector<ValueProblem>& problems) const {
    for (int64_t i = 0; i < count; ++i) {
      int size = bytes;
      if constexpr (std::is_same_v<Value, parquet::ByteArray>)
        size = static_cast<int>(values[i].len);
      append_big_endian_decimal(values[i].ptr, size, scale, exact, out, problems);
    }
  }
};

// Text by code. All pages of the chunk are encoded by its dictionary.
class CodedTexts final : public ParquetValues {
 public:
  CodedTexts(std::shared_ptr<parquet::ColumnReader> reader, ParquetBuffers& buffers)
      : reader_(std::static_pointer_cast<parquet::ByteArrayReader>(std::move(reader))),
        buffers_(buffers),
        dictionary_(std::make_shared<TextDictionary>()) {}

  int64_t fetch(int64_t levels, int16_t* definition, int16_t* repetition,
                int64_t& values) override {
    const size_t bytes = static_cast<size_t>(levels) * sizeof(int32_t);
    if (buffers_.values.size() < bytes) buffers_.values.resize(bytes);
    const parquet::ByteArray* entries = nullptr;
    int32_t count = 0;
    const int64_t read = reader_->ReadBatchWithDictionary(levels, definition, repetition, codes(),
                                                          &values, &entries, &count);
    if (dictionary_->ends.empty() && count > 0) copy_entries(entries, count);
    check_codes(values);
    return read;
  }

  void append(int64_t begin, int64_t count, Column& out, std::vector<ValueProblem>&) override {
    out.dictionary = dictionary_;
    out.codes.insert(out.codes.end(), codes() + begin, codes() + begin + count);
  }

  void append_levels(const int16_t* definition, int64_t levels, int16_t max_level, int64_t begin,
                     Column& out, std::vector<ValueProblem>&) override {
    out.dictionary = dictionary_;
    const int32_t* next = codes() + begin;
    const size_t first = out.codes.size();
    out.codes.resize(first + static_cast<size_t>(levels));
    int32_t* const to = out.codes.data() + first;
    for (int64_t i = 0; i < levels; ++i) {
      const bool has_value = definition[i] == max_level;
      to[i] = has_value ? *next : -1;
      next += has_value;
    }
  }

  int64_t skip(int64_t values) override { return reader_->Skip(values); }

 private:
  int32_t* codes() const { return reinterpret_cast<int32_t*>(buffers_.values.data()); }

  void copy_entries(const parquet::ByteArray* entries, int32_t count) {
    dictionary_->ends.resize(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
      dictionary_->text.append(reinterpret_cast<const char*>(entries[i].ptr), entries[i].len);
      dictionary_->ends[static_cast<size_t>(i)] = static_cast<uint32_t>(dictionary_->text.size());
    }
  }

  void check_codes(int64_t count) const {
    const auto entries = static_cast<uint32_t>(dictionary_->ends.size());
    uint32_t outside = 0;
    for (int64_t i = 0; i < count; ++i)
      outside |= static_cast<uint32_t>(static_cast<uint32_t>(codes()[i]) >= entries);
    if (outside != 0) throw parquet::ParquetException("a value is outside of the dictionary");
  }

  std::shared_ptr<parquet::ByteArrayReader> reader_;
  ParquetBuffers& buffers_;
  std::shared_ptr<TextDictionary> dictionary_;
};

template <class Type, class Kind>
std::unique_ptr<ParquetValues> make(std::shared_ptr<parquet::ColumnReader> reader,
                                    ParquetBuffers& buffers, Kind kind) {
  return std::make_unique<TypedValues<Type, Kind>>(std::move(reader), buffers, kind);
}

std::unique_ptr<ParquetValues> open_decimals(std::shared_ptr<parquet::ColumnReader> reader,
                                             const parquet::ColumnDescriptor& column,
                                             const ColumnRead& how, ParquetBuffers& buffers) {
  const int scale = parquet_scale(column);
  const ScaledIntegers scaled{std::pow(10.0, scale)};
  switch (column.physical_type()) {
    case parquet::Type::INT32:
      if (scale == 0)
        return make<parquet::Int32Type>(std::move(reader), buffers, Numbers<int32_t>());
      if (how.exact)
        return make<parquet::Int32Type>(std::move(reader), buffers, ScaledDigits{scale});
      return make<parquet::Int32Type>(std::move(reader), buffers, scaled);
    case parquet::Type::INT64:
      if (scale == 0)
        return make<parquet::Int64Type>(std::move(reader), buffers, PlainNumbers<int64_t>());
      if (how.exact)
        return make<parquet::Int64Type>(std::move(reader), buffers, ScaledDigits{scale});
      return make<parquet::Int64Type>(std::move(reader), buffers, scaled);
    case parquet::Type::BYTE_ARRAY:
      return make<parquet::ByteArrayType>(std::move(reader), buffers,
                                          Decimals{0, scale, how.exact});
    default:
      return make<parquet::FLBAType>(std::move(reader), buffers,
                                     Decimals{column.type_length(), scale, how.exact});
  }
}

}  // namespace

std::unique_ptr<ParquetValues> open_parquet_values(parquet::RowGroupReader& group, int column,
                                                   const ColumnRead& how, ParquetBuffers& buffers) {
  const parquet::ColumnDescriptor& descriptor = *group.metadata()->schema()->Column(column);
  const bool is_text = descriptor.physical_type() == parquet::Type::BYTE_ARRAY;
  std::shared_ptr<parquet::ColumnReader> reader =
      how.codes && is_text
          ? group.ColumnWithExposeEncoding(column, parquet::ExposedEncoding::DICTIONARY)
          : group.Column(column);
  const auto& logical = descriptor.logical_type();
  if (logical != nullptr && logical->is_decimal())
    return open_decimals(std::move(reader), descriptor, how, buffers);
  switch (descriptor.physical_type()) {
    case parquet::Type::BOOLEAN:
      return make<parquet::BooleanType>(std::move(reader), buffers, Numbers<uint8_t>());
    case parquet::Type::INT32:
      if (is_unsigned(descriptor))
        return make<parquet::Int32Type>(std::move(reader), buffers, Numbers<uint32_t>());
      return make<parquet::Int32Type>(std::move(reader), buffers, Numbers<int32_t>());
    case parquet::Type::INT64:
      if (is_unsigned(descriptor) && how.type != ColumnType::kInt64)
        return make<parquet::Int64Type>(std::move(reader), buffers, Numbers<uint64_t>());
      return make<parquet::Int64Type>(std::move(reader), buffers, PlainNumbers<int64_t>());
    case parquet::Type::INT96:
      return make<parquet::Int96Type>(std::move(reader), buffers, Timestamps());
    case parquet::Type::FLOAT:
      return make<parquet::FloatType>(std::move(reader), buffers, PlainNumbers<float>());
    case parquet::Type::DOUBLE:
      if (how.exact) return make<parquet::DoubleType>(std::move(reader), buffers, Digits());
      return make<parquet::DoubleType>(std::move(reader), buffers, Numbers<double>());
    case parquet::Type::BYTE_ARRAY:
      if (how.codes && reader->GetExposedEncoding() == parquet::ExposedEncoding::DICTIONARY)
        return std::make_unique<CodedTexts>(std::move(reader), buffers);
      return make<parquet::ByteArrayType>(std::move(reader), buffers, Texts());
    default:
      if (logical != nullptr && logical->is_float16())
        return make<parquet::FLBAType>(std::move(reader), buffers, Halves());
      return make<parquet::FLBAType>(std::move(reader), buffers,
                                     FixedTexts{descriptor.type_length()});
  }
}

}  // namespace emblem
#endif
