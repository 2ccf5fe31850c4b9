// Looking up and updating the rows that ranks ask for, by the class of a table.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/buffer.h"
#include "core/process.h"
#include "core/random.h"
#include "embedding/lookup.h"
#include "plan/probe.h"

namespace emblem {
namespace {

constexpr int64_t kSmallTable = 4096;  // rows
constexpr int64_t kFewRequests = 16;
constexpr double kFewDistinct = 0.25;  // the second share of distinct keys that is measured
constexpr size_t kKeySets = 8;         // used in turn, so that not all rows are in caches
constexpr int64_t kSweptBytes =
    16 << 20;  // read and written between measurements, as layers do in a step
constexpr double kMemoryShare = 0.25;  // of what is free, for the table of all ranks of a host

// The tables of a class: the rows of the largest, and the requests that a rank gets of all of them.
struct ClassWork {
  TableSettings settings;
  double rows = 0, requests = 0;
};

std::vector<ClassWork> classes_of(const Workload& workload) {
  std::vector<ClassWork> classes;
  for (const WorkloadTable& table : workload.tables) {
    auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassWork& each) {
      return class_of(each.settings) == class_of(table.settings);
    });
    if (found == classes.end()) found = classes.insert(classes.end(), {table.settings});
    found->rows = std::max(found->rows, table.expected_keys);
    found->requests +=
        static_cast<double>(workload.shards) * table.keys.at(static_cast<double>(workload.rows));
  }
  return classes;
}

// `count` keys of a table of `rows` rows, `distinct` of them different: frequent ones as in a power
// law, in random order.
std::vector<int64_t> draw_keys(Random& random, int64_t rows, int64_t count, int64_t distinct) {
  std::vector<int64_t> keys;
  std::unordered_set<int64_t> seen;
  distinct = std::min(distinct, rows);
  const double log_rows = std::log(static_cast<double>(rows) + 1);
  for (int64_t draw = 0; std::ssize(keys) < distinct; ++draw) {
    const double u = static_cast<double>(random.uniform());
    const auto key = draw < 4 * distinct
                         ? static_cast<int64_t>(std::exp(u * log_rows)) - 1
                         : static_cast<int64_t>(random.below(static_cast<uint64_t>(rows)));
    const int64_t valid = std::clamp<int64_t>(key, 0, rows - 1);
    if (seen.insert(valid).second) keys.push_back(valid);
  }
  for (int64_t i = distinct; i < count; ++i)
    keys.push_back(keys[static_cast<size_t>(random.below(static_cast<uint64_t>(distinct)))]);
  for (size_t i = keys.size() - 1; i > 0; --i)
    std::swap(keys[i], keys[static_cast<size_t>(random.below(i + 1))]);
  return keys;
}

// One table of a class, as a holder of rows uses it.
class HeldRows {
 public:
  HeldRows(const Context& context, TableSettings settings, int64_t rows, int64_t most_requests)
      : context_(context), rows_(rows), dim_(settings.dim) {
    settings.name = "probe";
    settings.held = {};
    settings.capacity = rows;
    settings.placement = Placement::kDevice;
    settings.admission_threshold = 0;
    if (settings.kind == TableKind::kDynamic) settings.initial_capacity = rows;
    table_ = make_table(context, settings);
    const LookupFeature feature{table_.get(), Pooling::kSum};
    lookup_ = make_lookup(context, {&feature, 1});
    out_ = Buffer<float>::zeros(context, most_requests, dim_);
    if (settings.kind == TableKind::kDynamic) insert_all(most_requests);
  }

  void set_requests(Random& random, int64_t requests, int64_t distinct) {
    requests_ = requests;
    keys_.clear();
    for (size_t i = 0; i < kKeySets; ++i)
      keys_.push_back(
          Buffer<int64_t>::from(context_, draw_keys(random, rows_, requests, distinct)));
  }

  void gather(int64_t turn) {
    const Buffer<int64_t>& keys = keys_[static_cast<size_t>(turn) % kKeySets];
    const FeatureKeys feature{.keys = keys.view()};
    lookup_->forward(context_, {&feature, 1}, Phase::kTrain, rows_view(out_));
  }
  // After gather(); rows are their own gradients.
  void update(int64_t turn) {
    lookup_->backward(context_, ConstAnyView(rows_view(out_)), 1.0f, 1e-6f, turn + 1);
  }
  double bytes_a_row() const {
    return static_cast<double>(table_->bytes()) / static_cast<double>(rows_);
  }

 private:
  View<float> rows_view(Buffer<float>& buffer) {
    return {buffer.data(), requests_, dim_, context_.device};
  }
  void insert_all(int64_t at_once) {
    for (int64_t first = 0; first < rows_; first += at_once) {
      std::vector<int64_t> keys;
      for (int64_t key = first; key < std::min(rows_, first + at_once); ++key) keys.push_back(key);
      keys_.clear();
      keys_.push_back(Buffer<int64_t>::from(context_, keys));
      requests_ = std::ssize(keys);
      const FeatureKeys feature{.keys = keys_[0].view()};
      lookup_->forward(context_, {&feature, 1}, Phase::kTrain, rows_view(out_));
      context_.synchronize();
    }
  }

