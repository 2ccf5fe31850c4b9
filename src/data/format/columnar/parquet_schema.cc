#ifdef EMBLEM_WITH_ARROW
#include "data/format/columnar/parquet_schema.h"

#include <parquet/types.h>

#include "data/format/columnar/leaf_values.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using parquet::schema::GroupNode;
using parquet::schema::Node;

bool is_number(LeafType type) { return type != LeafType::kText && type != LeafType::kOther; }

bool is_list(const Node& node) {
  return (node.logical_type() != nullptr && node.logical_type()->is_list()) ||
         node.converted_type() == parquet::ConvertedType::LIST;
}

bool is_map(const Node& node) {
  return (node.logical_type() != nullptr && node.logical_type()->is_map()) ||
         node.converted_type() == parquet::ConvertedType::MAP ||
         node.converted_type() == parquet::ConvertedType::MAP_KEY_VALUE;
}

const GroupNode& as_group(const Node& node) { return static_cast<const GroupNode&>(node); }

LeafType leaf_type(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  if (logical != nullptr && logical->is_decimal())
    return parquet_scale(column) > 0 ? LeafType::kDouble : LeafType::kInteger;
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN:
    case parquet::Type::INT32:
    case parquet::Type::INT96:
      return LeafType::kInteger;
    case parquet::Type::INT64:
      return is_unsigned(column) ? LeafType::kUnsigned : LeafType::kInteger;
    case parquet::Type::FLOAT:
      return LeafType::kFloat;
    case parquet::Type::DOUBLE:
      return LeafType::kDouble;
    case parquet::Type::BYTE_ARRAY:
      return LeafType::kText;
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      // The bytes of a UUID are not the text that other formats have for it.
      if (logical != nullptr && logical->is_UUID()) return LeafType::kOther;
      return logical != nullptr && logical->is_float16() ? LeafType::kFloat : LeafType::kText;
    default:
      return LeafType::kOther;
  }
}

std::string integer_text(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  if (logical == nullptr || !logical->is_int())
    return column.physical_type() == parquet::Type::INT64 ? "int64" : "int32";
  const auto& integer = static_cast<const parquet::IntLogicalType&>(*logical);
  return cat(integer.is_signed() ? "int" : "uint", integer.bit_width());
}

// As messages say it.
std::string column_type_text(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  if (logical != nullptr && logical->is_decimal())
    return cat("decimal(", column.type_precision(), ", ", column.type_scale(), ")");
  if (logical != nullptr && logical->is_date()) return "date";
  if (logical != nullptr && (logical->is_time() || logical->is_timestamp()))
    return logical->is_time() ? "time" : "timestamp";
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN:
      return "bool";
    case parquet::Type::INT32:
    case parquet::Type::INT64:
      return integer_text(column);
    case parquet::Type::INT96:
      return "timestamp";
    case parquet::Type::FLOAT:
      return "float";
    case parquet::Type::DOUBLE:
      return "double";
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      if (logical != nullptr && logical->is_float16()) return "float16";
      if (logical != nullptr && logical->is_UUID()) return "uuid";
      return cat("fixed_size_binary[", column.type_length(), "]");
    default:
      return logical != nullptr && logical->is_string() ? "string" : "binary";
  }
}

std::string stored_timestamp(const parquet::TimestampLogicalType& type) {
  using Unit = parquet::LogicalType::TimeUnit;
  const bool is_ms = type.time_unit() == Unit::MILLIS, is_us = type.time_unit() == Unit::MICROS;
  return cat("timestamp[",
             is_ms   ? "ms"
             : is_us ? "us"
                     : "ns",
             type.is_adjusted_to_utc() ? ", tz=UTC]" : "]");
}

std::string stored_time(const parquet::TimeLogicalType& type) {
  using Unit = parquet::LogicalType::TimeUnit;
  if (type.time_unit() == Unit::MILLIS) return "time32[ms]";
  return type.time_unit() == Unit::MICROS ? "time64[us]" : "time64[ns]";
}

// As ColumnSpec::stored.
std::string stored_type(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  if (logical != nullptr && logical->is_decimal())
    return stored_decimal(column.type_precision(), parquet_scale(column));
  if (logical != nullptr && logical->is_null()) return "null";
  if (logical != nullptr && logical->is_date()) return "date32[day]";
  if (logical != nullptr && logical->is_timestamp())
    return stored_timestamp(static_cast<const parquet::TimestampLogicalType&>(*logical));
  if (logical != nullptr && logical->is_time())
    return stored_time(static_cast<const parquet::TimeLogicalType&>(*logical));
  if (column.physical_type() == parquet::Type::INT96) return "timestamp[ns]";
  if (column.physical_type() == parquet::Type::BOOLEAN) return "bool";
  if (leaf_type(column) == LeafType::kUnsigned) return "uint64";
  if (column.physical_type() == parquet::Type::DOUBLE) return "double";
  const bool is_text =
      logical != nullptr && (logical->is_string() || logical->is_enum() || logical->is_JSON());
  return leaf_type(column) == LeafType::kText && !is_text ? "binary" : "";
}

