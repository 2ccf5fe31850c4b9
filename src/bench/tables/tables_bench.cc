#include "bench/tables/tables_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "bench/machine/ceilings.h"
#include "bench/machine/gpu_timer.h"
#include "bench/result/result_table.h"
#include "bench/result/sample_statistics.h"
#include "bench/tables/bounded_power_law.h"
#include "core/memory/buffer.h"
#include "core/system/process.h"
#include "core/system/seconds_since.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "embedding/lookup.h"

namespace emblem {
namespace {

constexpr int64_t kFilledAtOnce = 1 << 20;  // keys
constexpr float kRate = 0.1f;
constexpr int64_t kMostWarmUpSteps = 1000;
constexpr int64_t kRotatedBytes = 256 << 20;  // outputs and gradients together exceed any cache

Rule rule_of(const std::string& optimizer) {
  if (optimizer == "sgd") return Sgd{};
  if (optimizer == "momentum") return Momentum{};
  if (optimizer == "adagrad") return AdaGrad{};
  if (optimizer == "rowwise_adagrad") return RowWiseAdaGrad{};
  if (optimizer == "adam") return Adam{};
  if (optimizer == "ftrl") return Ftrl{};
  throw Error(ErrorCode::kInvalidArgument,
              cat("bench tables: unknown optimizer \"", optimizer,
                  "\"; known: sgd, momentum, adagrad, rowwise_adagrad, adam, ftrl"));
}

float gradient_at(int64_t i) { return random_uniform(5, 0, static_cast<uint64_t>(i)) - 0.5f; }

// Tables, their lookup, and batches on the device.
class Workload {
 public:
  Workload(const Context& context, const TablesCase& of, int64_t batches)
      : context_(context), of_(of), batches_(batches) {
    // A table of a fresh stream that can hold all rows would find all keys: use half the
    // capacity.
    const bool halved = of.stream == KeyStream::kFresh && of.placement == Placement::kDevice &&
                        of.kind == TableKind::kDynamic;
    capacity_ = halved ? of.rows / 2 : of.rows;
    std::vector<LookupFeature> features;
    for (int64_t t = 0; t < of.tables; ++t) {
      TableSettings settings{
          .name = cat("bench", t),
          .dim = of.dim,
          .dtype = of.dtype,
          .kind = of.kind,
          .capacity = capacity_,
          .eviction = of.kind == TableKind::kDynamic ? Eviction::kLru : Eviction::kNone,
          .initializer = {Initializer::Kind::kNormal, 0.0f, 1.0f},
          .rule = rule_of(of.optimizer),
          .seed = static_cast<uint64_t>(t + 1),
          .placement = of.placement,
          .device_bytes = of.device_bytes / of.tables};
      tables_.push_back(make_table(context, settings));
      features.push_back({tables_.back().get(), of.pooling});
    }
    lookup_ = make_lookup(context, features);
    const int64_t bags = of.batch / of.hotness;
    const int64_t copies = std::clamp<int64_t>(
        kRotatedBytes / std::max<int64_t>(1, bags * lookup_->width() * 4), 1, 8);
    std::vector<float> gradients(bags * lookup_->width());
    for (int64_t c = 0; c < copies; ++c) {
      outputs_.emplace_back(context.device, bags, lookup_->width());
      if (c == 0) fill_gradients(gradients);
      gradients_.push_back(Buffer<float>::from(context, gradients, lookup_->width()));
    }
    if (of.hotness > 1) {
      std::vector<int32_t> offsets(bags + 1);
      for (int64_t b = 0; b <= bags; ++b) offsets[b] = static_cast<int32_t>(b * of.hotness);
      offsets_ = Buffer<int32_t>::from(context, offsets);
    }
    draw_keys();
  }

