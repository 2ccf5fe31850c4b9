#include "api/table.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/chosen.h"
#include "api/compute.h"
#include "api/fields.h"
#include "checkpoint/checkpoint.h"
#include "config/proto/optimizer.pb.h"
#include "core/files/atomic_folder.h"
#include "core/files/file.h"
#include "core/text/json_error.h"
#include "core/text/shallow_json.h"
#include "embedding/files/table_files.h"
#include "model/lookup/memory_estimate.h"
#include "model/lookup/table_config.h"
#include "optim/from_config.h"

namespace emblem::api {
namespace {

namespace fs = std::filesystem;

void check_kind(const TableOptions& options) {
  const auto require = [&](bool condition, const auto&... what) {
    EMBLEM_REQUIRE(condition, "table ", options.name, ": ", what...);
  };
  require(options.rows >= 0, "rows is ", options.rows,
          "; expected a number of rows, or 0 for a dynamic table");
  const bool has_dynamic_options = options.capacity != 0 || options.initial_capacity != 0 ||
                                   options.eviction != "none" || options.admission_threshold != 0 ||
                                   options.admission_capacity != 0;
  require(options.rows == 0 || !has_dynamic_options,
          "rows makes it static, but capacity, initial_capacity, eviction and admission are those "
          "of a dynamic table; omit one or the other");
  require(options.eviction == "none" || options.capacity > 0, "eviction \"", options.eviction,
          "\" needs a capacity, at which rows are evicted");
  const bool is_on_gpu = options.device == "cuda";
  require(is_on_gpu || (options.placement == "device" && options.device_bytes == 0 &&
                        options.stream == nullptr),
          "placement, device_bytes and stream are for the device cuda, but the device is \"",
          options.device, "\"");
  require(options.placement == "cache" ? options.device_bytes > 0 : options.device_bytes == 0,
          "device_bytes is ", options.device_bytes, " with placement \"", options.placement,
          "\"; a cache needs it, and no other placement has one");
}

SparseOptimizerSettings optimizer_of(const TableOptions& options) {
  config::SparseOptimizer message;
  const std::string field = options.optimizer.name + "_optimizer";
  set_field(field, "{}", &message);
  for (const auto& [name, value] : options.optimizer.settings)
    set_field(cat(field, ".", name), value, &message);
  SparseOptimizerSettings settings = sparse_optimizer_from(message);
  if (settings.max_gradient > 0)
    throw Error(ErrorCode::kUnsupported,
                cat("table ", options.name,
                    ": gradient_clipping is not supported; clip gradients before update()"));
  return settings;
}

TableSettings settings_of(const TableOptions& options, const SparseOptimizerSettings& optimizer) {
  TableSettings settings;
  const std::string where = cat("table ", options.name);
  settings.name = options.name;
  settings.dim = options.dim;
  settings.dtype =
      chosen<DType>(where, "value_type", options.value_type,
                    {{"fp32", DType::kF32}, {"fp16", DType::kF16}, {"bf16", DType::kBf16}});
  settings.kind = options.rows > 0 ? TableKind::kStatic : TableKind::kDynamic;
  settings.capacity = options.rows > 0 ? options.rows : options.capacity;
  settings.initial_capacity = options.initial_capacity;
  settings.eviction = chosen<Eviction>(where, "eviction", options.eviction,
                                       {{"none", Eviction::kNone},
                                        {"lru", Eviction::kLru},
                                        {"lfu", Eviction::kLfu},
                                        {"step", Eviction::kStep},
                                        {"custom", Eviction::kCustom}});
  settings.admission_threshold = options.admission_threshold;
  settings.admission_capacity = options.admission_capacity;
  settings.initializer = parse_init_fn(options.initializer);
  settings.missing = parse_init_fn(options.missing);
  settings.rule = optimizer.rule;
  settings.initial_accumulator = optimizer.initial_accumulator;
  settings.l2 = optimizer.l2;
  settings.trainable = options.trainable;
  if (options.stochastic_rounding && settings.dtype != DType::kF32)
    settings.rounding = Rounding::kStochastic;
  settings.seed = options.seed;
  settings.placement = chosen<Placement>(
      where, "placement", options.placement,
      {{"device", Placement::kDevice}, {"cache", Placement::kCache}, {"host", Placement::kHost}});
  settings.device_bytes = options.device_bytes;
  return settings;
}

Phase phase_of(Pass pass) { return pass == Pass::kTraining ? Phase::kTrain : Phase::kEval; }

int64_t count_of(std::span<const int64_t> keys) { return static_cast<int64_t>(keys.size()); }

constexpr const char* kUpdatesFile = "/updates.json";

// Training updates each table at every step. 0: `folder` is not in CHECKPOINT/tables.
int64_t updates_of_checkpoint(const std::string& folder) {
  fs::path table = fs::absolute(folder).lexically_normal();
  if (!table.has_filename()) table = table.parent_path();  // "folder/"
  const fs::path tables = table.parent_path(), checkpoint = tables.parent_path();
  std::error_code ignored;
  if (tables.filename() != "tables" || !fs::exists(checkpoint / "manifest.json", ignored)) return 0;
  return read_manifest(checkpoint.string()).step;
}

int64_t read_updates(const std::string& folder) {
  const std::string path = folder + kUpdatesFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return updates_of_checkpoint(folder);
  try {
    return nlohmann::json::parse(read_text_file(path), shallow_json).at("updates").get<int64_t>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorruption,
                cat(path, " does not say how many updates: ", json_problem(error.what())));
  }
}

}  // namespace

