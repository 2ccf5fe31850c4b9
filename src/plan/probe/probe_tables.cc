// Times by the class of a table: looking up and updating the rows that ranks ask for; finding
// the distinct keys of a rank's own bags, pooling their rows and summing their gradients.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "comm/bytes.h"
#include "comm/threads/threads.h"
#include "core/math/random.h"
#include "core/memory/buffer.h"
#include "core/system/process.h"
#include "embedding/lookup.h"
#include "plan/probe/probe.h"
#include "plan/probe/rank_timer.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

constexpr int64_t kSmallTable = 4096;  // rows
constexpr int64_t kFewRequests = 16;
constexpr double kFewDistinct = 0.25;     // the second share of distinct keys that is measured
constexpr size_t kKeySets = 8;            // used in turn, so that not all rows are in caches
constexpr int64_t kSweptBytes = 4 << 20;  // read and written between measurements, as by layers
// Share of the free memory for the table of all ranks of a host.
constexpr double kTableMemoryShare = 0.25;

// The tables of a class: the rows of the largest, the requests that a rank gets of all of them, and
// the keys and bags of its own batch.
struct ClassWork {
  TableSettings settings;
  double rows = 0, requests = 0, lookups = 0, bags = 0;
};

void add_work(const Workload& workload, const WorkloadTable& table, int64_t dim,
              std::vector<ClassWork>& classes) {
  TableSettings settings = table.settings;
  settings.dim = dim;
  auto found = std::find_if(classes.begin(), classes.end(), [&](const ClassWork& each) {
    return class_of(each.settings) == class_of(settings);
  });
  if (found == classes.end()) found = classes.insert(classes.end(), {settings});
  const auto rows = static_cast<double>(workload.rows_per_rank());
  found->rows = std::max(found->rows, table.expected_keys);
  found->requests +=
      static_cast<double>(workload.shards) * table.keys.at(static_cast<double>(workload.rows));
  found->lookups += rows * table.keys.lookups_per_row();
  found->bags += rows * table.bags_per_row();
}

// Classes of tables, and of slices of their columns on all ranks.
std::vector<ClassWork> classes_of(const Workload& workload, int ranks) {
  std::vector<ClassWork> classes;
  for (const WorkloadTable& table : workload.tables)
    add_work(workload, table, table.settings.dim, classes);
  std::vector<ClassWork> slices;
  for (const WorkloadTable& table : workload.tables)
    if (const int count = table.slices(ranks); count > 1)
      add_work(workload, table, table.settings.dim / count, slices);
  for (const ClassWork& slice : slices) {
    const bool is_there = std::any_of(classes.begin(), classes.end(), [&](const ClassWork& each) {
      return class_of(each.settings) == class_of(slice.settings);
    });
    if (!is_there) classes.push_back(slice);
  }
  return classes;
}

