#include "serve/engine/hps/hps_servable.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "core/device/device.h"
#include "core/system/caught_error.h"
#include "ps/tables/periodic_task.h"
#include "serve/engine/hps/hps_gpu.h"
#include "serve/engine/hps/hps_lookup.h"
#include "serve/engine/hps/hps_options.h"
#include "serve/engine/hps/served_tables.h"
#include "serve/protocol/model_config.pb.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

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
  throw Error(ErrorCode::kInvalidArgument,
              cat("input '", name, "' is missing; model '", request.model, "' takes ", kHpsKeys,
                  " and ", kHpsCounts));
}

class HpsEngine final : public Engine {
 public:
  using MakeLookup = std::function<std::unique_ptr<HpsLookup>()>;

  // `renew` makes another lookup in the place of one whose buffers are to be freed; null: they
  // stay.
  HpsEngine(std::vector<int64_t> dims, int64_t keys_per_sample, std::unique_ptr<HpsLookup> lookup,
            MakeLookup renew)
      : dims_(std::move(dims)),
        keys_per_sample_(keys_per_sample),
        lookup_(std::move(lookup)),
        renew_(std::move(renew)),
        keys_(dims_.size()) {}

 protected:
  void compute(std::span<EngineTask> tasks, EngineTimes& times) override {
    for (EngineTask& task : tasks) {
      try {
        task.outputs.push_back(look_up(*task.request, task.parameters));
      } catch (...) {
        task.error = caught_error();
      }
    }
    times.infer_end = times.output_end = Clock::now();
  }
  void release() override {
    if (renew_) lookup_ = renew_();
  }

 private:
  OutputTensor look_up(const InferRequest& request, ResponseParameters& parameters) {
    const auto keys = values_of<int64_t>(find_input(request, kHpsKeys));
    const auto counts = values_of<int32_t>(find_input(request, kHpsCounts));
    int64_t floats = 0;
    const int64_t* next = keys.data();
    for (size_t t = 0; t < dims_.size(); ++t) {
      keys_[t] = {next, counts[t], 1};
      next += counts[t];
      floats += counts[t] * dims_[t];
    }
    // One dimension, whether the model batches or not.
    OutputTensor rows{kHpsRows, DataType::kFp32, {floats}, {}};
    {
      const HeapAccount::Scope paused(nullptr);  // taken from the budget beforehand
      rows.data.resize(static_cast<size_t>(floats) * sizeof(float));
    }
    lookup_->copy_rows(keys_, reinterpret_cast<float*>(rows.data.data()));
    parameters = {{"NumSample", static_cast<int64_t>(keys.size()) / keys_per_sample_},
                  {"DeviceID", 0}};
    return rows;
  }

  const std::vector<int64_t> dims_;  // dims of the tables
  const int64_t keys_per_sample_;    // keys per sample of all tables
  std::unique_ptr<HpsLookup> lookup_;
  const MakeLookup renew_;
  std::vector<View<const int64_t>> keys_;  // keys of each table in the request under way
};

class HpsServable final : public Servable {
 public:
  HpsServable(const std::string& name, int64_t version, const PsModel& model, HpsOptions options,
              ParameterServer& server)
      : options_(std::move(options)), tables_(server, name, version) {
    // In the order of ps.json, which is that of the keys.
    for (const PsModel::Table& table : model.tables) {
      ordered_.push_back(tables_.model().tables().at(table.name));
      dims_.push_back(table.dim);
      limits_.push_back({table.name, model.max_batch_size, table.max_keys_per_sample});
      keys_per_sample_ += std::max<int64_t>(0, table.max_keys_per_sample);
    }
    if (options_.on_gpu) cache_on_gpu(name);
  }

  std::vector<TensorMetadata> inputs() const override { return options_.inputs; }
  std::vector<TensorMetadata> outputs() const override { return options_.outputs; }
  std::string problem() const override { return tables_.problem(); }
  std::string metrics(const std::string& labels) const override { return tables_.metrics(labels); }

  bool may_block() const override { return tables_.may_block(); }