Table::State::State(const TableOptions& given) : options(given) {
  check_kind(options);
  const SparseOptimizerSettings optimizer = optimizer_of(options);
  const TableSettings settings = settings_of(options, optimizer);
  learning_rate = optimizer.learning_rate;
  Workers building = open_workers(options.device, options.threads);
  if (options.stream != nullptr)
    building.context.stream = static_cast<CUstream_st*>(options.stream);
  require_table_memory(building.context, {&settings, 1});
  table = make_table(building.context, settings);
  context = building.context;
  if (context.device == Device::kCpu)
    context.threads = nullptr;
  else
    workers = std::move(building);
}

Workers Table::State::call_workers() const {
  if (context.device == Device::kCpu) return open_workers(options.device, options.threads);
  return {.pool = nullptr, .stream = nullptr, .context = context};
}

Table::Table(const TableOptions& options) : state_(std::make_shared<State>(options)) {}
Table::~Table() = default;
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(Table&&) noexcept = default;

const TableOptions& Table::options() const { return state_->options; }
int64_t Table::size() const { return state_->table->size(); }
int64_t Table::bytes() const { return state_->table->bytes(); }
int64_t Table::state_floats() const { return state_->table->state_floats(); }

void Table::read(std::span<const int64_t> keys, Pass pass, std::span<float> rows) {
  const int64_t count = count_of(keys), dim = state_->options.dim;
  EMBLEM_REQUIRE(static_cast<int64_t>(rows.size()) == count * dim, "table ", state_->options.name,
                 ": ", count, " keys of dimension ", dim, " need room for ", count * dim,
                 " floats, not ", rows.size());
  const auto read = [&] {
    state_->table->lookup_rows(state_->context, keys, phase_of(pass), {rows.data(), count, dim});
  };
  const bool has_all_rows = state_->options.rows > 0 && state_->context.device == Device::kCpu;
  if (pass == Pass::kTraining && !has_all_rows)
    state_->change(read);
  else
    read();
}

bool Table::contains(int64_t key) const {
  const int64_t rows = state_->options.rows;
  return rows > 0 ? key >= 0 && key < rows : state_->table->contains(key);
}

void Table::write(const TableRows& rows) {
  state_->change([&] {
    state_->table->import_rows(state_->context,
                               {rows.keys, rows.weights, rows.states, rows.scores});
  });
}

int64_t Table::erase(std::span<const int64_t> keys) {
  const int64_t erased = state_->table->erase(keys);
  if (erased > 0) ++state_->changes;
  return erased;
}

void Table::clear() {
  ++state_->changes;
  state_->table->clear();
  state_->updates = 0;
}

void Table::each(const std::function<void(const TableRows&)>& take, int64_t batch_rows) const {
  EMBLEM_REQUIRE(batch_rows > 0, "table ", state_->options.name, ": batch_rows is ", batch_rows,
                 "; expected at least 1");
  state_->table->export_rows(state_->context, batch_rows, [&](const RowBatch& batch) {
    take({batch.keys, batch.weights, batch.states, batch.scores});
  });
}

void Table::set_next_score(int64_t score) { state_->table->set_next_score(score); }

int64_t Table::updates() const { return state_->updates; }

void Table::set_updates(int64_t updates) {
  EMBLEM_REQUIRE(updates >= 0, "table ", state_->options.name, ": updates is ", updates,
                 "; expected 0 or more");
  state_->updates = updates;
}

void Table::save(const std::string& folder) const {
  AtomicFolder to(folder, cat("table ", state_->options.name));
  const Workers workers = state_->call_workers();
  save_table(workers.context, *state_->table, to.path());
  write_text_file_atomically(to.path() + kUpdatesFile,
                             cat("{\"updates\": ", state_->updates, "}\n"));
  to.commit();
}

void Table::load(const std::string& folder, Load load) {
  const Workers workers = state_->call_workers();
  const bool continues = load == Load::kContinue;
  const int64_t updates = continues ? read_updates(folder) : 0;
  const TableFiles files(folder, continues ? LoadMode::kContinue : LoadMode::kWeightsOnly,
                         *state_->table);
  ++state_->changes;
  files.load(workers.context, *state_->table);
  state_->updates = updates;
}

}  // namespace emblem::api
