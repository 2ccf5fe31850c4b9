#include "data/format/memory/array_format.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "core/text/text.h"
#include "data/format/columnar/leaf_values.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kDeepest = 32;
constexpr int64_t kMostChildren = 1 << 20;
// Lengths up to this can be added and turned into bytes without overflow.
constexpr int64_t kLongest = int64_t{1} << 48;

struct PlainFormat {
  const char* format;
  ArrayLayout layout;
  LeafType leaf;
  const char* text;
  int size;
};

constexpr PlainFormat kPlainFormats[] = {
    {"n", ArrayLayout::kNull, LeafType::kInteger, "null", 0},
    {"b", ArrayLayout::kBits, LeafType::kInteger, "bool", 1},
    {"c", ArrayLayout::kInt8, LeafType::kInteger, "int8", 1},
    {"C", ArrayLayout::kUInt8, LeafType::kInteger, "uint8", 1},
    {"s", ArrayLayout::kInt16, LeafType::kInteger, "int16", 2},
    {"S", ArrayLayout::kUInt16, LeafType::kInteger, "uint16", 2},
    {"i", ArrayLayout::kInt32, LeafType::kInteger, "int32", 4},
    {"I", ArrayLayout::kUInt32, LeafType::kInteger, "uint32", 4},
    {"l", ArrayLayout::kInt64, LeafType::kInteger, "int64", 8},
    {"L", ArrayLayout::kUInt64, LeafType::kUnsigned, "uint64", 8},
    {"e", ArrayLayout::kHalf, LeafType::kFloat, "halffloat", 2},
    {"f", ArrayLayout::kFloat, LeafType::kFloat, "float", 4},
    {"g", ArrayLayout::kDouble, LeafType::kDouble, "double", 8},
    {"u", ArrayLayout::kText, LeafType::kText, "string", 4},
    {"U", ArrayLayout::kLargeText, LeafType::kText, "large_string", 8},
    {"vu", ArrayLayout::kTextView, LeafType::kText, "string_view", 16},
    {"z", ArrayLayout::kText, LeafType::kText, "binary", 4},
    {"Z", ArrayLayout::kLargeText, LeafType::kText, "large_binary", 8},
    {"vz", ArrayLayout::kTextView, LeafType::kText, "binary_view", 16},
    {"tdD", ArrayLayout::kInt32, LeafType::kInteger, "date32[day]", 4},
    {"tdm", ArrayLayout::kInt64, LeafType::kInteger, "date64[ms]", 8},
    {"tts", ArrayLayout::kInt32, LeafType::kInteger, "time32[s]", 4},
    {"ttm", ArrayLayout::kInt32, LeafType::kInteger, "time32[ms]", 4},
    {"ttu", ArrayLayout::kInt64, LeafType::kInteger, "time64[us]", 8},
    {"ttn", ArrayLayout::kInt64, LeafType::kInteger, "time64[ns]", 8},
    {"tDs", ArrayLayout::kInt64, LeafType::kInteger, "duration[s]", 8},
    {"tDm", ArrayLayout::kInt64, LeafType::kInteger, "duration[ms]", 8},
    {"tDu", ArrayLayout::kInt64, LeafType::kInteger, "duration[us]", 8},
    {"tDn", ArrayLayout::kInt64, LeafType::kInteger, "duration[ns]", 8},
    {"+s", ArrayLayout::kStruct, LeafType::kOther, "struct", 0},
    {"+l", ArrayLayout::kList, LeafType::kOther, "list", 4},
    {"+m", ArrayLayout::kList, LeafType::kOther, "map", 4},
    {"+L", ArrayLayout::kLargeList, LeafType::kOther, "large_list", 8},
};

const PlainFormat* find_plain(std::string_view format) {
  const auto* const found =
      std::find_if(std::begin(kPlainFormats), std::end(kPlainFormats),
                   [&](const PlainFormat& plain) { return format == plain.format; });
  return found == std::end(kPlainFormats) ? nullptr : found;
}