class Walk {
 public:
  explicit Walk(const parquet::SchemaDescriptor& schema) : schema_(schema) {
    const GroupNode& root = *schema.group_node();
    for (int i = 0; i < root.field_count(); ++i)
      add(*root.field(i), root.field(i)->name(), root.field(i)->is_repeated() ? 1 : 0);
  }

  std::vector<ParquetField> take() { return std::move(fields_); }

 private:
  // `lists` counts the lists around the values of the node, its own repetition included.
  void add(const Node& node, const std::string& name, int lists) {
    if (node.is_primitive()) return add_leaf(node, nullptr, name, lists);
    const GroupNode& group = as_group(node);
    if (is_list(node) && group.field_count() == 1 && group.field(0)->is_repeated())
      return add(element_of(*group.field(0)), name, lists + 1);
    if (is_map(node) && group.field_count() == 1 && group.field(0)->is_group())
      return add_pairs(as_group(*group.field(0)), name, lists + 1);
    if (lists > 0 && is_pair(group)) return add_pairs(group, name, lists);
    for (int i = 0; i < group.field_count(); ++i) {
      const Node& child = *group.field(i);
      add(child, name + "." + child.name(), lists + (child.is_repeated() ? 1 : 0));
    }
  }

  // The element of a list's repeated node: the node itself (two levels) or what is in it
  // (three levels).
  static const Node& element_of(const Node& repeated) {
    if (repeated.is_primitive()) return repeated;
    const GroupNode& group = as_group(repeated);
    const bool is_element = group.field_count() != 1 || group.name() == "array" ||
                            group.name().ends_with("_tuple") || group.field(0)->is_repeated();
    return is_element ? repeated : *group.field(0);
  }

  // Two values, of which the second is a number: a weight.
  bool is_pair(const GroupNode& group) const {
    if (group.field_count() != 2 || is_list(group) || is_map(group)) return false;
    for (int i = 0; i < 2; ++i)
      if (!group.field(i)->is_primitive() || group.field(i)->is_repeated()) return false;
    return is_number(leaf_type(column_of(*group.field(1))));
  }

  void add_pairs(const GroupNode& pairs, const std::string& name, int lists) {
    if (is_pair(pairs)) return add_leaf(*pairs.field(0), pairs.field(1).get(), name, lists);
    for (int i = 0; i < pairs.field_count(); ++i)
      add(*pairs.field(i), name + "." + pairs.field(i)->name(), lists);
  }

  void add_leaf(const Node& values, const Node* weights, const std::string& name, int lists) {
    const parquet::ColumnDescriptor& column = column_of(values);
    ParquetField& field = fields_.emplace_back();
    field.field.name = name;
    field.field.lists = lists;
    field.field.type = lists > 2 ? LeafType::kOther : leaf_type(column);
    field.field.stored = stored_type(column);
    field.field.weighted = weights != nullptr;
    field.values = leaf_of(values);
    std::string text = column_type_text(column);
    if (weights != nullptr) {
      field.weights = leaf_of(*weights);
      text = cat("struct<", text, ", ", column_type_text(column_of(*weights)), ">");
    }
    for (int i = 0; i < lists; ++i) text = cat("list<", text, ">");
    field.field.type_text = text;
  }

  const parquet::ColumnDescriptor& column_of(const Node& leaf) const {
    return *schema_.Column(schema_.ColumnIndex(leaf));
  }

  ParquetLeaf leaf_of(const Node& leaf) const {
    ParquetLeaf found;
    found.column = schema_.ColumnIndex(leaf);
    found.max_level = schema_.Column(found.column)->max_definition_level();
    // From the leaf up: a repeated node has an element from its own definition level on.
    int16_t level = found.max_level;
    for (const Node* node = &leaf; node != nullptr; node = node->parent()) {
      if (node->is_required() || node->parent() == nullptr) continue;
      if (node->is_repeated()) {
        if (found.inner_level == 0) found.inner_level = level;
        found.outer_level = level;
      }
      --level;
    }
    return found;
  }

  const parquet::SchemaDescriptor& schema_;
  std::vector<ParquetField> fields_;
};

}  // namespace

bool is_unsigned(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  return logical != nullptr && logical->is_int() &&
         !static_cast<const parquet::IntLogicalType&>(*logical).is_signed();
}

int parquet_scale(const parquet::ColumnDescriptor& column) {
  const auto& logical = column.logical_type();
  if (logical == nullptr || !logical->is_decimal()) return 0;
  return static_cast<const parquet::DecimalLogicalType&>(*logical).scale();
}

std::vector<ParquetField> parquet_fields(const parquet::SchemaDescriptor& schema) {
  return Walk(schema).take();
}

}  // namespace emblem
#endif
