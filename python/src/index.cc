#include "emblem/index.h"

#include "python/src/arrays.h"

namespace emblem::python {
namespace {

// An index whose calls, which other threads may be in, keep it. It is ended with Python's lock
// held.
struct PythonIndex {
  std::shared_ptr<Index> index;

  explicit PythonIndex(std::unique_ptr<Index> made)
      : index(made.release(), [](Index* ended) {
          if (!owns_runtime() || !is_alive()) return;
          const nb::gil_scoped_release release;
          delete ended;
        }) {}
};

// Runs body(index) without Python's lock.
template <class Body>
decltype(auto) run(const PythonIndex& self, const Body& body) {
  const std::shared_ptr<Index> held = self.index;
  return unlocked([&]() -> decltype(auto) { return body(*held); });
}

void make_index(PythonIndex* self, int64_t dim, const std::string& similarity,
                const std::string& value_type, const std::string& kind, int64_t lists,
                uint64_t seed, const std::vector<std::string>& attributes,
                const std::string& device, int threads) {
  const IndexOptions options{.dim = dim,
                             .similarity = similarity,
                             .value_type = value_type,
                             .kind = kind,
                             .lists = lists,
                             .seed = seed,
                             .attributes = attributes,
                             .device = device,
                             .threads = threads};
  new (self) PythonIndex(unlocked([&] { return std::make_unique<Index>(options); }));
}

PythonIndex load_index(const std::string& folder, const std::string& device, int threads) {
  return PythonIndex(unlocked([&] {
    return std::make_unique<Index>(Index::load(folder, {.device = device, .threads = threads}));
  }));
}

// Copies: other threads may change the arrays meanwhile.
void add(const PythonIndex& self, const Vector<int64_t>& ids, const Matrix& vectors,
         const std::optional<Vector<uint64_t>>& attributes, bool replace) {
  const auto dim = static_cast<size_t>(self.index->options().dim);
  EMBLEM_REQUIRE(vectors.shape(1) == dim, "vectors have ", vectors.shape(1),
                 " elements, but those of this index have ", dim);
  const std::vector<int64_t> copied_ids = copy_of(ids);
  const std::vector<float> copied(vectors.data(), vectors.data() + vectors.size());
  const std::vector<uint64_t> bits = copy_of(attributes);
  run(self, [&](Index& index) {
    const IndexedItems items{copied_ids, copied, bits};
    replace ? index.replace(items) : index.add(items);
  });
}

nb::tuple search(const PythonIndex& self, const Matrix& queries, int64_t k,
                 std::optional<int64_t> probes, const std::vector<std::vector<int64_t>>& exclude,
                 const std::vector<std::string>& filter,
                 const std::vector<std::vector<int64_t>>& allow) {
  const auto dim = static_cast<size_t>(self.index->options().dim);
  EMBLEM_REQUIRE(queries.shape(1) == dim, "queries have ", queries.shape(1),
                 " elements, but vectors of this index have ", dim);
  const std::vector<float> copied(queries.data(), queries.data() + queries.size());
  FoundItems found = run(self, [&](const Index& index) {
    return index.search(copied, {k, probes, exclude, filter, allow});
  });
  const size_t rows = queries.shape(0), width = static_cast<size_t>(found.width);
  return nb::make_tuple(to_numpy(std::move(found.ids), {rows, width}),
                        to_numpy(std::move(found.scores), {rows, width}));
}

}  // namespace

void add_index(nb::module_& module) {
  nb::class_<PythonIndex>(module, "Index")
      .def("__init__", &make_index, "dim"_a, "similarity"_a, "value_type"_a, "kind"_a, "lists"_a,
           "seed"_a, "attributes"_a, "device"_a, "threads"_a)
      .def_static("load", &load_index, "folder"_a, "device"_a, "threads"_a)
      .def("add", &add, "ids"_a, "vectors"_a, "attributes"_a.none(), "replace"_a)
      .def(
          "remove",
          [](const PythonIndex& self, const Vector<int64_t>& ids) {
            const std::vector<int64_t> copied = copy_of(ids);
            run(self, [&](Index& index) { index.remove(copied); });
          },
          "ids"_a)
      .def("rebuild",
           [](const PythonIndex& self) { run(self, [](Index& index) { index.rebuild(); }); })
      .def("search", &search, "queries"_a, "k"_a, "probes"_a.none(), "exclude"_a, "filter"_a,
           "allow"_a)
      .def(
          "save",
          [](const PythonIndex& self, const std::string& folder) {
            run(self, [&](const Index& index) { index.save(folder); });
          },
          "folder"_a)
      .def_prop_ro("size", [](const PythonIndex& self) { return self.index->size(); })
      .def_prop_ro("bytes", [](const PythonIndex& self) { return self.index->bytes(); })
      .def_prop_ro("dim", [](const PythonIndex& self) { return self.index->options().dim; })
      .def_prop_ro("probes", [](const PythonIndex& self) { return self.index->options().probes; })
      .def_prop_ro("kind", [](const PythonIndex& self) { return self.index->options().kind; })
      .def_prop_ro("similarity",
                   [](const PythonIndex& self) { return self.index->options().similarity; })
      .def_prop_ro("value_type",
                   [](const PythonIndex& self) { return self.index->options().value_type; })
      .def_prop_ro("attributes",
                   [](const PythonIndex& self) { return self.index->options().attributes; });
}

}  // namespace emblem::python