  int64_t batches() const { return batches_; }
  // Rows of all tables that fit into device memory, if the rows are in host memory.
  int64_t cached_rows() const {
    const int64_t row_bytes = of_.dim * size_of(of_.dtype) + tables_[0]->state_floats() * 4;
    const bool caches = context_.device == Device::kCuda && of_.placement == Placement::kCache;
    return caches ? of_.device_bytes / row_bytes : 0;
  }
  Table::CacheUse cache_use() const {
    Table::CacheUse all;
    for (const auto& table : tables_) {
      const Table::CacheUse of = table->cache_use();
      all.rows += of.rows;
      all.missed += of.missed;
      all.prefetched += of.prefetched;
    }
    return all;
  }
  Table& table(int64_t t) { return *tables_[t]; }
  const std::vector<int64_t>& host_keys(int64_t batch) const { return host_keys_[batch]; }

  void fill() {
    const auto wanted = static_cast<int64_t>(static_cast<double>(capacity_) * of_.load_factor);
    if (of_.kind == TableKind::kStatic) return;
    Buffer<float> out;
    for (int64_t begin = 0; begin < wanted; begin += kFilledAtOnce) {
      std::vector<int64_t> keys(std::min(kFilledAtOnce, wanted - begin));
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = begin + static_cast<int64_t>(i);
      const auto there = Buffer<int64_t>::from(context_, keys);
      for (auto& table : tables_) {
        const LookupFeature feature{table.get()};
        if (!filler_ || filler_table_ != table.get()) {
          filler_ = make_lookup(context_, {&feature, 1});
          filler_table_ = table.get();
        }
        if (out.size() != static_cast<int64_t>(keys.size()) * of_.dim)
          out = Buffer<float>(context_.device, static_cast<int64_t>(keys.size()), of_.dim);
        FeatureKeys of;
        of.keys = there.view();
        filler_->forward(context_, {&of, 1}, Phase::kTrain, out.view());
        filler_->check(context_);
      }
    }
    filler_.reset();
  }

  void forward(int64_t batch, Phase phase) {
    lookup_->forward(context_, features_[batch], phase, outputs_[batch % outputs_.size()].view());
  }
  void backward(int64_t batch, int64_t step) {
    lookup_->backward(context_, gradients_[batch % gradients_.size()].view(), 1.0f, kRate, step);
  }
  void train(int64_t batch) {
    forward(batch, Phase::kTrain);
    if (of_.prefetch) lookup_->prefetch(context_, features_[(batch + 1) % batches_]);
    backward(batch, batch + 1);
  }
  // A training step on keys that are in none of the batches; each `number` has other keys.
  void train_on_others(int64_t number) {
    others_ = Buffer<int64_t>::from(context_, keys_of(batches_ + number));
    std::vector<FeatureKeys> features = features_of(others_);
    lookup_->forward(context_, features, Phase::kTrain, outputs_[0].view());
    lookup_->backward(context_, gradients_[0].view(), 1.0f, kRate, number + 1);
  }
  // What evaluation reads and writes of a static table. Rows of 16 bits are half as long, and are
  // copied twice: outputs are floats.
  RowCopies row_copies() const {
    const int64_t size = size_of(of_.dtype), read = std::max<int64_t>(1, of_.dim * size / 4);
    return {of_.rows, read + tables_[0]->state_floats(),     read,
            4 / size, static_cast<int64_t>(outputs_.size()), host_keys_};
  }
  void check() { lookup_->check(context_); }
  std::vector<float> output(int64_t batch) const {
    return outputs_[batch % outputs_.size()].to_host(context_);
  }

  // Distinct keys per batch, summed over tables; the mean of some batches.
  double unique_keys() const {
    const int64_t some = std::min<int64_t>(batches_, 5);
    double sum = 0;
    for (int64_t b = 0; b < some; ++b) {
      for (int64_t t = 0; t < of_.tables; ++t) {
        const auto begin = host_keys_[b].begin() + t * of_.batch;
        sum += static_cast<double>(std::unordered_set<int64_t>(begin, begin + of_.batch).size());
      }
    }
    return sum / static_cast<double>(some);
  }

