#include "data/format/binary/binary_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/format/rows/kept_columns.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Rows that are spread over the columns at a time: their records stay in the first-level cache
// while every column takes its element from them.
constexpr int64_t kTileRows = 64;

template <class Element, class To, class Convert>
void load(const char* from, int64_t stride, int64_t count, To* to, Convert convert) {
  if (stride == static_cast<int64_t>(sizeof(Element))) {
    for (int64_t i = 0; i < count; ++i) {
      Element element;
      std::memcpy(&element, from + i * sizeof(Element), sizeof(Element));
      to[i] = convert(element);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, from + i * stride, sizeof(Element));
    to[i] = convert(element);
  }
}

// Without branches, so that the loop above becomes vector code. Scaling by 2^112 moves the exponent
// from half's bias to float's and makes subnormals right.
float half_to_float(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  float scaled;
  std::memcpy(&scaled, &magnitude, 4);
  scaled *= 0x1p112f;
  uint32_t bits;
  std::memcpy(&bits, &scaled, 4);
  bits |= magnitude >= (0x7c00u << 13) ? 0x7f800000u | magnitude : 0u;
  bits |= sign;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

void copy_records(const std::vector<int64_t>& order, int64_t record_bytes, const char* from,
                  char* to) {
  for (const int64_t record : order) {
    std::memcpy(to, from + record * record_bytes, static_cast<size_t>(record_bytes));
    to += record_bytes;
  }
}

// An element as it would be written in text: a float with the fewest digits that give it back.
std::string element_text(const char* at, ElementType type, ColumnType column) {
  if (type == ElementType::kFloat16 || type == ElementType::kFloat32) {
    float value = 0;
    load_floats(at, 0, type, 1, &value);
    return fmt::format("{}", value);
  }
  int64_t value = 0;
  load_keys(at, 0, type, 1, &value);
  const bool is_signed = column == ColumnType::kFloat && type == ElementType::kInt32;
  return fmt::format("{}", is_signed ? static_cast<int32_t>(value) : value);
}

}  // namespace

int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kInt8:
    case ElementType::kUint8:
      return 1;
    case ElementType::kInt16:
    case ElementType::kFloat16:
      return 2;
    case ElementType::kInt64:
      return 8;
    case ElementType::kInt32:
    case ElementType::kFloat32:
      break;
  }
  return 4;
}

ElementType parse_element_type(const std::string& name, const std::string& what) {
  if (name == "int8") return ElementType::kInt8;
  if (name == "uint8" || name == "bool") return ElementType::kUint8;
  if (name == "int16") return ElementType::kInt16;
  if (name == "int32" || name == "uint32") return ElementType::kInt32;
  if (name == "int64") return ElementType::kInt64;
  if (name == "float16") return ElementType::kFloat16;
  if (name == "float32") return ElementType::kFloat32;
  throw Error(ErrorCode::kInvalidArgument,
              cat(what, " is ", in_quotes(name),
                  "; expected int8, uint8, bool, int16, int32, uint32, int64, float16 or float32"));
}

void load_floats(const char* from, int64_t stride, ElementType type, int64_t count, float* to) {
  const auto as_float = [](auto element) { return static_cast<float>(element); };
  switch (type) {
    case ElementType::kInt8:
      return load<int8_t>(from, stride, count, to, as_float);
    case ElementType::kUint8:
      return load<uint8_t>(from, stride, count, to, as_float);
    case ElementType::kInt16:
      return load<int16_t>(from, stride, count, to, as_float);
    case ElementType::kInt32:
      return load<int32_t>(from, stride, count, to, as_float);
    case ElementType::kInt64:
      return load<int64_t>(from, stride, count, to, as_float);
    case ElementType::kFloat16:
      return load<uint16_t>(from, stride, count, to, half_to_float);
    case ElementType::kFloat32:
      return load<float>(from, stride, count, to, as_float);
  }
}

