#include "data/format/memory/array_column.h"

#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "core/math/half.h"
#include "data/format/columnar/decimal_values.h"
#include "data/format/columnar/leaf_values.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Values [begin, end) of an array.
struct ValueRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// An array, as part of the structs around it, whose missing values are missing in it, too.
struct ArrayView {
  struct Bits {
    const uint8_t* bytes = nullptr;
    int64_t first = 0;  // the bit of value 0
  };

  const ArrowSchema* schema = nullptr;
  const ArrowArray* array = nullptr;
  int64_t first = 0;        // the slot in the buffers of value 0
  std::vector<Bits> valid;  // where bits say that values are missing

  ArrayView(const ArrowSchema& of_schema, const ArrowArray& of_array, int64_t before,
            std::vector<Bits> around)
      : schema(&of_schema),
        array(&of_array),
        first(of_array.offset + before),
        valid(std::move(around)) {
    const bool has_bits = array->n_buffers > 0 && array->buffers[0] != nullptr;
    if (has_bits && array->null_count != 0 && array_format(*schema).layout != ArrayLayout::kNull)
      valid.push_back({static_cast<const uint8_t*>(array->buffers[0]), first});
  }

  // A field of a struct.
  ArrayView field(int at) const {
    return {*schema->children[at], *array->children[at], first, valid};
  }
  // The values of lists.
  ArrayView values() const { return {*schema->children[0], *array->children[0], 0, {}}; }
  ArrayView dictionary() const { return {*schema->dictionary, *array->dictionary, 0, {}}; }

  bool is_missing(int64_t at) const {
    for (const Bits& bits : valid) {
      const int64_t bit = bits.first + at;
      if ((bits.bytes[bit >> 3] >> (bit & 7) & 1) == 0) return true;
    }
    return false;
  }

  template <class T>
  const T* buffer(int number = 1) const {
    return static_cast<const T*>(array->buffers[number]) + first;
  }

  // Appends values by append(begin, end), and missing ones.
  template <class Append>
  void append_each_run(ValueRange range, Column& out, Append append) const {
    if (valid.empty()) {
      if (range.begin < range.end) append(range.begin, range.end);
      return;
    }
    for (int64_t at = range.begin; at < range.end;) {
      const int64_t run = at;
      while (at < range.end && !is_missing(at)) ++at;
      if (at > run) append(run, at);
      for (; at < range.end && is_missing(at); ++at) append_missing(out);
    }
  }

  template <class Append>
  void append_each(ValueRange range, Column& out, Append append) const {
    append_each_run(range, out, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) append(i);
    });
  }
};

[[noreturn]] void refuse_array(const std::string& what) {
  throw Error(ErrorCode::kCorruption, what);
}

// ---- values ----

template <class T>
void append_plain(const ArrayView& from, ValueRange range, Column& out,
                  std::vector<ValueProblem>& problems) {
  const T* const values = from.buffer<T>();
  from.append_each_run(range, out, [&](int64_t begin, int64_t end) {
    append_numbers(values + begin, end - begin, out, problems);
  });
}

template <class Offset>
void append_texts(const ArrayView& from, ValueRange range, Column& out) {
  const Offset* const offsets = from.buffer<Offset>();
  const char* const text = static_cast<const char*>(from.array->buffers[2]);
  from.append_each(range, out, [&](int64_t i) {
    const int64_t begin = offsets[i], size = offsets[i + 1] - begin;
    if (begin < 0 || size < 0 || size > UINT32_MAX || (size > 0 && text == nullptr))
      refuse_array(cat("a text is from byte ", begin, " to ", offsets[i + 1]));
    append_text({text + (size > 0 ? begin : 0), static_cast<size_t>(size)}, out);
  });
}

void append_text_views(const ArrayView& from, ValueRange range, Column& out) {
  constexpr int32_t kInline = 12;
  struct View {
    int32_t size;
    char prefix[4];
    int32_t buffer, offset;
  };
  static_assert(sizeof(View) == 16);
  const View* const views = from.buffer<View>();
  const int64_t buffers = from.array->n_buffers - 3;
  const auto* const sizes = static_cast<const int64_t*>(from.array->buffers[2 + buffers]);
  from.append_each(range, out, [&](int64_t i) {
    const View& view = views[i];
    if (view.size >= 0 && view.size <= kInline)
      return append_text({view.prefix, static_cast<size_t>(view.size)}, out);
    if (view.size < 0 || view.buffer < 0 || view.buffer >= buffers || view.offset < 0 ||
        sizes == nullptr || int64_t{view.offset} + view.size > sizes[view.buffer])
      refuse_array(cat("a text of ", view.size, " bytes is outside of its buffer"));
    const auto* const text = static_cast<const char*>(from.array->buffers[2 + view.buffer]);
    append_text({text + view.offset, static_cast<size_t>(view.size)}, out);
  });
}

void append_values(const ArrayView& from, ValueRange range, const ColumnRead& how,
                   ArrayDictionary& dictionary, Column& out, std::vector<ValueProblem>& problems);