 private:
  void fill_gradients(std::vector<float>& gradients) {
    parallel_for(context_, static_cast<int64_t>(gradients.size()), 1 << 16,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) gradients[i] = gradient_at(i);
                 });
  }
  std::vector<int64_t> keys_of(int64_t batch) const {
    const BoundedPowerLaw draw(of_.rows, of_.alpha);
    std::vector<int64_t> keys(of_.tables * of_.batch);
    parallel_for(
        context_, static_cast<int64_t>(keys.size()), 1 << 14, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            keys[i] =
                draw(42, static_cast<uint64_t>(i / of_.batch), batch * of_.batch + i % of_.batch);
        });
    return keys;
  }
  std::vector<FeatureKeys> features_of(const Buffer<int64_t>& keys) const {
    std::vector<FeatureKeys> features(of_.tables);
    for (int64_t t = 0; t < of_.tables; ++t) {
      features[t].keys = {keys.data() + t * of_.batch, of_.batch, 1, context_.device};
      if (of_.hotness > 1) features[t].offsets = offsets_.view();
    }
    return features;
  }
  void draw_keys() {
    for (int64_t b = 0; b < batches_; ++b) {
      host_keys_.push_back(keys_of(b));
      device_keys_.push_back(Buffer<int64_t>::from(context_, host_keys_.back()));
      features_.push_back(features_of(device_keys_.back()));
    }
  }

  Context context_;
  TablesCase of_;
  int64_t batches_;
  int64_t capacity_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::unique_ptr<Lookup> lookup_, filler_;
  Table* filler_table_ = nullptr;
  std::vector<Buffer<float>> outputs_, gradients_;
  Buffer<int32_t> offsets_;
  std::vector<std::vector<int64_t>> host_keys_;
  std::vector<Buffer<int64_t>> device_keys_;
  Buffer<int64_t> others_;
  std::vector<std::vector<FeatureKeys>> features_;
};

void require_near(float found, float expected, float coarse, const char* what, int64_t key) {
  EMBLEM_REQUIRE(std::abs(found - expected) <= coarse * 1e-3f * (1.0f + std::abs(expected)),
                 "bench tables: the ", what, " of key ", key, " is ", found,
                 ", but the reference gives ", expected);
}

// A row of the reference implementation.
struct OracleRow {
  std::vector<float> weights, state, gradient;
};

void apply(const Rule& rule, OracleRow& row) {
  const auto dim = static_cast<int64_t>(row.weights.size());
  visit_table_rule(rule, [&](const auto& r) {
    using R = std::decay_t<decltype(r)>;
    if constexpr (R::kRowWise) {
      float square = 0;
      for (const float g : row.gradient) square += g * g;
      const float factor =
          r.factor(square / static_cast<float>(dim), row.state.data() + R::kStates * dim);
      for (int64_t d = 0; d < dim; ++d)
        r(factor, row.gradient[d], row.weights[d], row.state.data() + d, dim);
    } else {
      for (int64_t d = 0; d < dim; ++d)
        r(row.gradient[d], row.weights[d], row.state.data() + d, dim);
    }
  });
}