void load_keys(const char* from, int64_t stride, ElementType type, int64_t count, int64_t* to) {
  const auto as_key = [](auto element) { return static_cast<int64_t>(element); };
  switch (type) {
    case ElementType::kInt8:
      return load<int8_t>(from, stride, count, to, as_key);
    case ElementType::kUint8:
      return load<uint8_t>(from, stride, count, to, as_key);
    case ElementType::kInt16:
      return load<int16_t>(from, stride, count, to, as_key);
    case ElementType::kInt32:
      return load<uint32_t>(from, stride, count, to, as_key);
    case ElementType::kInt64:
      return load<int64_t>(from, stride, count, to, as_key);
    case ElementType::kFloat16:
    case ElementType::kFloat32:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "a category column has floating-point elements; expected integers");
}

BinaryDecoder::BinaryDecoder(const std::vector<ColumnSpec>& schema, std::vector<BinaryPart> parts,
                             const DataSource& source, const std::vector<ColumnRequest>* requests,
                             const std::string& name)
    : wanted_(find_columns(schema, requests, name)),
      filters_(row_filters(source.filters)),
      parts_(std::move(parts)) {
  for (const ColumnSpec& column : schema) field_types_.push_back(column.type);
  for (const int field : wanted_) columns_.push_back(schema[field]);
  for (const std::string& kept : source.keep) kept_.push_back(find_column(schema, kept, name));
  for (RowFilter& filter : filters_) {
    const int field = filtered_.emplace_back(find_column(schema, filter, name));
    const bool is_number = field_types_[field] == ColumnType::kFloat;
    filter.set_field({.name = filter.column(),
                      .type = is_number ? LeafType::kFloat : LeafType::kInteger,
                      .type_text = is_number ? "a column of numbers" : "a column of integers"},
                     name);
  }
  for (const BinaryPart& part : parts_) names_.push_back(part.name);
}

int64_t BinaryDecoder::file_bytes(int file) const {
  int64_t bytes = 0;
  for (const BinaryTable& table : parts_[file].tables) bytes += table.file.bytes();
  return bytes;
}

std::string BinaryDecoder::read_directly() {
  std::string refused;
  for (BinaryPart& part : parts_) {
    for (BinaryTable& table : part.tables)
      if (!table.file.read_directly() && refused.empty()) refused = table.file.path();
  }
  return refused;
}

void BinaryDecoder::prefetch(int file, Extent range) const {
  const BinaryPart& part = parts_[file];
  std::vector<bool> asked(part.tables.size());
  const auto ask = [&](int field) {
    const auto table = static_cast<size_t>(part.fields[field].table);
    if (asked[table]) return;
    asked[table] = true;
    const int64_t record_bytes = part.tables[table].record_bytes;
    part.tables[table].file.prefetch(range.begin * record_bytes,
                                     (range.end - range.begin) * record_bytes);
  };
  for (const int field : fields_read()) ask(field);
}

std::vector<int> BinaryDecoder::fields_read() const {
  std::vector<int> fields = wanted_;
  fields.insert(fields.end(), kept_.begin(), kept_.end());
  fields.insert(fields.end(), filtered_.begin(), filtered_.end());
  return fields;
}

bool BinaryDecoder::keeps(const BinaryPart& part, const std::vector<char*>& tables,
                          int64_t record) const {
  for (size_t i = 0; i < filters_.size(); ++i) {
    const BinaryField& field = part.fields[filtered_[i]];
    const char* const at =
        tables[field.table] + record * part.tables[field.table].record_bytes + field.offset;
    if (field_types_[filtered_[i]] == ColumnType::kFloat) {
      float value = 0;
      load_floats(at, 0, field.type, 1, &value);
      if (std::isnan(value) || !filters_[i].keeps(static_cast<double>(value))) return false;
    } else {
      int64_t value = 0;
      load_keys(at, 0, field.type, 1, &value);
      if (!filters_[i].keeps(value)) return false;
    }
  }
  return true;
}