// Appends values of a dictionary by their codes.
template <class Code>
void append_codes(const ArrayView& from, ValueRange range, const ColumnRead& how,
                  ArrayDictionary& dictionary, Column& out, std::vector<ValueProblem>& problems) {
  const Code* const codes = from.buffer<Code>();
  const ArrayView entries = from.dictionary();
  const auto count = static_cast<uint64_t>(entries.array->length);
  const auto code_of = [&](int64_t i) {
    const auto code = static_cast<uint64_t>(codes[i]);
    if (code >= count)
      refuse_array(cat("a code is ", +codes[i], ", but the dictionary has ", count, " entries"));
    return static_cast<int64_t>(code);
  };
  ArrayDictionary none;
  const bool is_known = dictionary.array == entries.array;
  if (how.codes && (out.dictionary == nullptr || is_known) && count <= INT32_MAX) {
    if (!is_known) {
      Column text;
      text.clear(ColumnType::kText);
      ColumnRead whole = how;
      whole.codes = false;
      append_values(entries, {0, entries.array->length}, whole, none, text, problems);
      finish_values(text);
      dictionary = {entries.array, std::make_shared<TextDictionary>()};
      dictionary.entries->text = std::move(text.text);
      dictionary.entries->ends = std::move(text.text_ends);
    }
    out.dictionary = dictionary.entries;
    return from.append_each(
        range, out, [&](int64_t i) { out.codes.push_back(static_cast<int32_t>(code_of(i))); });
  }
  ColumnRead whole = how;
  whole.codes = false;
  from.append_each(range, out, [&](int64_t i) {
    const int64_t at = code_of(i);
    append_values(entries, {at, at + 1}, whole, none, out, problems);
  });
}

void append_coded(const ArrayView& from, ValueRange range, const ColumnRead& how,
                  ArrayDictionary& dictionary, Column& out, std::vector<ValueProblem>& problems) {
  const auto by = [&](auto code) {
    append_codes<decltype(code)>(from, range, how, dictionary, out, problems);
  };
  switch (array_format(*from.schema).layout) {
    case ArrayLayout::kInt8:
      return by(int8_t{});
    case ArrayLayout::kInt16:
      return by(int16_t{});
    case ArrayLayout::kInt32:
      return by(int32_t{});
    case ArrayLayout::kInt64:
      return by(int64_t{});
    case ArrayLayout::kUInt8:
      return by(uint8_t{});
    case ArrayLayout::kUInt16:
      return by(uint16_t{});
    case ArrayLayout::kUInt32:
      return by(uint32_t{});
    case ArrayLayout::kUInt64:
      return by(uint64_t{});
    default:
      refuse_array(cat("the codes of a dictionary are ", in_quotes(from.schema->format),
                       "; expected integers"));
  }
}

// Appends values to `out`, whose type is set. With how.codes, text of a dictionary is appended by
// code; `dictionary` keeps the entries.
void append_values(const ArrayView& from, ValueRange range, const ColumnRead& how,
                   ArrayDictionary& dictionary, Column& out, std::vector<ValueProblem>& problems) {
  if (from.schema->dictionary != nullptr)
    return append_coded(from, range, how, dictionary, out, problems);
  const ArrayFormat format = array_format(*from.schema);
  switch (format.layout) {
    case ArrayLayout::kNull:
      for (int64_t i = range.begin; i < range.end; ++i) append_missing(out);
      return;
    case ArrayLayout::kBits: {
      const auto* const bytes = static_cast<const uint8_t*>(from.array->buffers[1]);
      return from.append_each(range, out, [&](int64_t i) {
        const int64_t bit = from.first + i;
        const auto value = static_cast<uint8_t>(bytes[bit >> 3] >> (bit & 7) & 1);
        append_numbers(&value, 1, out, problems);
      });
    }
    case ArrayLayout::kInt8:
      return append_plain<int8_t>(from, range, out, problems);
    case ArrayLayout::kInt16:
      return append_plain<int16_t>(from, range, out, problems);
    case ArrayLayout::kInt32:
      return append_plain<int32_t>(from, range, out, problems);
    case ArrayLayout::kInt64:
      return append_plain<int64_t>(from, range, out, problems);
    case ArrayLayout::kUInt8:
      return append_plain<uint8_t>(from, range, out, problems);
    case ArrayLayout::kUInt16:
      return append_plain<uint16_t>(from, range, out, problems);
    case ArrayLayout::kUInt32:
      return append_plain<uint32_t>(from, range, out, problems);
    case ArrayLayout::kUInt64:
      return append_plain<uint64_t>(from, range, out, problems);
    case ArrayLayout::kHalf: {
      const auto* const bits = from.buffer<uint16_t>();
      return from.append_each(range, out, [&](int64_t i) { append_half(bits[i], out, problems); });
    }
    case ArrayLayout::kFloat:
      return append_plain<float>(from, range, out, problems);
    case ArrayLayout::kDouble: {
      if (!how.exact) return append_plain<double>(from, range, out, problems);
      const auto* const values = from.buffer<double>();
      return from.append_each(range, out, [&](int64_t i) { append_number_text(values[i], out); });
    }
    case ArrayLayout::kDecimal: {
      const auto* const bytes = static_cast<const uint8_t*>(from.array->buffers[1]);
      return from.append_each(range, out, [&](int64_t i) {
        append_little_endian_decimal(bytes + (from.first + i) * format.size, format.size,
                                     format.scale, how.exact, out, problems);
      });
    }
    case ArrayLayout::kText:
      return append_texts<int32_t>(from, range, out);
    case ArrayLayout::kLargeText:
      return append_texts<int64_t>(from, range, out);
    case ArrayLayout::kTextView:
      return append_text_views(from, range, out);
    case ArrayLayout::kFixedText: {
      const char* const bytes = static_cast<const char*>(from.array->buffers[1]);
      return from.append_each(range, out, [&](int64_t i) {
        append_text({bytes + (from.first + i) * format.size, static_cast<size_t>(format.size)},
                    out);
      });
    }
    default:
      throw Error(ErrorCode::kUnsupported,
                  cat("values of type ", type_text(*from.schema), " cannot be read"));
  }
}

