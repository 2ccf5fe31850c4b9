#include "serve/engine/hps_servable.h"

#include <cstring>

#include "core/caught_error.h"
#include "embedding/cpu/gather_pool.h"
#include "ps/tables/row_finder.h"
#include "serve/engine/served_tables.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char *kKeys = "KEYS", *kCounts = "NUMKEYS", *kRows = "OUTPUT0";

template <class T>
std::vector<T> values_of(const InputTensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(T));
  return values;
}

const InputTensor& find_input(const InferRequest& request, const char* name) {
  for (const InputTensor& tensor : request.inputs) {
    if (tensor.name == name) return tensor;
  }
  throw Error(ErrorCode::kInvalidArgument, cat("input '", name, "' is missing; model '",
                                               request.model, "' takes ", kKeys, " and ", kCounts));
}

class HpsEngine final : public Engine {
 public:
  explicit HpsEngine(std::vector<ServedTable*> tables)
      : tables_(std::move(tables)), finder_(tables_), keys_(tables_.size()) {}

 protected:
  void compute(std::span<EngineTask> tasks, EngineTimes& times) override {
    for (EngineTask& task : tasks) {
      try {
        task.outputs.push_back(look_up(*task.request));
      } catch (...) {
        task.error = caught_error();
      }
    }
    times.infer_end = times.output_end = Clock::now();
  }

 private:
  OutputTensor look_up(const InferRequest& request) {
    const InputTensor& input = find_input(request, kKeys);
    const auto keys = values_of<int64_t>(input);
    const auto counts = values_of<int32_t>(find_input(request, kCounts));
    int64_t floats = 0;
    const int64_t* next = keys.data();
    for (size_t t = 0; t < tables_.size(); ++t) {
      keys_[t] = {next, counts[t], 1};
      next += counts[t];
      floats += counts[t] * tables_[t]->dim();
    }
    // Where the model batches, the batch is 1.
    OutputTensor rows{kRows, DataType::kFp32, {floats}, {}};
    if (input.shape.size() == 2) rows.shape.insert(rows.shape.begin(), 1);
    rows.data.resize(static_cast<size_t>(floats) * sizeof(float));
    copy_rows(reinterpret_cast<float*>(rows.data.data()));
    return rows;
  }

  // The rows of keys_, one table after the other.
  void copy_rows(float* to) {
    const RowFinder::Reading reading = finder_.find({}, keys_);
    for (size_t t = 0; t < tables_.size(); ++t) {
      const ServedTableSettings& table = tables_[t]->settings();
      const GatherPool copy{.rows = {.dim = table.dim, .dtype = DType::kF32},
                            .keys = keys_[t].data,
                            .row_addresses = finder_.rows(t),
                            .bags = keys_[t].size(),
                            .absent = table.missing,
                            .seed = table.seed,
                            .out = to,
                            .out_stride = table.dim};
      cpu::gather_pool(copy, 0, copy.bags);
      to += copy.bags * table.dim;
    }
  }

  std::vector<ServedTable*> tables_;
  RowFinder finder_;
  std::vector<View<const int64_t>> keys_;  // of each table, in the request under way
};

class HpsServable final : public Servable {
 public:
  HpsServable(const std::string& name, int64_t version, ParameterServer& server)
      : tables_(server, name, version) {
    // In the order of ps.json, which is that of the keys.
    for (const PsModel& model : server.config().models) {
      if (model.name != name) continue;
      for (const PsModel::Table& table : model.tables) {
        ordered_.push_back(&tables_.model().table(table.name));
        limits_.push_back({table.name, model.max_batch_size, table.max_keys_per_sample});
      }
    }
  }

  std::vector<TensorMetadata> inputs() const override {
    return {{kKeys, DataType::kInt64, {-1}}, {kCounts, DataType::kInt32, {-1}}};
  }
  std::vector<TensorMetadata> outputs() const override { return {{kRows, DataType::kFp32, {-1}}}; }
  std::string metrics(const std::string& labels) const override { return tables_.metrics(labels); }