std::vector<char*> BinaryDecoder::read_tables(const BinaryPart& part, Extent range,
                                              HostVector<char>& buffer) const {
  const int64_t records = range.end - range.begin;
  std::vector<int64_t> begins(part.tables.size(), -1);
  int64_t bytes = 0;
  const auto need = [&](int field) {
    const int table = part.fields[field].table;
    if (begins[table] >= 0) return;
    begins[table] = bytes;
    bytes += records * part.tables[table].record_bytes;
  };
  for (const int field : fields_read()) need(field);
  buffer.resize(static_cast<size_t>(bytes));
  std::vector<char*> tables(part.tables.size(), nullptr);
  for (size_t t = 0; t < tables.size(); ++t) {
    if (begins[t] < 0) continue;
    tables[t] = buffer.data() + begins[t];
    const int64_t record_bytes = part.tables[t].record_bytes;
    part.tables[t].file.read(range.begin * record_bytes, records * record_bytes, tables[t]);
  }
  return tables;
}

void BinaryDecoder::spread_columns(const BinaryPart& part, const std::vector<char*>& tables,
                                   Block& block) const {
  block.columns.resize(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    Column& column = block.columns[c];
    column.type = columns_[c].type;
    const bool numbers = column.type == ColumnType::kFloat;
    column.floats.resize(numbers ? static_cast<size_t>(block.rows) : 0);
    column.ints.resize(numbers ? 0 : static_cast<size_t>(block.rows));
    column.missing.clear();
    column.offsets.clear();
    column.weights.clear();
  }
  for (int64_t row = 0; row < block.rows; row += kTileRows) {
    const int64_t count = std::min(kTileRows, block.rows - row);
    for (size_t c = 0; c < columns_.size(); ++c) {
      const BinaryField& field = part.fields[wanted_[c]];
      const int64_t stride = part.tables[field.table].record_bytes;
      const char* from = tables[field.table] + row * stride + field.offset;
      Column& column = block.columns[c];
      if (column.type == ColumnType::kFloat) {
        load_floats(from, stride, field.type, count, column.floats.data() + row);
      } else {
        load_keys(from, stride, field.type, count, column.ints.data() + row);
      }
    }
  }
}

void BinaryDecoder::keep_rows(const BinaryPart& part, const std::vector<char*>& tables,
                              int64_t rows, TextColumn& kept) const {
  std::vector<std::string> values(kept_.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < kept_.size(); ++i) {
      const BinaryField& field = part.fields[kept_[i]];
      const char* const at =
          tables[field.table] + row * part.tables[field.table].record_bytes + field.offset;
      values[i] = element_text(at, field.type, field_types_[kept_[i]]);
    }
    kept.append(csv_line(values));
  }
}

void BinaryDecoder::decode(int file, Extent range, const RowSample& sample, const Random* shuffle,
                           DecodedPiece& out) const {
  const BinaryPart& part = parts_[file];
  std::vector<char*> tables = read_tables(part, range, out.buffer);
  out.file = file;
  out.bytes = static_cast<int64_t>(out.buffer.size());
  out.bad = {};
  out.bad_positions.clear();
  out.kept.clear();
  out.positions.resize(static_cast<size_t>(range.end - range.begin));
  if (sample.keeps_all() && filters_.empty() && shuffle == nullptr) {
    for (int64_t record = range.begin; record < range.end; ++record) {
      out.positions[record - range.begin] = record;
    }
  } else {
    std::vector<int64_t> order;
    for (int64_t record = range.begin; record < range.end; ++record) {
      const bool sampled = sample.keeps_all() || sample.keeps(file, record);
      if (sampled && keeps(part, tables, record - range.begin))
        order.push_back(record - range.begin);
    }
    if (shuffle != nullptr) shuffle_items(order, *shuffle);
    out.second_buffer.resize(out.buffer.size());
    for (size_t t = 0; t < tables.size(); ++t) {
      if (tables[t] == nullptr) continue;
      char* const to = out.second_buffer.data() + (tables[t] - out.buffer.data());
      copy_records(order, part.tables[t].record_bytes, tables[t], to);
      tables[t] = to;
    }
    out.positions.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) out.positions[i] = range.begin + order[i];
  }
  out.block.rows = static_cast<int64_t>(out.positions.size());
  spread_columns(part, tables, out.block);
  if (!kept_.empty()) keep_rows(part, tables, out.block.rows, out.kept);
}

std::string BinaryDecoder::locate(int file, int64_t position) const {
  return cat(names_[file], ": record ", position + 1);
}

}  // namespace emblem
