#ifdef EMBLEM_WITH_ARROW
#include "data/format/arrow_block.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <numeric>

#include "data/format/arrow_input.h"
#include "data/format/arrow_leaf.h"
#include "data/format/select_rows.h"

namespace emblem {
namespace {

bool is_list(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
         type.id() == arrow::Type::FIXED_SIZE_LIST;
}

bool is_number(const arrow::DataType& type) {
  const LeafType leaf = arrow_leaf_type(type);
  return leaf != LeafType::kText && leaf != LeafType::kOther;
}

// A map, or a list of structs of two fields of which the second is a number.
bool is_weighted(const arrow::DataType& type) {
  if (type.id() == arrow::Type::MAP)
    return is_number(*static_cast<const arrow::MapType&>(type).item_type());
  if (!is_list(type)) return false;
  const arrow::DataType& element = *type.field(0)->type();
  return element.id() == arrow::Type::STRUCT && element.num_fields() == 2 &&
         is_number(*element.field(1)->type());
}

void describe(const arrow::DataType& type, ColumnarField& field) {
  field.type_text = type.ToString();
  const arrow::DataType* leaf = &type;
  if (is_weighted(type)) {
    field.weighted = true;
    field.lists = 1;
    const arrow::DataType& pair = type.id() == arrow::Type::MAP
                                      ? *static_cast<const arrow::MapType&>(type).value_type()
                                      : *type.field(0)->type();
    leaf = pair.field(0)->type().get();
  } else {
    for (; field.lists < 2 && is_list(*leaf); ++field.lists) leaf = leaf->field(0)->type().get();
  }
  field.type = arrow_leaf_type(*leaf);
  field.stored = arrow_stored_type(*leaf);
}

void add_fields(const arrow::Field& from, const std::string& prefix, std::vector<int> path,
                std::vector<ArrowField>& fields) {
  const std::string name = prefix + from.name();
  if (from.type()->id() == arrow::Type::STRUCT && from.type()->num_fields() > 0) {
    for (int i = 0; i < from.type()->num_fields(); ++i) {
      path.push_back(i);
      add_fields(*from.type()->field(i), name + ".", path, fields);
      path.pop_back();
    }
    return;
  }
  ArrowField& field = fields.emplace_back();
  field.field.name = name;
  field.path = std::move(path);
  describe(*from.type(), field.field);
}

// Values [begin, end) of an array.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

void add_range(int64_t begin, int64_t end, std::vector<Range>& ranges) {
  if (begin == end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

// The values of lists, and to `offsets` how many each list has.
template <class List>
std::vector<Range> open_lists(const List& lists, const std::vector<Range>& ranges,
                              HostVector<int32_t>& offsets) {
  std::vector<Range> inner;
  int64_t count = 0;
  offsets.assign(1, 0);
  for (const Range& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const bool has_values = !lists.IsNull(i);
      if (has_values) {
        const int64_t begin = lists.value_offset(i), length = lists.value_length(i);
        add_range(begin, begin + length, inner);
        count += length;
      }
      EMBLEM_REQUIRE(count <= INT32_MAX, "a column has more than 2^31 values in a piece");
      offsets.push_back(static_cast<int32_t>(count));
    }
  }
  return inner;
}

std::shared_ptr<arrow::Array> open_lists(const std::shared_ptr<arrow::Array>& array,
                                         std::vector<Range>& ranges, HostVector<int32_t>& offsets) {
  switch (array->type_id()) {
    case arrow::Type::LARGE_LIST: {
      const auto& lists = static_cast<const arrow::LargeListArray&>(*array);
      ranges = open_lists(lists, ranges, offsets);
      return lists.values();
    }
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*array);
      ranges = open_lists(lists, ranges, offsets);
      return lists.values();
    }
    default: {
      const auto& lists = static_cast<const arrow::ListArray&>(*array);  // a map is one, too
      ranges = open_lists(lists, ranges, offsets);
      return lists.values();
    }
  }
}

}  // namespace