// "timestamp[us, tz=UTC]" of "tsu:UTC"; "" of what is not a timestamp.
std::string timestamp_text(std::string_view format) {
  if (!format.starts_with("ts") || format.size() < 4 || format[3] != ':') return "";
  const char unit = format[2];
  if (unit != 's' && unit != 'm' && unit != 'u' && unit != 'n') return "";
  std::string text = "timestamp[";
  if (unit != 's') text += unit;
  text += 's';
  if (format.size() > 4) text += cat(", tz=", format.substr(4));
  return text + "]";
}

// The numbers of "w:4", "d:10,2" and "d:10,2,256", after the colon; empty where it has others.
std::vector<int> numbers_in(std::string_view format) {
  std::vector<int> numbers;
  const size_t colon = format.find(':');
  if (colon == format.npos) return numbers;
  const char* at = format.data() + colon + 1;
  const char* const end = format.data() + format.size();
  while (true) {
    int number = 0;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc()) return {};
    numbers.push_back(number);
    if (parsed.ptr == end) return numbers;
    if (*parsed.ptr != ',') return {};
    at = parsed.ptr + 1;
  }
}

ArrayFormat decimal_format(std::string_view format) {
  ArrayFormat decimal;
#ifdef EMBLEM_WITH_ARROW  // which has their arithmetic
  const std::vector<int> numbers = numbers_in(format);
  if (numbers.size() < 2 || numbers.size() > 3) return decimal;
  const int bits = numbers.size() == 3 ? numbers[2] : 128;
  if (bits != 128 && bits != 256) return decimal;
  decimal.layout = ArrayLayout::kDecimal;
  decimal.size = bits / 8;
  decimal.precision = numbers[0];
  decimal.scale = numbers[1];
  decimal.leaf = decimal.scale > 0 ? LeafType::kDouble : LeafType::kInteger;
  decimal.stored = stored_decimal(decimal.precision, decimal.scale);
#else
  (void)format;
#endif
  return decimal;
}

// The name of an extension type, or "". Metadata are a count, and keys and values with their
// lengths, all int32.
std::string_view extension_of(const ArrowSchema& schema) {
  const char* at = schema.metadata;
  if (at == nullptr) return {};
  const auto take_number = [&] {
    int32_t number = 0;
    std::memcpy(&number, at, sizeof number);
    at += sizeof number;
    return number;
  };
  const auto take_text = [&] {
    const auto size = static_cast<size_t>(std::max(take_number(), 0));
    const std::string_view text(at, size);
    at += size;
    return text;
  };
  for (int32_t left = take_number(); left > 0; --left) {
    const std::string_view key = take_text(), value = take_text();
    if (key == "ARROW:extension:name") return value;
  }
  return {};
}

ArrayFormat sized_format(std::string_view format) {
  ArrayFormat sized;
  const std::vector<int> numbers = numbers_in(format);
  if (numbers.size() != 1 || numbers[0] < 0) return sized;
  sized.size = numbers[0];
  if (format.starts_with("w:")) {
    sized.layout = ArrayLayout::kFixedText;
    sized.leaf = LeafType::kText;
    sized.stored = "binary";
  } else if (format.starts_with("+w:")) {
    sized.layout = ArrayLayout::kFixedList;
  }
  return sized;
}

// As ColumnSpec::stored, of Arrow's name of a plain type.
std::string stored_as(const PlainFormat& plain) {
  if (plain.leaf == LeafType::kText)
    return std::string_view(plain.text).find("binary") == std::string_view::npos ? "" : "binary";
  const std::string_view format = plain.format;
  const bool is_kept =
      format == "n" || format == "b" || format == "L" || format == "g" || format.starts_with('t');
  return is_kept ? plain.text : "";
}