// Checks that a training step reads the rows of some keys of the batch, including the most
// frequent, and updates them by the formula of the optimizer.
void verify_training(Workload& work, const TablesCase& of) {
  const int64_t width = of.tables * of.dim;
  const Rule rule = at_step(rule_of(of.optimizer), kRate, 1);
  const float share = of.pooling == Pooling::kMean ? 1.0f / static_cast<float>(of.hotness) : 1.0f;
  work.forward(0, Phase::kTrain);
  work.check();
  const std::vector<float> out = work.output(0);
  std::vector<std::unordered_map<int64_t, OracleRow>> rows(of.tables);
  for (int64_t t = 0; t < of.tables; ++t) {
    const int64_t* keys = work.host_keys(0).data() + t * of.batch;
    for (int64_t i = 0; i < of.batch; i += std::max<int64_t>(1, of.batch / 20)) {
      OracleRow row{std::vector<float>(of.dim), std::vector<float>(work.table(t).state_floats()),
                    std::vector<float>(of.dim)};
      EMBLEM_REQUIRE(work.table(t).read(keys[i], row.weights, row.state), "bench tables: key ",
                     keys[i], " has no row after training on it");
      rows[t].emplace(keys[i], std::move(row));
    }
    for (int64_t i = 0; i < of.batch; ++i) {
      const auto found = rows[t].find(keys[i]);
      if (found == rows[t].end()) continue;
      const int64_t at = i / of.hotness * width + t * of.dim;
      for (int64_t d = 0; d < of.dim; ++d) {
        found->second.gradient[d] += share * gradient_at(at + d);
        if (of.hotness == 1)
          require_near(out[at + d], found->second.weights[d], 1.0f, "output", keys[i]);
      }
    }
  }
  work.backward(0, 1);
  work.check();
  const float coarse = of.dtype == DType::kF32 ? 1.0f : 100.0f;  // rounding of 16-bit rows
  std::vector<float> weights(of.dim);
  for (int64_t t = 0; t < of.tables; ++t) {
    for (auto& [key, row] : rows[t]) {
      apply(rule, row);
      EMBLEM_REQUIRE(work.table(t).read(key, weights), "bench tables: key ", key, " lost its row");
      for (int64_t d = 0; d < of.dim; ++d)
        require_near(weights[d], row.weights[d], coarse, "updated row", key);
    }
  }
}

// Checks that evaluation returns the rows of the table.
void verify_evaluation(Workload& work, const TablesCase& of) {
  if (of.hotness > 1) return;
  work.forward(0, Phase::kEval);
  const std::vector<float> out = work.output(0);
  std::vector<float> weights(of.dim);
  for (int64_t i = 0; i < of.batch; i += std::max<int64_t>(1, of.batch / 50)) {
    const int64_t key = work.host_keys(0)[i];
    EMBLEM_REQUIRE(work.table(0).read(key, weights), "bench tables: key ", key, " lost its row");
    for (int64_t d = 0; d < of.dim; ++d)
      require_near(out[i * of.tables * of.dim + d], weights[d], 1.0f, "row", key);
  }
}

// Mean seconds of a call step(i) for i in [begin, end); the median of the repetitions.
template <class Step>
double time_steps(const Context& context, int repetitions, int64_t begin, int64_t end,
                  Step&& step) {
  const auto all = [&] {
    for (int64_t i = begin; i < end; ++i) step(i);
  };
  std::vector<double> seconds;
  dispatch(
      context.device,
      [&] {
        for (int r = 0; r < repetitions; ++r) {
          const auto start = std::chrono::steady_clock::now();
          all();
          seconds.push_back(seconds_since(start));
        }
      },
      [&] { seconds = cuda::time_replays(context, repetitions > 1 ? 1 : 0, repetitions, all); });
  return median_of(seconds).value / static_cast<double>(end - begin);
}

struct Times {
  double eval = 0, forward = 0, train = 0;
  double missed = 0, hit_rate = 1;  // rows fetched per step; share of rows found
};

// Times training steps and counts cache hits.
template <class Time>
void measure_training(Workload& work, Times& times, Time&& time) {
  const Table::CacheUse before = work.cache_use();
  times.train = time();
  const Table::CacheUse after = work.cache_use();
  if (after.rows == before.rows) return;
  const double missed =
      static_cast<double>(after.missed + after.prefetched - before.missed - before.prefetched);
  times.hit_rate = 1.0 - missed / static_cast<double>(after.rows - before.rows);
  times.missed = missed;
}