std::vector<ArrowField> arrow_fields(const arrow::Schema& schema) {
  std::vector<ArrowField> fields;
  for (int i = 0; i < schema.num_fields(); ++i) add_fields(*schema.field(i), "", {i}, fields);
  return fields;
}

void read_arrow_column(const arrow::RecordBatch& batch, const ArrowField& field,
                       const ColumnRead& how, int64_t begin, int64_t rows,
                       ArrowDictionary& dictionary, const std::string& place, Column& out,
                       std::vector<ValueProblem>& problems) {
  out.clear(how.type);
  std::shared_ptr<arrow::Array> array = batch.column(field.path[0]);
  for (size_t i = 1; i < field.path.size(); ++i) {
    array = value_of(
        static_cast<const arrow::StructArray&>(*array).GetFlattenedField(field.path[i]), place);
  }
  std::vector<Range> ranges;
  add_range(begin, begin + rows, ranges);
  if (field.field.lists == 2) array = open_lists(array, ranges, out.sequence_offsets);
  if (field.field.lists >= 1) array = open_lists(array, ranges, out.offsets);
  if (field.field.weighted) {
    const auto& pairs = static_cast<const arrow::StructArray&>(*array);
    const auto weights = value_of(pairs.GetFlattenedField(1), place);
    Column numbers;
    numbers.clear(ColumnType::kFloat);
    ArrowDictionary none;
    for (const Range& range : ranges)
      append_arrow_values(*weights, range.begin, range.end, false, none, numbers, problems);
    for (size_t i = 0; i < numbers.floats.size(); ++i) {
      if (std::isnan(numbers.floats[i]))
        problems.push_back({static_cast<int64_t>(i), "a value has no weight"});
    }
    out.weights = std::move(numbers.floats);
    array = value_of(pairs.GetFlattenedField(0), place);
  }
  for (const Range& range : ranges) {
    if (how.exact) {
      append_arrow_digits(*array, range.begin, range.end, out);
    } else {
      append_arrow_values(*array, range.begin, range.end, how.codes, dictionary, out, problems);
    }
  }
  finish_values(out);
}

ArrowBlocks::ArrowBlocks(const arrow::Schema& schema, const std::vector<ColumnRequest>* requests,
                         const std::vector<std::string>& na_strings, const std::string& source) {
  const std::vector<ArrowField> all = arrow_fields(schema);
  std::vector<ColumnSpec> names;
  for (const ArrowField& field : all) names.push_back({field.field.name, ColumnType::kText});
  const std::vector<int> found = find_columns(names, requests, source);
  for (size_t i = 0; i < found.size(); ++i) {
    const ArrowField& field = all[static_cast<size_t>(found[i])];
    const ColumnRequest* request = requests == nullptr ? nullptr : &(*requests)[i];
    if (request == nullptr && field.field.type == LeafType::kOther) continue;
    fields_.push_back(field);
    fits_.emplace_back(field.field, request, na_strings, source);
    columns_.push_back(fits_.back().spec());
  }
}

ArrowBlocks::~ArrowBlocks() = default;

void ArrowBlocks::read(const arrow::RecordBatch& batch, const std::string& place, Block& block,
                       std::vector<RowProblem>& problems) const {
  block.rows = batch.num_rows();
  block.columns.resize(fields_.size());
  Column scratch;
  ArrowDictionary dictionary;
  std::vector<ValueProblem> value_problems;
  for (size_t i = 0; i < fields_.size(); ++i) {
    value_problems.clear();
    dictionary = {};
    read_arrow_column(batch, fields_[i], fits_[i].read(0), 0, block.rows, dictionary, place,
                      block.columns[i], value_problems);
    fits_[i].apply(block.rows, block.columns[i], value_problems, scratch, problems);
  }
}

}  // namespace emblem
#endif
