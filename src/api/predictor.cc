#include "emblem/predictor.h"

#include <mutex>

#include "api/data.h"
#include "checkpoint/checkpoint.h"
#include "core/files/temporary_folder.h"
#include "data/loader/table_batches.h"
#include "data/source/remote_storage.h"
#include "model/lookup/feed.h"
#include "serve/engine/pipeline_servable.h"
#include "serve/repository/export.h"
#include "train/predict/prediction_file.h"

namespace emblem::api {
namespace {

emblem::ModelOptions engine_options(const PredictorOptions& options) {
  EMBLEM_REQUIRE(options.threads >= 1 && options.threads <= 1024, "threads is ", options.threads,
                 "; expected 1 to 1024");
  EMBLEM_REQUIRE(
      options.precision.empty() || options.precision == "fp32" || options.precision == "bf16",
      "precision is \"", options.precision, "\"; expected fp32 or bf16");
  emblem::ModelOptions made;
  made.threads = options.threads;
  made.gpu.precision_is_given = !options.precision.empty();
  made.gpu.precision = parse_dtype(options.precision).value_or(DType::kF32);
  return made;
}

PsConfig tables_in_memory(const PredictorOptions& options) {
  PsConfig config;
  if (options.row_precision.empty()) return config;
  const auto type = parse_dtype(options.row_precision);
  EMBLEM_REQUIRE(type, "row_precision is \"", options.row_precision,
                 "\"; expected fp32, bf16, fp16 or int8");
  config.volatile_db.row_type = *type;
  return config;
}

config::DataConfig without_filters(config::DataConfig data) {
  data.clear_filters();  // they choose rows of training
  return data;
}

int64_t width_of(const std::vector<OutputSpec>& outputs) {
  int64_t width = 0;
  for (const OutputSpec& output : outputs) width += output.cols;
  return width;
}

// What one call at a time uses.
class Slot {
 public:
  Slot(const PipelineServable& model, const std::vector<OutputSpec>& outputs, int threads)
      : outputs_(outputs),
        pool_(threads > 1 ? std::make_unique<ThreadPool>(threads) : nullptr),
        context_{.threads = pool_.get()},
        batches_(without_filters(model.config().data_config()), model.layout(),
                 LabelCheck::kIgnore),
        feed_(context_),
        predictor_(model.make_predictor()),
        parts_(outputs.size()) {}

  // Writes [rows, columns] of a table.
  void predict(const std::shared_ptr<const ColumnTable>& table, float* values) {
    batches_.make(table, batch_);
    const bool is_one = outputs_.size() == 1;  // its matrix is the result
    wanted_.clear();
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const int64_t cols = outputs_[i].cols;
      if (!is_one) parts_[i].resize(static_cast<size_t>(batch_.rows * cols));
      wanted_.push_back({outputs_[i], {is_one ? values : parts_[i].data(), batch_.rows, cols}});
    }
    predictor_->run(context_, feed_.set(batch_), wanted_);
    if (is_one) return;
    for (int64_t row = 0; row < batch_.rows; ++row)
      for (const PredictedOutput& output : wanted_)
        values = std::copy_n(output.values.row(row), output.values.cols, values);
  }

 private:
  const std::vector<OutputSpec>& outputs_;
  std::unique_ptr<ThreadPool> pool_;
  const Context context_;
  TableBatches batches_;
  Batch batch_;
  Feed feed_;
  std::unique_ptr<emblem::Predictor> predictor_;
  std::vector<std::vector<float>> parts_;  // of several outputs
  std::vector<PredictedOutput> wanted_;
};

}  // namespace

struct Predictor::State {
  State(const std::string& checkpoint, const PredictorOptions& given)
      : engine(engine_options(given)),
        fetched(open_storage(config::DataConfig())),
        tables(tables_in_memory(given)),
        model(open_pipeline(
            "predictor", 1,
            export_model(find_checkpoint(checkpoint, fetched), copy.path() + "/predictor").folder,
            engine, tables)),
        outputs(choose_outputs(heads_of(model->config(), model->layout()), given.outputs)),
        columns(prediction_columns(outputs)),
        width(width_of(outputs)) {
    free.push_back(make_slot());  // an error is one of the constructor
  }

  std::unique_ptr<Slot> make_slot() const {
    return std::make_unique<Slot>(*model, outputs, engine.threads);
  }

  std::unique_ptr<Slot> take() {
    {
      const std::lock_guard lock(mutex);
      if (!free.empty()) {
        std::unique_ptr<Slot> slot = std::move(free.back());
        free.pop_back();
        return slot;
      }
    }
    return make_slot();
  }

  // Not called after a failed call.
  void give_back(std::unique_ptr<Slot> slot) {
    const std::lock_guard lock(mutex);
    free.push_back(std::move(slot));
  }

  const emblem::ModelOptions engine;
  const TemporaryFolder copy{"emblem_predictor"};
  const Storage fetched;
  ParameterServer tables;
  const std::unique_ptr<PipelineServable> model;
  const std::vector<OutputSpec> outputs;
  const std::vector<std::string> columns;
  const int64_t width;
  std::mutex mutex;
  std::vector<std::unique_ptr<Slot>> free;  // guarded by mutex
};

Predictor::Predictor(const std::string& checkpoint, const PredictorOptions& options)
    : state_(std::make_unique<State>(checkpoint, options)) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

const std::vector<std::string>& Predictor::columns() const { return state_->columns; }

void Predictor::predict(const Data& rows, std::vector<float>& values) const {
  EMBLEM_REQUIRE(!rows.is_empty() && rows.rows() >= 0,
                 "a predictor takes rows in memory; files and passes are read by Model");
  values.resize(static_cast<size_t>(rows.rows() * state_->width));
  std::unique_ptr<Slot> slot = state_->take();
  float* at = values.data();
  for (const auto& table : rows.state()->tables) {
    if (table->rows() == 0) continue;
    slot->predict(table, at);
    at += table->rows() * state_->width;
  }
  state_->give_back(std::move(slot));
}

}  // namespace emblem::api