std::string decimal_text(std::string_view format) {
  const std::vector<int> numbers = numbers_in(format);
  if (numbers.size() < 2) return std::string(format);
  return cat("decimal", numbers.size() == 3 ? numbers[2] : 128, "(", numbers[0], ", ", numbers[1],
             ")");
}

std::string name_of_child(const ArrowSchema& schema, int64_t child) {
  const char* const name = schema.children[child]->name;
  return name == nullptr ? "" : name;
}

// "item: int64 not null".
std::string field_text(const ArrowSchema& schema, int64_t child) {
  const ArrowSchema& field = *schema.children[child];
  return cat(name_of_child(schema, child), ": ", type_text(field),
             (field.flags & ARROW_FLAG_NULLABLE) != 0 ? "" : " not null");
}

// "map<string, float>", with the names of fields that are called otherwise.
std::string map_text(const ArrowSchema& schema) {
  const ArrowSchema& pairs = *schema.children[0];
  const auto other_name = [](const std::string& name, const char* usual) {
    return name == usual ? "" : cat(" ('", name, "')");
  };
  return cat("map<", type_text(*pairs.children[0]), other_name(name_of_child(pairs, 0), "key"),
             ", ", type_text(*pairs.children[1]), other_name(name_of_child(pairs, 1), "value"),
             (schema.flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0 ? ", keys_sorted" : "",
             other_name(name_of_child(schema, 0), "entries"), ">");
}

bool is_list(const ArrowSchema& schema) {
  const ArrayFormat format = array_format(schema);
  return schema.dictionary == nullptr && !format.is_map &&
         (format.layout == ArrayLayout::kList || format.layout == ArrayLayout::kLargeList ||
          format.layout == ArrayLayout::kFixedList);
}

bool is_number(const ArrowSchema& schema) {
  const LeafType leaf = value_format(schema).leaf;
  return leaf != LeafType::kText && leaf != LeafType::kOther;
}

// A map, or a list of structs of two fields of which the second is a number.
bool is_weighted(const ArrowSchema& schema) {
  if (!array_format(schema).is_map && !is_list(schema)) return false;
  const ArrowSchema& element = *schema.children[0];
  return array_format(element).layout == ArrayLayout::kStruct && element.n_children == 2 &&
         is_number(*element.children[1]);
}

void describe(const ArrowSchema& schema, ColumnarField& field) {
  field.type_text = type_text(schema);
  const ArrowSchema* leaf = &schema;
  if (is_weighted(schema)) {
    field.weighted = true;
    field.lists = 1;
    leaf = schema.children[0]->children[0];
  } else {
    for (; field.lists < 2 && is_list(*leaf); ++field.lists) leaf = leaf->children[0];
  }
  const ArrayFormat format = value_format(*leaf);
  field.type = format.leaf;
  field.stored = format.stored;
}

void add_fields(const ArrowSchema& schema, const std::string& prefix, std::vector<int> path,
                std::vector<ArrayField>& fields) {
  const std::string name = prefix + (schema.name == nullptr ? "" : schema.name);
  if (array_format(schema).layout == ArrayLayout::kStruct && schema.n_children > 0) {
    for (int i = 0; i < schema.n_children; ++i) {
      path.push_back(i);
      add_fields(*schema.children[i], name + ".", path, fields);
      path.pop_back();
    }
    return;
  }
  ArrayField& field = fields.emplace_back();
  field.field.name = name;
  field.path = std::move(path);
  describe(schema, field.field);
}

// What a check says after the place and the column: "place: column "a": ".
class Checks {
 public:
  Checks(const std::string& place, std::string column)
      : place_(place), column_(std::move(column)) {}

  template <class... Parts>
  void require(bool condition, const Parts&... parts) const {
    if (condition) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        cat(place_, column_.empty() ? "" : cat(": column ", in_quotes(column_)), ": ", parts...));
  }

  Checks of_child(const ArrowSchema& child) const {
    return {place_, column_.empty() && child.name != nullptr ? child.name : column_};
  }

 private:
  const std::string& place_;
  std::string column_;
};