  RequestSize check(const InferRequest& request) const override {
    const InputTensor& keys = find_input(request, kHpsKeys);
    const InputTensor& counts = find_input(request, kHpsCounts);
    EMBLEM_REQUIRE(request.inputs.size() == 2, "expected 2 inputs but got ", request.inputs.size());
    EMBLEM_REQUIRE(keys.type == DataType::kInt64, "input KEYS is ", name_of(keys.type),
                   ", expected INT64");
    EMBLEM_REQUIRE(counts.type == DataType::kInt32, "input NUMKEYS is ", name_of(counts.type),
                   ", expected INT32");
    check_bytes(keys);
    check_bytes(counts);
    for (const RequestedOutput& output : request.outputs) {
      EMBLEM_REQUIRE(output.name == kHpsRows, "unexpected inference output '", output.name,
                     "' for model '", request.model, "'; its output is ", kHpsRows);
    }
    EMBLEM_REQUIRE(element_count(counts.shape) == static_cast<int64_t>(ordered_.size()),
                   "NUMKEYS has ", element_count(counts.shape), " counts, but model '",
                   request.model, "' has ", ordered_.size(), " tables");
    return {1, check_counts(values_of<int32_t>(counts), element_count(keys.shape))};
  }

  std::unique_ptr<Engine> make_engine() const override {
    HpsEngine::MakeLookup renew;
    if (!options_.on_gpu) renew = [this] { return make_lookup(); };
    return std::make_unique<HpsEngine>(dims_, std::max<int64_t>(1, keys_per_sample_), make_lookup(),
                                       std::move(renew));
  }

 private:
  void cache_on_gpu(const std::string& name) {
    dispatch(
        Device::kCuda, [] {},
        [&] {
          cuda::HpsGpuSettings settings{
              .tier = {.tables = ordered_,
                       .size = {.share = options_.cache.cache_share,
                                .bytes = options_.cache.cache_bytes},
                       .policy = options_.cache.cache_policy,
                       .hit_rate_threshold = options_.cache.hit_rate_threshold,
                       .refresh_share = options_.refresh_share},
              .max_samples = limits_.front().samples,
              .fill = options_.fill};
          for (const Limit& limit : limits_)
            settings.keys_per_sample.push_back(limit.keys_per_sample);
          gpu_ = std::make_shared<cuda::HpsGpuTables>(std::move(settings));
        });
    if (options_.refresh_interval_s <= 0) return;
    const PeriodicTask::Plan plan{name, options_.refresh_delay_s, options_.refresh_interval_s};
    refresher_ = std::make_unique<PeriodicTask>("refreshing the cache", std::vector{plan},
                                                [this](const std::string&) {
                                                  for (const auto& table : ordered_)
                                                    table->refresh_caches();
                                                });
  }

  std::unique_ptr<HpsLookup> make_lookup() const {
    return dispatch(
        options_.on_gpu ? Device::kCuda : Device::kCpu,
        [&] {
          std::vector<ServedTable*> tables;
          for (const auto& table : ordered_) tables.push_back(table.get());
          return make_host_lookup(std::move(tables));
        },
        [&] { return gpu_->make_lookup(); });
  }

  // What ps.json allows a request to ask of a table.
  struct Limit {
    std::string table;
    int64_t samples, keys_per_sample;

    bool allows(int64_t keys) const {
      return keys <= 0 || (keys - 1) / samples < keys_per_sample;  // keys <= the product
    }
  };

  // The bytes of the answer.
  uint64_t check_counts(const std::vector<int32_t>& counts, int64_t keys) const {
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

  const HpsOptions options_;
  const ServedTables tables_;
  std::vector<std::shared_ptr<ServedTable>> ordered_;
  std::vector<int64_t> dims_;  // dims of ordered_
  int64_t keys_per_sample_ = 0;
  std::vector<Limit> limits_;                // limits of ordered_
  std::shared_ptr<cuda::HpsGpuTables> gpu_;  // null: on the CPU
  std::unique_ptr<PeriodicTask> refresher_;
};

}  // namespace

std::unique_ptr<Servable> open_hps(const std::string& name, int64_t version,
                                   const inference::ModelConfig& config, const std::string& where,
                                   ParameterServer& tables) {
  for (const PsModel& model : tables.config().models) {
    if (model.name == name)
      return std::make_unique<HpsServable>(name, version, model, hps_options(config, model, where),
                                           tables);
  }
  throw Error(ErrorCode::kNotFound, cat(where, ": backend hps needs an entry for model '", name,
                                        "' in models of ps.json (emblem serve --ps FILE)"));
}

}  // namespace emblem
