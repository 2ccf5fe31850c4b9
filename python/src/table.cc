#include "emblem/table.h"

#include <mutex>
#include <optional>
#include <thread>

#include "emblem/lookup.h"
#include "python/src/arrays.h"

namespace emblem::python {
namespace {

// Keys of a pass. A copy: arrays may be changed, or end, before the gradients come.
struct BatchKeys {
  std::vector<int64_t> keys;
  std::vector<int32_t> offsets;
  std::vector<float> weights;

  FeatureKeys view() const { return {keys, offsets, weights}; }
  size_t rows() const { return offsets.empty() ? keys.size() : offsets.size() - 1; }
};

// A table with its lookup. Functions hold the mutex: threads of Python may call at once.
struct OpenTable {
  OpenTable(const TableOptions& options, const std::string& pooling)
      : table(options),
        lookup({{&table, pooling}}, {.threads = options.threads, .host_memory = true}) {}

  std::mutex mutex;
  Table table;
  Lookup lookup;
  BatchKeys trained;        // of the last training pass
  std::thread::id trainer;  // that made it
};

class PythonTable {
 public:
  explicit PythonTable(std::unique_ptr<OpenTable> table)
      : name_(table->table.options().name), table_(table.release(), &end) {}

  // Runs body(table) without Python's lock. The table lives until then, closed or not.
  template <class Body>
  decltype(auto) run(const Body& body) const {
    EMBLEM_REQUIRE(table_ != nullptr, "table ", name_, " is closed");
    const std::shared_ptr<OpenTable> held = table_;
    return unlocked([&]() -> decltype(auto) {
      const std::lock_guard lock(held->mutex);
      return body(*held);
    });
  }
  void close() { table_.reset(); }
  bool is_closed() const { return table_ == nullptr; }
  const std::string& name() const { return name_; }

 private:
  // Called with Python's lock. A forked process has none of its threads, and an interpreter that
  // ends leaves them alone.
  static void end(OpenTable* table) {
    if (!owns_runtime() || !is_alive()) return;
    const nb::gil_scoped_release release;
    delete table;
  }

