#include "emblem/lookup.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/compute.h"
#include "api/table.h"
#include "core/memory/buffer.h"
#include "embedding/lookup.h"

namespace emblem::api {
namespace {

using TableState = std::shared_ptr<Table::State>;

Pooling pooling_of(const LookupFeature& feature) {
  EMBLEM_REQUIRE(feature.pooling == "sum" || feature.pooling == "mean", "lookup: pooling is \"",
                 feature.pooling, "\"; expected sum or mean");
  return feature.pooling == "sum" ? Pooling::kSum : Pooling::kMean;
}

// The batch of a host on a GPU.
struct UploadedKeys {
  Buffer<int64_t> keys;
  Buffer<int32_t> offsets;
  Buffer<float> weights;
};

template <class T>
Buffer<T> upload(const Context& context, std::span<const T> values) {
  Buffer<T> made(context.device, static_cast<int64_t>(values.size()));
  detail::copy(context, made.data(), values.data(), values.size_bytes());
  return made;
}

// Whether a rule's first steps differ from later ones.
bool depends_on_updates(const Rule& rule) {
  return std::visit(
      [](const auto& of) {
        using R = std::decay_t<decltype(of)>;
        return kHasCorrections<R> || std::is_same_v<R, Momentum>;
      },
      rule);
}

int64_t rows_of(const FeatureKeys& keys) {
  const size_t rows = keys.offsets.empty() ? keys.keys.size() : keys.offsets.size() - 1;
  return static_cast<int64_t>(rows);
}

}  // namespace

struct Lookup::State {
  State(const std::vector<LookupFeature>& features, const LookupOptions& options) {
    EMBLEM_REQUIRE(!features.empty(), "lookup: no features are given; expected at least one");
    std::vector<emblem::LookupFeature> over;
    for (const LookupFeature& feature : features) {
      EMBLEM_REQUIRE(feature.table != nullptr && feature.table->state() != nullptr,
                     "lookup: feature ", over.size(), " has no table");
      const TableState& table = feature.table->state();
      if (std::ranges::find(tables, table) == tables.end()) tables.push_back(table);
      over.push_back({table->table.get(), pooling_of(feature)});
    }
    const Context& first = tables[0]->context;
    for (const TableState& table : tables)
      EMBLEM_REQUIRE(table->context.device == first.device && table->context.stream == first.stream,
                     "lookup: tables ", tables[0]->options.name, " and ", table->options.name,
                     " are not on the same device and stream; give both the same "
                     "TableOptions::device and stream");
    workers = open_workers("cpu", options.threads);
    context = {first.device, first.stream, workers.context.threads};
    copies = options.host_memory && context.device == Device::kCuda;
    lookup = make_lookup(
        context, over,
        {.sums = options.deterministic ? Sums::kDeterministic : Sums::kFast, .transfer = {}});
    seen.resize(tables.size());
  }
  ~State() {
    for (const TableState& table : tables)
      if (table->trainer == this) table->trainer = nullptr;
  }

  // From now on no other lookup trains the tables.
  void claim_tables() {
    for (const TableState& table : tables)
      EMBLEM_REQUIRE(table->trainer == nullptr || table->trainer == this, "table ",
                     table->options.name, " is trained by another lookup; end that one first");
    for (const TableState& table : tables) table->trainer = this;
  }

  // Updates that tables have had: the most, and the same for all whose optimizer depends on it.
  int64_t updates() const {
    const TableState& oldest = *std::ranges::max_element(
        tables, {}, [](const TableState& table) { return table->updates; });
    for (const TableState& table : tables) {
      const TableSettings& settings = table->table->settings();
      EMBLEM_REQUIRE(table->updates == oldest->updates || !settings.trainable ||
                         !depends_on_updates(settings.rule),
                     "lookup: table ", settings.name, " has had ", table->updates,
                     " updates, but table ", oldest->options.name, " ", oldest->updates, ", and ",
                     name_of(settings.rule),
                     " depends on their number; train the tables by lookups of their own, or call "
                     "set_updates");
    }
    return oldest->updates;
  }

  // The batch as the engine takes it.
  void set_keys(std::span<const FeatureKeys> features, Pass pass) {
    std::vector<UploadedKeys>& kept = uploaded[pass == Pass::kTraining];
    kept.clear();
    batch.clear();
    for (const FeatureKeys& given : features) {
      if (copies) {
        const UploadedKeys& on = kept.emplace_back(UploadedKeys{upload(context, given.keys),
                                                                upload(context, given.offsets),
                                                                upload(context, given.weights)});
        batch.push_back({.keys = on.keys.view(),
                         .offsets = on.offsets.view(),
                         .weights = on.weights.view(),
                         .counts = {},
                         .absent = {},
                         .places = {}});
      } else {
        batch.push_back({.keys = view_of(given.keys),
                         .offsets = view_of(given.offsets),
                         .weights = view_of(given.weights),
                         .counts = {},
                         .absent = {},
                         .places = {}});
      }
    }
  }