// Repeats the same batches after one pass over all of them.
Times time_replay(const Context& context, Workload& work, const TablesOptions& options) {
  const int64_t count = work.batches();
  const auto train = [&](int64_t i) { work.train(i); };
  for (int64_t i = 0; i < count; ++i) train(i);
  work.check();
  Times times;
  times.eval = time_steps(context, options.repetitions, 0, count,
                          [&](int64_t i) { work.forward(i, Phase::kEval); });
  times.forward = time_steps(context, options.repetitions, 0, count,
                             [&](int64_t i) { work.forward(i, Phase::kTrain); });
  measure_training(work, times,
                   [&] { return time_steps(context, options.repetitions, 0, count, train); });
  times.missed /= static_cast<double>(count * (options.repetitions + (options.repetitions > 1)));
  return times;
}

// Runs until as many rows were inserted as the cache holds, so that its content comes from the
// stream.
void warm_cache(Workload& work) {
  const int64_t enough = work.cache_use().missed + work.cached_rows();
  for (int64_t step = 0; step < kMostWarmUpSteps && work.cache_use().missed < enough; ++step)
    work.train_on_others(step);
  work.check();
}

// Uses every batch once: a quarter for warm-up, a quarter for each of the three figures.
Times time_fresh(const Context& context, Workload& work) {
  const int64_t quarter = work.batches() / 4;
  const auto train = [&](int64_t i) { work.train(i); };
  warm_cache(work);
  for (int64_t i = 0; i < quarter; ++i) train(i);
  work.check();
  Times times;
  measure_training(work, times,
                   [&] { return time_steps(context, 1, quarter, 2 * quarter, train); });
  times.missed /= static_cast<double>(quarter);
  times.forward = time_steps(context, 1, 2 * quarter, 3 * quarter,
                             [&](int64_t i) { work.forward(i, Phase::kTrain); });
  times.eval = time_steps(context, 1, 3 * quarter, 4 * quarter,
                          [&](int64_t i) { work.forward(i, Phase::kEval); });
  return times;
}

// The fewest bytes to read and write: keys, one bucket and one row per distinct key, outputs and
// gradients, and the bookkeeping of training per row and per lookup.
struct Floors {
  double eval, forward, train;
};
Floors floor_bytes(const TablesCase& of, double unique, int64_t state_floats) {
  const double lookups = static_cast<double>(of.batch * of.tables);
  const double outputs =
      lookups / static_cast<double>(of.hotness) * static_cast<double>(of.dim) * 4;
  const double row = static_cast<double>(of.dim * size_of(of.dtype));
  const double bucket = of.kind == TableKind::kStatic ? 0 : 64;
  Floors bytes;
  bytes.eval = 8 * lookups + unique * (bucket + row) + outputs;
  bytes.forward = bytes.eval + 64 * unique + 8 * lookups;
  bytes.train = bytes.forward + outputs + 8 * lookups +
                unique * 2 * (row + 4 * static_cast<double>(state_floats));
  return bytes;
}

void check(const TablesCase& of, const TablesOptions& options) {
  const auto positive = [](const char* what, int64_t value) {
    EMBLEM_REQUIRE(value > 0, "bench tables: ", what, " must be at least 1, not ", value);
  };
  positive("the number of tables", of.tables);
  positive("the batch", of.batch);
  positive("the hotness", of.hotness);
  positive("the number of batches", options.batches);
  positive("the number of repetitions", options.repetitions);
  EMBLEM_REQUIRE(of.rows >= 2, "bench tables: a table needs at least 2 rows, not ", of.rows);
  EMBLEM_REQUIRE(of.batch % of.hotness == 0, "bench tables: a batch of ", of.batch,
                 " lookups is not a multiple of the hotness ", of.hotness);
  EMBLEM_REQUIRE(of.load_factor >= 0 && of.load_factor <= 1,
                 "bench tables: the load factor must be from 0 to 1, not ", of.load_factor);
}

}  // namespace

const char* name_of(Placement placement) {
  return placement == Placement::kDevice  ? "device"
         : placement == Placement::kCache ? "cache"
                                          : "host";
}