int64_t children_of(const ArrayFormat& format) {
  switch (format.layout) {
    case ArrayLayout::kList:
    case ArrayLayout::kLargeList:
    case ArrayLayout::kFixedList:
      return 1;
    default:
      return 0;
  }
}

// -1: any number.
int64_t buffers_of(const ArrayFormat& format) {
  switch (format.layout) {
    case ArrayLayout::kNull:
      return 0;
    case ArrayLayout::kStruct:
    case ArrayLayout::kFixedList:
      return 1;
    case ArrayLayout::kText:
    case ArrayLayout::kLargeText:
      return 3;
    case ArrayLayout::kTextView:
    case ArrayLayout::kOther:
      return -1;
    default:
      return 2;
  }
}

void check_schema(const ArrowSchema& schema, const Checks& checks, int depth) {
  checks.require(schema.release != nullptr || depth > 0, "the schema was released before");
  checks.require(schema.format != nullptr, "the schema has no format");
  checks.require(depth < kDeepest, "the schema is nested more than ", kDeepest, " times");
  checks.require(schema.n_children >= 0 && schema.n_children < kMostChildren, "the schema has ",
                 schema.n_children, " children");
  checks.require(schema.n_children == 0 || schema.children != nullptr,
                 "the children of the schema are missing");
  const ArrayFormat format = array_format(schema);
  if (children_of(format) > 0)
    checks.require(schema.n_children == 1, "format ", in_quotes(schema.format), " has ",
                   schema.n_children, " children, expected 1");
  for (int64_t i = 0; i < schema.n_children; ++i) {
    checks.require(schema.children[i] != nullptr, "child ", i, " of the schema is missing");
    check_schema(*schema.children[i], checks.of_child(*schema.children[i]), depth + 1);
  }
  if (format.is_map)
    checks.require(array_format(*schema.children[0]).layout == ArrayLayout::kStruct &&
                       schema.children[0]->n_children == 2,
                   "a map does not have pairs of keys and values");
  if (schema.dictionary != nullptr) check_schema(*schema.dictionary, checks, depth + 1);
}

void check_array(const ArrowSchema& schema, const ArrowArray& array, const Checks& checks) {
  const ArrayFormat format = array_format(schema);
  checks.require(
      array.length >= 0 && array.length < kLongest && array.offset >= 0 && array.offset < kLongest,
      "the array has length ", array.length, " and offset ", array.offset);
  checks.require(array.null_count >= -1 && array.null_count <= array.length, "the array has ",
                 array.null_count, " missing values and length ", array.length);
  checks.require(array.n_children == schema.n_children, "the array has ", array.n_children,
                 " children, its schema ", schema.n_children);
  checks.require((array.dictionary == nullptr) == (schema.dictionary == nullptr),
                 "only one of array and schema has a dictionary");
  const int64_t buffers = buffers_of(format);
  checks.require(buffers < 0 ? array.n_buffers >= 0 : array.n_buffers == buffers, "format ",
                 in_quotes(schema.format), " has ", array.n_buffers, " buffers, expected ",
                 buffers);
  checks.require(format.layout != ArrayLayout::kTextView || array.n_buffers >= 3, "format ",
                 in_quotes(schema.format), " has ", array.n_buffers,
                 " buffers, expected at least 3");
  checks.require(array.n_buffers == 0 || array.buffers != nullptr, "the buffers are missing");
  const bool has_values = array.length > 0 && array.n_buffers > 1 && format.size > 0;
  checks.require(!has_values || array.buffers[1] != nullptr, "the array has ", array.length,
                 " values, but no buffer of them");
  const bool has_bits = array.n_buffers > 0 && array.buffers[0] != nullptr;
  checks.require(format.layout == ArrayLayout::kNull || format.layout == ArrayLayout::kOther ||
                     array.null_count <= 0 || has_bits,
                 "the array has ", array.null_count, " missing values, but does not say which");
  checks.require(array.n_children == 0 || array.children != nullptr, "the children are missing");
  for (int64_t i = 0; i < array.n_children; ++i) {
    const Checks child = checks.of_child(*schema.children[i]);
    child.require(array.children[i] != nullptr, "the array is missing");
    check_array(*schema.children[i], *array.children[i], child);
    const int64_t length = array.children[i]->length, needed = array.offset + array.length;
    child.require(format.layout != ArrayLayout::kStruct || length >= needed, "it has ", length,
                  " rows, expected ", needed);
    child.require(format.layout != ArrayLayout::kFixedList || format.size == 0 ||
                      length / format.size >= needed,
                  "it has ", length, " values, expected ", needed, " times ", format.size);
  }
  if (array.dictionary != nullptr) check_array(*schema.dictionary, *array.dictionary, checks);
}

}  // namespace