  bool may_block() const override { return tables_.may_block(); }

  RequestSize check(const InferRequest& request) const override {
    const InputTensor& keys = find_input(request, kKeys);
    const InputTensor& counts = find_input(request, kCounts);
    EMBLEM_REQUIRE(request.inputs.size() == 2, "expected 2 inputs but got ", request.inputs.size());
    EMBLEM_REQUIRE(keys.type == DataType::kInt64, "input KEYS is ", name_of(keys.type),
                   ", expected INT64");
    EMBLEM_REQUIRE(counts.type == DataType::kInt32, "input NUMKEYS is ", name_of(counts.type),
                   ", expected INT32");
    for (const InputTensor* tensor : {&keys, &counts}) {
      const auto& shape = tensor->shape;
      EMBLEM_REQUIRE(shape.size() == 1 || (shape.size() == 2 && shape[0] == 1), "input ",
                     tensor->name, " has shape ", shape_text(shape), ", expected [n] or [1,n]");
      check_bytes(*tensor);
    }
    for (const RequestedOutput& output : request.outputs) {
      EMBLEM_REQUIRE(output.name == kRows, "unexpected inference output '", output.name,
                     "' for model '", request.model, "'; its output is ", kRows);
    }
    return {1, check_counts(request, values_of<int32_t>(counts), element_count(keys.shape))};
  }

  std::unique_ptr<Engine> make_engine() const override {
    return std::make_unique<HpsEngine>(ordered_);
  }

 private:
  // What ps.json allows a request to ask of a table.
  struct Limit {
    std::string table;
    int64_t samples, keys_per_sample;

    bool allows(int64_t keys) const {
      return keys <= 0 || (keys - 1) / samples < keys_per_sample;  // keys <= the product
    }
  };

  // The bytes of the answer.
  uint64_t check_counts(const InferRequest& request, const std::vector<int32_t>& counts,
                        int64_t keys) const {
    EMBLEM_REQUIRE(counts.size() == ordered_.size(), "NUMKEYS has ", counts.size(),
                   " counts, but model '", request.model, "' has ", ordered_.size(), " tables");
    int64_t sum = 0;
    uint64_t bytes = 0;
    for (size_t t = 0; t < counts.size(); ++t) {
      const Limit& limit = limits_[t];
      EMBLEM_REQUIRE(counts[t] >= 0, "NUMKEYS has a negative count for table ", limit.table);
      EMBLEM_REQUIRE(limit.allows(counts[t]), "NUMKEYS asks for more keys of table ", limit.table,
                     " than ps.json allows: max_batch_size ", limit.samples,
                     " x maxnum_catfeature_query_per_table_per_sample ", limit.keys_per_sample,
                     "; send fewer keys in a request");
      sum += counts[t];
      const uint64_t row_bytes = static_cast<uint64_t>(ordered_[t]->dim()) * sizeof(float);
      uint64_t of_table = 0;
      EMBLEM_REQUIRE(
          !__builtin_mul_overflow(static_cast<uint64_t>(counts[t]), row_bytes, &of_table) &&
              !__builtin_add_overflow(bytes, of_table, &bytes),
          "the rows of table ", limit.table, " and those before it have more than 2^64 bytes");
    }
    EMBLEM_REQUIRE(sum == keys, "the counts of NUMKEYS do not add up to the ", keys, " KEYS");
    return bytes;
  }

  const ServedTables tables_;
  std::vector<ServedTable*> ordered_;
  std::vector<Limit> limits_;  // of ordered_
};

}  // namespace

std::unique_ptr<Servable> open_hps(const std::string& name, int64_t version,
                                   ParameterServer& tables) {
  return std::make_unique<HpsServable>(name, version, tables);
}

}  // namespace emblem