BenchResult bench_tables(const Context& context, const TablesCase& of,
                         const TablesOptions& options) {
  check(of, options);
  const bool gpu = context.device == Device::kCuda;
  Workload work(context, of, std::max<int64_t>(4, options.batches));
  work.fill();
  verify_training(work, of);
  verify_evaluation(work, of);
  const Times times = of.stream == KeyStream::kReplay ? time_replay(context, work, options)
                                                      : time_fresh(context, work);
  work.check();

  const double unique = work.unique_keys();
  const Floors bytes = floor_bytes(of, unique, work.table(0).state_floats());
  BenchResult result = begin_result("tables", of.name);
  result.settings = {{"device", std::string(gpu ? "cuda" : "cpu")},
                     {"threads", int64_t{context.threads ? context.threads->threads() : 1}},
                     {"tables", of.tables},
                     {"rows", of.rows},
                     {"rows_of_original", of.original_rows != 0 ? of.original_rows : of.rows},
                     {"batch", of.batch},
                     {"dim", of.dim},
                     {"dtype", std::string(emblem::name_of(of.dtype))},
                     {"optimizer", of.optimizer},
                     {"placement", std::string(name_of(of.placement))},
                     {"device_bytes", of.device_bytes},
                     {"prefetch", of.prefetch},
                     {"stream", std::string(of.stream == KeyStream::kReplay ? "replay" : "fresh")},
                     {"unique_keys", unique},
                     {"hit_rate", times.hit_rate},
                     {"missed_rows", times.missed}};
  const double copy = dispatch(
      context.device, [&] { return measure_copy(context); },
      [&] { return cuda::measure_device_copy(context); });
  result.ceilings = {{"copy_bytes_per_second", copy}};
  const auto seconds = [](double value) { return Measure{value, "s", Better::kLower}; };
  result.metrics = {{"train", seconds(times.train)},
                    {"eval", seconds(times.eval)},
                    {"forward", seconds(times.forward)},
                    {"backward", seconds(times.train - times.forward)}};
  result.shares = {{"eval of copy floor", bytes.eval / copy / times.eval},
                   {"train of copy floor", bytes.train / copy / times.train}};
  if (gpu && of.placement != Placement::kDevice) {
    const double bus = dispatch(
        context.device, [] { return 0.0; }, [&] { return cuda::measure_host_to_device(context); });
    const double row_bytes =
        static_cast<double>(of.dim * size_of(of.dtype) + work.table(0).state_floats() * 4);
    result.ceilings.push_back({"bus_bytes_per_second", bus});
    result.shares.push_back({"train of bus floor", times.missed * row_bytes / bus / times.train});
  }
  if (!gpu) {
    const double rows = static_cast<double>(of.tables * of.batch);
    result.metrics.push_back({"rows_per_second", {rows / times.eval, "rows/s"}});
    if (of.kind == TableKind::kStatic && of.tables == 1 && of.hotness == 1) {
      const double copies = measure_row_copies(context, work.row_copies());
      result.ceilings.push_back({"row_copies_per_second", rows / copies});
      result.shares.push_back({"eval of row copies", copies / times.eval});
    }
  }
  return result;
}

TablesRun bench_all_tables(const Context& context, const std::vector<TablesCase>& cases,
                           const TablesOptions& options,
                           const std::function<void(const BenchResult&)>& show,
                           const std::function<void(const std::string&)>& notify) {
  TablesRun run;
  const auto skip = [&](const TablesCase& of, const char* why) {
    run.not_measured.push_back(of.name);
    notify(cat(of.name, ": not measured: ", why));
  };
  for (const TablesCase& of : cases) {
    if (const std::string note = rows_note(of); !note.empty()) notify(note);
    try {
      run.results.push_back(bench_tables(context, of, options));
      show(run.results.back());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      skip(of, error.what());
    } catch (const std::bad_alloc&) {
      skip(of, "not enough host memory for its keys and gradients");
    }
  }
  return run;
}

}  // namespace emblem