ArrayFormat array_format(const ArrowSchema& schema) {
  const std::string_view text = schema.format;
  if (extension_of(schema) == "arrow.uuid") return {};  // its bytes are not the text of others
  if (const PlainFormat* plain = find_plain(text)) {
    return {plain->layout, plain->leaf, stored_as(*plain), text == "+m", plain->size};
  }
  if (text.starts_with("d:")) return decimal_format(text);
  const std::string timestamp = timestamp_text(text);
  if (!timestamp.empty())
    return {ArrayLayout::kInt64, LeafType::kInteger, timestamp, false, sizeof(int64_t)};
  return sized_format(text);
}

ArrayFormat value_format(const ArrowSchema& schema) {
  return schema.dictionary == nullptr ? array_format(schema) : value_format(*schema.dictionary);
}

std::string type_text(const ArrowSchema& schema) {
  const std::string_view text = schema.format;
  const PlainFormat* const plain = find_plain(text);
  if (schema.dictionary != nullptr)
    return cat("dictionary<values=", type_text(*schema.dictionary),
               ", indices=", plain == nullptr ? schema.format : plain->text,
               ", ordered=", (schema.flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0 ? 1 : 0, ">");
  if (extension_of(schema) == "arrow.uuid") return "uuid";
  const ArrayFormat format = array_format(schema);
  if (format.is_map) return map_text(schema);
  if (format.layout == ArrayLayout::kStruct) {
    std::string fields;
    for (int64_t i = 0; i < schema.n_children; ++i)
      fields += cat(i == 0 ? "" : ", ", field_text(schema, i));
    return cat("struct<", fields, ">");
  }
  if (format.layout == ArrayLayout::kFixedList)
    return cat("fixed_size_list<", field_text(schema, 0), ">[", format.size, "]");
  if (children_of(format) == 1) return cat(plain->text, "<", field_text(schema, 0), ">");
  if (plain != nullptr) return plain->text;
  if (format.layout == ArrayLayout::kFixedText) return cat("fixed_size_binary[", format.size, "]");
  if (text.starts_with("d:")) return decimal_text(text);
  const std::string timestamp = timestamp_text(text);
  return timestamp.empty() ? cat("Arrow format ", in_quotes(text)) : timestamp;
}

std::vector<ArrayField> array_fields(const ArrowSchema& schema) {
  std::vector<ArrayField> fields;
  for (int i = 0; i < schema.n_children; ++i) add_fields(*schema.children[i], "", {i}, fields);
  return fields;
}

void check_schema(const ArrowSchema& schema, const std::string& place) {
  const Checks checks(place, "");
  check_schema(schema, checks, 0);
  checks.require(
      array_format(schema).layout == ArrayLayout::kStruct && schema.dictionary == nullptr,
      "format ", in_quotes(schema.format),
      " is given; expected a record batch: a struct (+s) of columns");
}

void check_array(const ArrowSchema& schema, const ArrowArray& array, const std::string& place) {
  const Checks checks(place, "");
  checks.require(array.release != nullptr, "the array was released before");
  check_array(schema, array, checks);
}

}  // namespace emblem