  template <class T>
  View<const T> view_of(std::span<const T> values) const {
    return {values.data(), static_cast<int64_t>(values.size()), 1, context.device};
  }

  void forward(std::span<const FeatureKeys> features, Pass pass, float* out) {
    EMBLEM_REQUIRE(!features.empty(), "lookup: keys of no feature are given");
    const bool trains = pass == Pass::kTraining;
    if (trains) {
      updates();  // else not known before backward
      claim_tables();
      awaits_gradients = false;
    }
    const int64_t rows = rows_of(features[0]), width = lookup->width();
    set_keys(features, pass);
    const Phase phase = trains ? Phase::kTrain : Phase::kEval;
    if (copies) {
      Buffer<float> made(context.device, rows, width);
      lookup->forward(context, batch, phase, made.view());
      detail::copy(context, out, made.data(), static_cast<size_t>(rows * width) * sizeof(float));
      lookup->check(context);
    } else {
      lookup->forward(context, batch, phase, AnyView(out, rows, width, context.device));
    }
    if (!trains) return;
    rows_of_pass = rows;
    awaits_gradients = true;
    for (size_t t = 0; t < tables.size(); ++t) seen[t] = tables[t]->changes;
  }

  float learning_rate_of(const Update& update) const {
    if (update.learning_rate) {
      EMBLEM_REQUIRE(std::isfinite(*update.learning_rate) && *update.learning_rate >= 0,
                     "lookup: the learning rate is ", *update.learning_rate,
                     "; expected 0 or more, or none for that of the optimizer");
      return *update.learning_rate;
    }
    for (const TableState& table : tables)
      EMBLEM_REQUIRE(table->learning_rate == tables[0]->learning_rate, "lookup: the optimizers of ",
                     tables[0]->options.name, " and ", table->options.name, " have learning rates ",
                     tables[0]->learning_rate, " and ", table->learning_rate,
                     "; give Update::learning_rate");
    return tables[0]->learning_rate;
  }

  void backward(const float* gradients, const Update& update) {
    EMBLEM_REQUIRE(awaits_gradients,
                   "lookup: gradients without a training pass before them; each pass has one "
                   "backward");
    for (size_t t = 0; t < tables.size(); ++t)
      EMBLEM_REQUIRE(tables[t]->changes == seen[t], "table ", tables[t]->options.name,
                     " was changed after the training pass that these gradients belong to");
    EMBLEM_REQUIRE(std::isfinite(update.scale), "lookup: the scale of gradients is ", update.scale,
                   "; expected a finite number");
    const float learning_rate = learning_rate_of(update);
    const int64_t step = updates() + 1;
    awaits_gradients = false;
    const int64_t width = lookup->width();
    ConstAnyView view(gradients, rows_of_pass, width, context.device);
    Buffer<float> copied;
    if (copies) {
      const auto count = static_cast<size_t>(rows_of_pass * width);
      copied = upload(context, std::span<const float>(gradients, count));
      view = ConstAnyView(copied.data(), rows_of_pass, width, context.device);
    }
    lookup->backward(context, view, update.scale, learning_rate, step);
    if (copies) lookup->check(context);
    for (const TableState& table : tables) ++table->updates;
  }

  std::vector<TableState> tables;  // each once
  Workers workers;
  Context context;
  bool copies = false;  // LookupOptions::host_memory
  std::unique_ptr<emblem::Lookup> lookup;
  std::vector<emblem::FeatureKeys> batch;
  std::vector<UploadedKeys> uploaded[2];  // of the last inference and of the last training
  bool awaits_gradients = false;
  int64_t rows_of_pass = 0;   // of the training pass
  std::vector<int64_t> seen;  // changes of each table then
};

Lookup::Lookup(const std::vector<LookupFeature>& features, const LookupOptions& options)
    : state_(std::make_unique<State>(features, options)) {}
Lookup::~Lookup() = default;
Lookup::Lookup(Lookup&&) noexcept = default;
Lookup& Lookup::operator=(Lookup&&) noexcept = default;

int64_t Lookup::width() const { return state_->lookup->width(); }

void Lookup::forward(std::span<const FeatureKeys> features, Pass pass, float* out) {
  state_->forward(features, pass, out);
}

void Lookup::prefetch(std::span<const FeatureKeys> features) {
  if (state_->copies) return;
  state_->set_keys(features, Pass::kTraining);
  state_->lookup->prefetch(state_->context, state_->batch);
}

void Lookup::backward(const float* gradients, const Update& update) {
  state_->backward(gradients, update);
}

void Lookup::check() { state_->lookup->check(state_->context); }

std::vector<LookupCounts> Lookup::take_counts() {
  std::vector<LookupCounts> counts;
  for (const auto& of : state_->lookup->take_counts(state_->context))
    counts.push_back({of.values, of.missing});
  return counts;
}

}  // namespace emblem::api