// ---- lists ----

void add_range(int64_t begin, int64_t end, std::vector<ValueRange>& ranges) {
  if (begin == end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

// The values of lists of which list i has range_of(i), and to `offsets` how many each list has.
template <class RangeOf>
void open_lists(const ArrayView& lists, std::vector<ValueRange>& ranges,
                HostVector<int32_t>& offsets, RangeOf range_of) {
  const int64_t values = lists.array->children[0]->length;
  std::vector<ValueRange> inner;
  int64_t count = 0;
  offsets.assign(1, 0);
  for (const ValueRange& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (!lists.is_missing(i)) {
        const ValueRange list = range_of(i);
        if (list.begin < 0 || list.end < list.begin || list.end > values)
          refuse_array(cat("a list has values ", list.begin, " to ", list.end, " of ", values));
        add_range(list.begin, list.end, inner);
        count += list.end - list.begin;
      }
      EMBLEM_REQUIRE(count <= INT32_MAX, "a column has more than 2^31 values in a piece");
      offsets.push_back(static_cast<int32_t>(count));
    }
  }
  ranges = std::move(inner);
}

ArrayView open_lists(const ArrayView& lists, std::vector<ValueRange>& ranges,
                     HostVector<int32_t>& offsets) {
  const ArrayFormat format = array_format(*lists.schema);
  const auto by_offsets = [&](const auto* begins) {
    open_lists(lists, ranges, offsets, [&](int64_t i) {
      return ValueRange{begins[i], begins[i + 1]};
    });
  };
  if (format.layout == ArrayLayout::kList) {
    by_offsets(lists.buffer<int32_t>());
  } else if (format.layout == ArrayLayout::kLargeList) {
    by_offsets(lists.buffer<int64_t>());
  } else {
    open_lists(lists, ranges, offsets, [&](int64_t i) {
      const int64_t slot = lists.first + i;
      return ValueRange{slot * format.size, (slot + 1) * format.size};
    });
  }
  return lists.values();
}

void read_column(const ArrowSchema& schema, const ArrowArray& array, const ArrayField& field,
                 const ColumnRead& how, int64_t begin, int64_t rows, ArrayDictionary& dictionary,
                 Column& out, std::vector<ValueProblem>& problems) {
  out.clear(how.type);
  ArrayView view(schema, array, 0, {});
  for (const int at : field.path) view = view.field(at);
  std::vector<ValueRange> ranges;
  add_range(begin, begin + rows, ranges);
  if (field.field.lists == 2) view = open_lists(view, ranges, out.sequence_offsets);
  if (field.field.lists >= 1) view = open_lists(view, ranges, out.offsets);
  if (field.field.weighted) {
    Column weights;
    weights.clear(ColumnType::kFloat);
    ArrayDictionary none;
    const ColumnRead as_number{how.field, ColumnType::kFloat};
    for (const ValueRange& range : ranges)
      append_values(view.field(1), range, as_number, none, weights, problems);
    set_weights(weights.floats, out, problems);
    view = view.field(0);
  }
  for (const ValueRange& range : ranges) append_values(view, range, how, dictionary, out, problems);
  finish_values(out);
}

}  // namespace

void read_array_column(const ArrowSchema& schema, const ArrowArray& array, const ArrayField& field,
                       const ColumnRead& how, int64_t begin, int64_t rows,
                       ArrayDictionary& dictionary, const std::string& place, Column& out,
                       std::vector<ValueProblem>& problems) {
  try {
    read_column(schema, array, field, how, begin, rows, dictionary, out, problems);
  } catch (const Error& error) {
    throw Error(error.code(),
                cat(place, ", column ", in_quotes(field.field.name), ": ", error.what()));
  }
}

}  // namespace emblem