  std::string name_;
  std::shared_ptr<OpenTable> table_;
};

void make_table(PythonTable* self, const std::string& name, int64_t dim, int64_t rows,
                const std::string& value_type, const std::string& initializer,
                const std::string& missing, uint64_t seed, const std::string& optimizer,
                const std::map<std::string, std::string>& settings, const std::string& pooling,
                bool trainable, bool stochastic_rounding, int64_t capacity,
                int64_t initial_capacity, const std::string& eviction, int64_t admission_threshold,
                int64_t admission_capacity, const std::string& device, int threads,
                const std::string& placement, int64_t device_bytes) {
  const TableOptions options{.name = name,
                             .dim = dim,
                             .rows = rows,
                             .value_type = value_type,
                             .initializer = initializer,
                             .missing = missing,
                             .seed = seed,
                             .optimizer = {optimizer, settings},
                             .trainable = trainable,
                             .stochastic_rounding = stochastic_rounding,
                             .capacity = capacity,
                             .initial_capacity = initial_capacity,
                             .eviction = eviction,
                             .admission_threshold = admission_threshold,
                             .admission_capacity = admission_capacity,
                             .device = device,
                             .threads = threads,
                             .placement = placement,
                             .device_bytes = device_bytes};
  new (self) PythonTable(unlocked([&] { return std::make_unique<OpenTable>(options, pooling); }));
}

nb::object lookup(const PythonTable& self, const Vector<int64_t>& keys,
                  const std::optional<Vector<int32_t>>& offsets,
                  const std::optional<Vector<float>>& weights, bool train) {
  if (offsets && offsets->size() == 0)
    throw Error(ErrorCode::kInvalidArgument,
                "offsets are empty; expected a number more than there are bags, the first 0");
  BatchKeys batch{copy_of(keys), copy_of(offsets), copy_of(weights)};
  size_t width = 0;
  std::vector<float> out = self.run([&](OpenTable& open) {
    width = static_cast<size_t>(open.lookup.width());
    std::vector<float> rows(batch.rows() * width);
    BatchKeys& used = train ? open.trained : batch;
    if (train) {
      open.trained = std::move(batch);
      open.trainer = std::this_thread::get_id();
    }
    open.lookup.forward({used.view()}, train ? Pass::kTraining : Pass::kInference, rows.data());
    return rows;
  });
  const size_t rows = width == 0 ? 0 : out.size() / width;
  return to_numpy(std::move(out), {rows, width});
}

void update(const PythonTable& self, const Matrix& gradients, std::optional<float> learning_rate,
            float scale) {
  self.run([&](OpenTable& open) {
    EMBLEM_REQUIRE(open.trainer == std::thread::id() || open.trainer == std::this_thread::get_id(),
                   "table ", self.name(),
                   ": the last training lookup was made by another thread, and gradients belong to "
                   "it; a thread calls lookup and update under a lock that all of them share");
    const size_t rows = open.trained.rows();
    const auto width = static_cast<size_t>(open.lookup.width());
    EMBLEM_REQUIRE(gradients.shape(0) == rows && gradients.shape(1) == width, "gradients are [",
                   gradients.shape(0), ", ", gradients.shape(1),
                   "], but the last training lookup gave [", rows, ", ", width, "]");
    open.lookup.backward(gradients.data(), {learning_rate, scale});
  });
}

void check_shape(const char* what, const Matrix& given, size_t rows, int64_t columns) {
  const auto width = static_cast<size_t>(columns);
  EMBLEM_REQUIRE(given.shape(0) == rows && given.shape(1) == width, what, " are [", given.shape(0),
                 ", ", given.shape(1), "]; expected [", rows, ", ", width, "], a row for each key");
}

void write(const PythonTable& self, const Vector<int64_t>& keys, const Matrix& weights,
           const std::optional<Matrix>& states, const std::optional<Vector<int64_t>>& scores) {
  const std::vector<int64_t> copied = copy_of(keys);  // which stays as it was checked
  TableRows rows{.keys = copied, .weights = span_of(weights)};
  if (states) rows.states = span_of(*states);
  if (scores) rows.scores = span_of(*scores);
  self.run([&](OpenTable& open) {
    check_shape("weights", weights, copied.size(), open.table.options().dim);
    if (states) check_shape("states", *states, copied.size(), open.table.state_floats());
    open.table.write(rows);
  });
}

nb::dict export_rows(const PythonTable& self) {
  std::vector<int64_t> keys, scores;
  std::vector<float> weights, states;
  size_t dim = 0, state_floats = 0;
  self.run([&](OpenTable& open) {
    dim = static_cast<size_t>(open.table.options().dim);
    state_floats = static_cast<size_t>(open.table.state_floats());
    open.table.each([&](const TableRows& rows) {
      keys.insert(keys.end(), rows.keys.begin(), rows.keys.end());
      weights.insert(weights.end(), rows.weights.begin(), rows.weights.end());
      states.insert(states.end(), rows.states.begin(), rows.states.end());
      scores.insert(scores.end(), rows.scores.begin(), rows.scores.end());
    });
  });
  const size_t rows = keys.size();
  nb::dict all;
  all["keys"] = to_numpy(std::move(keys));
  all["weights"] = to_numpy(std::move(weights), {rows, dim});
  all["states"] = to_numpy(std::move(states), {rows, state_floats});
  all["scores"] = to_numpy(std::move(scores));
  return all;
}

nb::tuple take_counts(const PythonTable& self) {
  const LookupCounts counts =
      self.run([](OpenTable& open) { return open.lookup.take_counts()[0]; });
  return nb::make_tuple(counts.keys, counts.missing);
}

}  // namespace

void add_table(nb::module_& module) {
  nb::class_<PythonTable>(module, "Table")
      .def("__init__", &make_table, "name"_a, "dim"_a, "rows"_a, "value_type"_a, "initializer"_a,
           "missing"_a, "seed"_a, "optimizer"_a, "settings"_a, "pooling"_a, "trainable"_a,
           "stochastic_rounding"_a, "capacity"_a, "initial_capacity"_a, "eviction"_a,
           "admission_threshold"_a, "admission_capacity"_a, "device"_a, "threads"_a, "placement"_a,
           "device_bytes"_a)
      .def("lookup", &lookup, "keys"_a, "offsets"_a.none(), "weights"_a.none(), "train"_a)
      .def("update", &update, "gradients"_a, "learning_rate"_a.none(), "scale"_a)
      .def("write", &write, "keys"_a, "weights"_a, "states"_a.none(), "scores"_a.none())
      .def("export", &export_rows)
      .def(
          "erase",
          [](const PythonTable& self, const Vector<int64_t>& keys) {
            const std::vector<int64_t> copied = copy_of(keys);
            return self.run([&](OpenTable& open) { return open.table.erase(copied); });
          },
          "keys"_a)
      .def("clear",
           [](const PythonTable& self) { self.run([](auto& open) { open.table.clear(); }); })
      .def(
          "contains",
          [](const PythonTable& self, int64_t key) {
            return self.run([&](OpenTable& open) { return open.table.contains(key); });
          },
          "key"_a)
      .def(
          "set_next_score",
          [](const PythonTable& self, int64_t score) {
            self.run([&](OpenTable& open) { open.table.set_next_score(score); });
          },
          "score"_a)
      .def("take_counts", &take_counts)
      .def(
          "save",
          [](const PythonTable& self, const std::string& folder) {
            self.run([&](OpenTable& open) { open.table.save(folder); });
          },
          "folder"_a)
      .def(
          "load",
          [](const PythonTable& self, const std::string& folder, bool weights_only) {
            self.run([&](OpenTable& open) {
              open.table.load(folder,
                              weights_only ? Table::Load::kWeightsOnly : Table::Load::kContinue);
            });
          },
          "folder"_a, "weights_only"_a)
      .def("close", &PythonTable::close)
      .def_prop_ro("is_closed", &PythonTable::is_closed)
      .def_prop_ro("name", &PythonTable::name)
      .def_prop_ro("size",
                   [](const PythonTable& self) {
                     return self.run([](OpenTable& open) { return open.table.size(); });
                   })
      .def_prop_ro("bytes",
                   [](const PythonTable& self) {
                     return self.run([](OpenTable& open) { return open.table.bytes(); });
                   })
      .def_prop_rw(
          "updates",
          [](const PythonTable& self) {
            return self.run([](OpenTable& open) { return open.table.updates(); });
          },
          [](const PythonTable& self, int64_t updates) {
            self.run([&](OpenTable& open) { open.table.set_updates(updates); });
          });
}

}  // namespace emblem::python
