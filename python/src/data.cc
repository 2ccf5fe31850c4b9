#include "emblem/data.h"

#include <nanobind/ndarray.h>

#include "python/src/bindings.h"

namespace emblem::python {
namespace {

// A thread of the engine cannot call an interpreter that ends.
void check_open(const Entry& entry) {
  if (!is_alive() || !entry.is_open())
    throw Error(ErrorCode::kCancelled, "Python ends, and gives no more rows");
}

// The stream of an object with the Arrow PyCapsule interface.
Data from_stream(nb::object capsule) {
  auto* const stream =
      static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (stream == nullptr) throw nb::python_error();
  return unlocked([&] { return Data::stream(stream); });
}

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
bool take_array(const nb::object& values, Column& column) {
  Array<T> array;
  if (!nb::try_cast(values, array, /*convert=*/false)) return false;
  column.values = std::span<const T>(array.data(), array.size());
  return true;
}

// (name, values, missing or None, offsets or None, unit of times or ""): values are a contiguous
// array of float32, float64, int32 or int64, or a list of texts.
Column to_column(const nb::tuple& given, std::vector<std::vector<std::string>>& texts) {
  if (given.size() != 5)
    throw nb::type_error("a column is not (name, values, missing, offsets, unit of times)");
  Column column{.name = nb::cast<std::string>(given[0]),
                .time_unit = nb::cast<std::string>(given[4])};
  const nb::object values = given[1];
  const bool is_array = take_array<float>(values, column) || take_array<double>(values, column) ||
                        take_array<int32_t>(values, column) || take_array<int64_t>(values, column);
  if (!is_array) {
    if (!nb::try_cast(values, texts.emplace_back()))
      throw nb::type_error(cat("column \"", column.name,
                               "\" is neither a contiguous array of float32, float64, int32 or "
                               "int64 nor a list of str")
                               .c_str());
    column.values = std::span<const std::string>(texts.back());
  }
  const nb::object missing = given[2], offsets = given[3];
  if (!missing.is_none()) {
    const auto marks = nb::cast<Array<uint8_t>>(missing, /*convert=*/false);
    column.missing = {marks.data(), marks.size()};
  }
  if (!offsets.is_none()) {
    const auto bounds = nb::cast<Array<int32_t>>(offsets, /*convert=*/false);
    column.offsets = {bounds.data(), bounds.size()};
  }
  return column;
}

Data from_columns(const nb::list& given) {
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> texts;
  texts.reserve(given.size());  // columns refer to them
  for (const nb::handle one : given) columns.push_back(to_column(nb::cast<nb::tuple>(one), texts));
  const auto owner = std::make_shared<Shared>(nb::borrow(given));
  return unlocked([&] { return Data::columns(columns, owner); });
}

// `begin_pass` returns a function that gives one Data after the other, None at the end. Threads of
// the engine call both.
Data from_passes(nb::object begin_pass) {
  return Data::passes([begin = Shared(std::move(begin_pass))]() -> NextData {
    const Entry entry;
    check_open(entry);
    const nb::gil_scoped_acquire lock;
    return [next = Shared(begin.get()())]() -> Data {
      const Entry entry;
      check_open(entry);
      const nb::gil_scoped_acquire lock;
      const nb::object made = next.get()();
      return made.is_none() ? Data() : nb::cast<Data>(made);
    };
  });
}

}  // namespace

void add_data(nb::module_& module) {
  nb::class_<Data>(module, "Data")
      .def_static("files", &Data::files, "paths"_a)
      .def_static("from_stream", &from_stream, "capsule"_a)
      .def_static("join", &Data::join, "parts"_a)
      .def_static("from_columns", &from_columns, "columns"_a)
      .def_static("from_passes", &from_passes, "begin_pass"_a)
      .def_prop_ro("rows", &Data::rows)
      .def_prop_ro("is_streamed", &Data::is_streamed);
}

}  // namespace emblem::python
