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
    const auto keys = values_of<int64_t>(find_input(request, kKeys));
    const auto counts = values_of<int32_t>(find_input(request, kCounts));
    int64_t floats = 0;
    for (size_t t = 0; t < tables_.size(); ++t) floats += counts[t] * tables_[t]->dim();
    rows_.resize(static_cast<size_t>(floats));
    const int64_t* next = keys.data();
    for (size_t t = 0; t < tables_.size(); ++t) {
      keys_[t] = {next, counts[t], 1};
      next += counts[t];
    }
    copy_rows();
    const auto* bytes = reinterpret_cast<const std::byte*>(rows_.data());
    // Where the model batches, the batch is 1.
    std::vector<int64_t> shape = {floats};
    if (find_input(request, kKeys).shape.size() == 2) shape.insert(shape.begin(), 1);
    return {kRows, DataType::kFp32, shape, {bytes, bytes + rows_.size() * sizeof(float)}};
  }

  // The rows of keys_ into rows_, one table after the other.
  void copy_rows() {
    const RowFinder::Reading reading = finder_.find({}, keys_);
    float* to = rows_.data();
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
  std::vector<float> rows_;
};

class HpsServable final : public Servable {
 public:
  HpsServable(const std::string& name, int64_t version, ParameterServer& server)
      : tables_(server, name, version) {
    // In the order of ps.json, which is that of the keys.
    for (const PsModel& model : server.config().models) {
      if (model.name != name) continue;
      for (const PsModel::Table& table : model.tables)
        ordered_.push_back(&tables_.model().table(table.name));
    }
  }

  std::vector<TensorMetadata> inputs() const override {
    return {{kKeys, DataType::kInt64, {-1}}, {kCounts, DataType::kInt32, {-1}}};
  }
  std::vector<TensorMetadata> outputs() const override { return {{kRows, DataType::kFp32, {-1}}}; }
  std::string metrics(const std::string& labels) const override { return tables_.metrics(labels); }

  int64_t check(const InferRequest& request) const override {
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
    const auto each = values_of<int32_t>(counts);
    EMBLEM_REQUIRE(each.size() == ordered_.size(), "NUMKEYS has ", each.size(),
                   " counts, but model '", request.model, "' has ", ordered_.size(), " tables");
    int64_t sum = 0;
    for (const int32_t count : each) {
      EMBLEM_REQUIRE(count >= 0, "NUMKEYS has a negative count, ", count);
      sum += count;
    }
    EMBLEM_REQUIRE(sum == element_count(keys.shape), "NUMKEYS adds up to ", sum, ", but there are ",
                   element_count(keys.shape), " KEYS");
    for (const RequestedOutput& output : request.outputs) {
      EMBLEM_REQUIRE(output.name == kRows, "unexpected inference output '", output.name,
                     "' for model '", request.model, "'; its output is ", kRows);
    }
    return 1;
  }

  std::unique_ptr<Engine> make_engine() const override {
    return std::make_unique<HpsEngine>(ordered_);
  }

 private:
  const ServedTables tables_;
  std::vector<ServedTable*> ordered_;
};

}  // namespace

std::unique_ptr<Servable> open_hps(const std::string& name, int64_t version,
                                   ParameterServer& tables) {
  return std::make_unique<HpsServable>(name, version, tables);
}

}  // namespace emblem