  Context context_;
  int64_t rows_, dim_, requests_ = 0;
  std::unique_ptr<Table> table_;
  std::unique_ptr<Lookup> lookup_;
  std::vector<Buffer<int64_t>> keys_;
  Buffer<float> out_;
};

struct HolderSeconds {
  double gather = 0, update = 0;
};

// Both alternate, as in training.
HolderSeconds time_holder(RankTimer& timer, HeldRows& held, bool alone) {
  std::vector<double> gathers, updates;
  const bool works = !alone || timer.ranks().rank() == 0;
  const Buffer<char> read = Buffer<char>::zeros(timer.context(), kSweptBytes);
  Buffer<char> written(timer.context().device, kSweptBytes);
  const auto sweep_caches = [&] {
    detail::copy(timer.context(), written.data(), read.data(), static_cast<size_t>(kSweptBytes));
    timer.context().synchronize();
  };
  const auto once = [&](int64_t turn) {
    sweep_caches();
    timer.barrier();
    const double gather = timer.time([&] {
      if (works) held.gather(turn);
    });
    sweep_caches();
    timer.barrier();
    const double update = timer.time([&] {
      if (works) held.update(turn);
    });
    gathers.push_back(gather);
    updates.push_back(update);
  };
  once(0);
  once(1);
  const int64_t repetitions = timer.repetitions(gathers.back() + updates.back());
  gathers.clear();
  updates.clear();
  for (int64_t i = 0; i < repetitions; ++i) once(i + 2);
  return {median_of_slowest(timer.ranks(), gathers), median_of_slowest(timer.ranks(), updates)};
}

std::vector<int64_t> rising(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Equal on all ranks.
int64_t agree(Communicator& ranks, int64_t value) {
  ranks.broadcast(Context{}, {&value, sizeof(value)}, 0);
  return value;
}

// Rows of the tables to measure: one, where the largest is small already.
std::vector<int64_t> sizes_of_tables(int64_t largest) {
  if (largest <= 4 * kSmallTable) return {largest};
  const auto middle = static_cast<int64_t>(
      std::sqrt(static_cast<double>(kSmallTable) * static_cast<double>(largest)));
  return {kSmallTable, middle, largest};
}

TableCosts probe_class(RankTimer& timer, const ClassWork& work) {
  TableCosts costs{.table = class_of(work.settings)};
  Communicator& ranks = timer.ranks();
  const double row_bytes = static_cast<double>(work.settings.dim) * 4 * 3;
  const double room = kMemoryShare * static_cast<double>(available_memory_bytes()) / ranks.size();
  const auto largest = agree(
      ranks, std::max<int64_t>(1, static_cast<int64_t>(std::min(work.rows, room / row_bytes))));
  const auto usual = std::max(kFewRequests, static_cast<int64_t>(work.requests));
  std::vector<KernelCurves::Level> gather, update;
  for (const int64_t rows : sizes_of_tables(largest)) {
    HeldRows held(timer.context(), work.settings, rows, usual);
    Random random{.seed = 7, .stream = static_cast<uint64_t>(ranks.rank())};
    std::vector<double> shares = {1.0};
    if (ranks.size() > 1) shares = {kFewDistinct, 1.0};
    for (const double share : shares) {
      std::vector<CurvePoint> gathers, updates;
      for (const int64_t requests : rising({kFewRequests, usual / 4, usual})) {
        const auto distinct =
            std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(requests)));
        held.set_requests(random, requests, distinct);
        const HolderSeconds found = time_holder(timer, held, false);
        gathers.push_back({static_cast<double>(requests), found.gather});
        updates.push_back({static_cast<double>(requests), found.update});
        if (requests != usual || share != 1.0 || rows != largest || ranks.size() == 1) continue;
        const HolderSeconds alone = time_holder(timer, held, true);
        costs.gather_alone_share = std::min(1.0, alone.gather / std::max(1e-9, found.gather));
        costs.update_alone_share = std::min(1.0, alone.update / std::max(1e-9, found.update));
      }
      const double bytes = held.bytes_a_row() * static_cast<double>(rows);
      gather.push_back({bytes, share, Curve(std::move(gathers))});
      update.push_back({bytes, share, Curve(std::move(updates))});
    }
    costs.bytes_a_row = held.bytes_a_row();
  }
  costs.gather = KernelCurves(std::move(gather));
  costs.update = KernelCurves(std::move(update));
  return costs;
}

}  // namespace

std::vector<TableCosts> probe_tables(RankTimer& timer, const Workload& workload) {
  std::vector<TableCosts> tables;
  for (const ClassWork& work : classes_of(workload)) tables.push_back(probe_class(timer, work));
  return tables;
}

}  // namespace emblem