// Settings of a table of a class that is probed.
TableSettings settings_to_probe(TableSettings settings, int64_t rows) {
  settings.name = "probe";
  settings.held = {};
  settings.capacity = rows;
  settings.placement = Placement::kDevice;
  settings.admission_threshold = 0;
  if (settings.kind == TableKind::kDynamic) settings.initial_capacity = rows;
  return settings;
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
  HeldRows(const Context& context, const TableSettings& of_class, int64_t rows,
           int64_t most_requests)
      : context_(context), rows_(rows), dim_(of_class.dim) {
    const TableSettings settings = settings_to_probe(of_class, rows);
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
  // Called after gather(); rows are their own gradients.
  void update(int64_t turn) {
    lookup_->backward(context_, ConstAnyView(rows_view(out_)), 1.0f, 1e-6f, turn + 1);
  }
  double bytes_per_row() const {
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

// One table of a class, as the rank that has bags of its keys uses it. The rows are its own.
class OwnBags {
 public:
  OwnBags(const Context& context, const TableSettings& of_class, int64_t rows)
      : context_(context), rows_(rows), timed_(*alone_) {
    const TableSettings settings = settings_to_probe(of_class, rows);
    table_ = make_table(context, settings);
    const ShardedTable sharded{settings, over_all_ranks(settings.name, 1), table_.get()};
    const ShardedFeature feature{};
    lookup_ = make_sharded_lookup(context, {&sharded, 1}, {&feature, 1}, {&timed_, &timed_, 1});
  }

  void set_bags(Random& random, int64_t bags, int64_t lookups, int64_t distinct) {
    std::vector<int32_t> offsets;
    for (int64_t bag = 0; bag <= bags; ++bag)
      offsets.push_back(static_cast<int32_t>(bag * lookups / bags));
    offsets_ = Buffer<int32_t>::from(context_, offsets);
    out_ = Buffer<float>::zeros(context_, bags, table_->dim());
    keys_.clear();
    for (size_t i = 0; i < kKeySets; ++i)
      keys_.push_back(Buffer<int64_t>::from(context_, draw_keys(random, rows_, lookups, distinct)));
    is_bag_ = lookups != bags;
  }

  // Seconds without those of exchanges with itself.
  double forward(RankTimer& timer, int64_t turn) {
    FeatureKeys feature{.keys = std::as_const(keys_[static_cast<size_t>(turn) % kKeySets]).view()};
    if (is_bag_) feature.offsets = std::as_const(offsets_).view();
    return time(timer, [&] {
      lookup_->forward(context_, {&feature, 1}, Phase::kTrain, out_.view());
    });
  }
  double backward(RankTimer& timer, int64_t turn) {
    return time(timer, [&] {
      lookup_->backward(context_, std::as_const(out_).view(), 1.0f, 1e-6f, turn + 1);
    });
  }

 private:
  template <class Call>
  double time(RankTimer& timer, Call&& call) {
    timed_.clear();
    timer.barrier();
    double seconds = timer.time(call);
    for (const double exchange : timed_.seconds()) seconds -= exchange;
    return seconds;
  }

  Context context_;
  int64_t rows_;
  std::unique_ptr<Communicator> alone_ = std::move(make_thread_ranks(1).front());
  TimedCommunicator timed_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<Lookup> lookup_;
  std::vector<Buffer<int64_t>> keys_;
  Buffer<int32_t> offsets_;
  Buffer<float> out_;
  bool is_bag_ = false;
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
  const double begin = seconds_now();
  once(1);
  const int64_t repetitions = timer.repetitions(seconds_now() - begin);
  gathers.clear();
  updates.clear();
  for (int64_t i = 0; i < repetitions; ++i) once(i + 2);
  return {low_of_slowest(timer.ranks(), gathers), low_of_slowest(timer.ranks(), updates)};
}

std::vector<int64_t> rising(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// Rows of the tables to measure: one, where the largest is small already.
std::vector<int64_t> sizes_of_tables(int64_t largest) {
  if (largest <= 4 * kSmallTable) return {largest};
  const auto middle = static_cast<int64_t>(
      std::sqrt(static_cast<double>(kSmallTable) * static_cast<double>(largest)));
  return {kSmallTable, middle, largest};
}

// What looking up and updating the distinct rows costs is taken off.
void probe_own_bags(RankTimer& timer, const ClassWork& work, int64_t rows, TableCosts& costs) {
  OwnBags own(timer.context(), work.settings, rows);
  Random random{.seed = 8, .stream = static_cast<uint64_t>(timer.ranks().rank())};
  const auto whole = [](double value) { return std::max<int64_t>(1, std::llround(value)); };
  std::vector<CurvePoint> requests, sums;
  for (const double part : {0.25, 1.0}) {
    const int64_t bags = whole(part * work.bags);
    const int64_t lookups = std::max(bags, whole(part * work.lookups));
    const int64_t distinct = std::min({lookups, rows, whole(part * work.requests)});
    own.set_bags(random, bags, lookups, distinct);
    std::vector<double> forwards, backwards;
    const auto once = [&](int64_t turn) {
      forwards.push_back(own.forward(timer, turn));
      backwards.push_back(own.backward(timer, turn));
    };
    for (int64_t i = 0; i < static_cast<int64_t>(kKeySets); ++i) once(i);  // new keys get rows
    const int64_t repetitions = timer.repetitions(forwards.back() + backwards.back());
    forwards.clear();
    backwards.clear();
    for (int64_t i = 0; i < repetitions; ++i) once(i + static_cast<int64_t>(kKeySets));
    const auto found = static_cast<double>(distinct);
    const double bytes = costs.bytes_per_row * static_cast<double>(rows);
    const auto rest = [&](const std::vector<double>& all, const KernelCurves& kernel) {
      return std::max(0.0, low_of_slowest(timer.ranks(), all) - kernel.at(found, 1.0, bytes));
    };
    requests.push_back({static_cast<double>(lookups), rest(forwards, costs.gather)});
    sums.push_back({static_cast<double>(lookups), rest(backwards, costs.update)});
  }
  costs.requests = Curve(std::move(requests));
  costs.sums = Curve(std::move(sums));
}

TableCosts probe_class(RankTimer& timer, const ClassWork& work) {
  TableCosts costs{.table = class_of(work.settings)};
  Communicator& ranks = timer.ranks();
  const double row_bytes = static_cast<double>(work.settings.dim) * 4 * 3;
  const double room =
      kTableMemoryShare * static_cast<double>(available_memory_bytes()) / ranks.size();
  const auto largest = value_of_rank_0(
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
      const double bytes = held.bytes_per_row() * static_cast<double>(rows);
      gather.push_back({bytes, share, Curve(std::move(gathers))});
      update.push_back({bytes, share, Curve(std::move(updates))});
    }
    costs.bytes_per_row = held.bytes_per_row();
  }
  costs.gather = KernelCurves(std::move(gather));
  costs.update = KernelCurves(std::move(update));
  probe_own_bags(timer, work, largest, costs);
  return costs;
}

}  // namespace

std::vector<TableCosts> probe_tables(RankTimer& timer, const Workload& workload) {
  std::vector<TableCosts> tables;
  for (const ClassWork& work : classes_of(workload, timer.ranks().size()))
    tables.push_back(probe_class(timer, work));
  return tables;
}

}  // namespace emblem
