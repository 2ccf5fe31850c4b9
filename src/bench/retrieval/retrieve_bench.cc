#include "bench/retrieval/retrieve_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>

#include "bench/machine/ceilings.h"
#include "bench/machine/gpu_timer.h"
#include "bench/result/sample_statistics.h"
#include "core/files/file.h"
#include "core/math/random.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kRowsAtOnce = 4096;
constexpr int64_t kCheckedQueries = 4, kRecallQueries = 1000, kLeastSearches = 5;
constexpr int64_t kQueryElements = 1 << 22;  // of distinct queries
constexpr int64_t kExcludingQueries = 64;    // distinct ones, where the best items are excluded
constexpr uint64_t kSeed = 11, kItems = 1, kQueries = 2, kCenters = 3, kTopics = 4, kAllowed = 5,
                   kExcluded = 6;

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double cpu_time() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Row `at` of a stream of vectors.
void draw_vector(const RetrieveOptions& of, uint64_t stream, int64_t at, float* to) {
  const auto first = static_cast<uint64_t>(at * of.dim);
  if (of.topics == 0) {
    for (int64_t k = 0; k < of.dim; ++k) to[k] = random_normal(kSeed, stream, first + k);
    return;
  }
  const float share = random_uniform(kSeed, kTopics + stream * 16, static_cast<uint64_t>(at));
  const auto topic = static_cast<uint64_t>(std::pow(static_cast<float>(of.topics), share) -
                                           1.0f);  // topic t as often as 1 / (t + 1)
  for (int64_t k = 0; k < of.dim; ++k)
    to[k] = random_normal(kSeed, kCenters, topic * of.dim + k) +
            static_cast<float>(of.noise) * random_normal(kSeed, stream, first + k);
}

std::vector<float> draw_vectors(const Context& context, const RetrieveOptions& of, uint64_t stream,
                                int64_t count) {
  std::vector<float> vectors(static_cast<size_t>(count * of.dim));
  parallel_for(context, count, kRowsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) draw_vector(of, stream, i, vectors.data() + i * of.dim);
  });
  return vectors;
}

bool is_allowed(const RetrieveOptions& of, int64_t item) {
  return random_uniform(kSeed, kAllowed, static_cast<uint64_t>(item)) < of.filter;
}

// The items, and an index of them.
struct Catalogue {
  std::vector<float> vectors;
  std::vector<int64_t> ids;
  std::vector<uint64_t> attributes;

  Catalogue(const Context& context, const RetrieveOptions& of)
      : vectors(draw_vectors(context, of, kItems, of.items)) {
    for (int64_t i = 0; i < of.items; ++i) ids.push_back(i);
    for (int64_t i = 0; of.filter > 0 && i < of.items; ++i) attributes.push_back(is_allowed(of, i));
  }

  std::unique_ptr<Index> index(const Context& context, const RetrieveOptions& of,
                               IndexKind kind) const {
    IndexSettings settings{.dim = of.dim,
                           .similarity = of.similarity,
                           .dtype = of.dtype,
                           .kind = kind,
                           .lists = of.lists,
                           .scan = of.scan};
    if (of.filter > 0) settings.attributes = {"allowed"};
    return Index::build(context, settings, {ids, {vectors.data(), of.items, of.dim}, attributes});
  }
};

// Items that are not found, for each query; without lists: none.
using Exclusions = std::vector<std::vector<int64_t>>;

SearchOptions search_options(const RetrieveOptions& of, int64_t probes,
                             const Exclusions& excluded = {}, int64_t first = 0,
                             int64_t count = 0) {
  SearchOptions options{.k = of.top_k, .probes = probes};
  if (of.filter > 0) options.allow = {"allowed"};
  if (!excluded.empty())
    options.exclude.assign(excluded.begin() + first, excluded.begin() + first + count);
  return options;
}

// What users have seen: half of it are the best items of the query, which a search meets first.
Exclusions draw_exclusions(const Context& context, const RetrieveOptions& of, const Index& index,
                           const std::vector<float>& queries) {
  if (of.exclude == 0) return {};
  const int64_t count = static_cast<int64_t>(queries.size()) / of.dim, best = of.exclude / 2;
  Exclusions lists(static_cast<size_t>(count));
  if (best > 0) {
    SearchOptions options = search_options(of, 1);
    options.k = best;
    const auto found = index.search(context, {queries.data(), count, of.dim}, options);
    for (size_t q = 0; q < found.size(); ++q)
      for (const ScoredItem& item : found[q]) lists[q].push_back(item.id);
  }
  for (size_t q = 0; q < lists.size(); ++q) {
    Random random{kSeed, kExcluded, q << 32};
    while (std::ssize(lists[q]) < of.exclude)
      lists[q].push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(of.items))));
  }
  return lists;
}

// The best items by scores of all of them.
std::vector<std::vector<ScoredItem>> plain_search(const Context& context, const RetrieveOptions& of,
                                                  const Catalogue& catalogue,
                                                  std::vector<float> queries,
                                                  const Exclusions& excluded) {
  const int64_t count = static_cast<int64_t>(queries.size()) / of.dim;
  const auto row = [&](std::vector<float>& rows, int64_t at) {
    return std::span(rows).subspan(static_cast<size_t>(at * of.dim), static_cast<size_t>(of.dim));
  };
  for (int64_t q = 0; of.similarity == Similarity::kCosine && q < count; ++q)
    normalize(row(queries, q));
  std::vector<std::vector<ScoredItem>> scores(count, std::vector<ScoredItem>(of.items));
  parallel_for(context, of.items, kRowsAtOnce, [&](int64_t begin, int64_t end) {
    std::vector<float> rows(catalogue.vectors.begin() + begin * of.dim,
                            catalogue.vectors.begin() + end * of.dim);
    ItemRows stored(of.dtype, of.dim);
    for (int64_t i = 0; i < end - begin; ++i) {
      if (of.similarity == Similarity::kCosine) normalize(row(rows, i));
      stored.append(row(rows, i));
      for (int64_t q = 0; q < count; ++q)
        scores[q][begin + i] = {stored.score(queries.data() + q * of.dim, i), begin + i};
    }
  });
  for (size_t q = 0; q < scores.size(); ++q) {
    auto& all = scores[q];
    if (of.filter > 0)
      std::erase_if(all, [&](const ScoredItem& item) { return !is_allowed(of, item.id); });
    if (!excluded.empty())
      std::erase_if(all, [&](const ScoredItem& item) {
        return std::ranges::find(excluded[q], item.id) != excluded[q].end();
      });
    const auto k = std::min<int64_t>(of.top_k, static_cast<int64_t>(all.size()));
    std::partial_sort(all.begin(), all.begin() + k, all.end());
    all.resize(static_cast<size_t>(k));
  }
  return scores;
}

double recall_of(const std::vector<std::vector<ScoredItem>>& found,
                 const std::vector<std::vector<ScoredItem>>& best) {
  int64_t both = 0, all = 0;
  for (size_t q = 0; q < best.size(); ++q) {
    for (const ScoredItem& item : best[q])
      both += std::ranges::count(found[q], item.id, &ScoredItem::id);
    all += static_cast<int64_t>(best[q].size());
  }
  return all == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(all);
}

struct SearchTimes {
  std::vector<double> wall, cpu;  // seconds of each search
};

// Searches of `users` queries, in turn those of `queries`.
class TimedSearches {
 public:
  TimedSearches(const Context& context, const RetrieveOptions& of, const Index& index,
                const std::vector<float>& queries, int64_t users, int64_t probes,
                const Exclusions& excluded)
      : context_(context), of_(of), index_(index), queries_(queries), users_(users) {
    batches_ = std::max<int64_t>(1, static_cast<int64_t>(queries.size()) / of.dim / users);
    for (int64_t at = 0; at < (excluded.empty() ? 1 : batches_); ++at)
      options_.push_back(search_options(of, probes, excluded, at * users, users));
  }

  void search(int64_t at) const {
    index_.search(context_, {queries_.data() + at % batches_ * users_ * of_.dim, users_, of_.dim},
                  options_[static_cast<size_t>(at) % options_.size()]);
  }

  void time(int64_t at) {
    const double cpu = cpu_time();
    const auto begin = Clock::now();
    search(at);
    times_.wall.push_back(seconds_between(begin, Clock::now()));
    times_.cpu.push_back(cpu_time() - cpu);
  }

  const SearchTimes& times() const { return times_; }

 private:
  const Context& context_;
  const RetrieveOptions& of_;
  const Index& index_;
  const std::vector<float>& queries_;
  int64_t users_, batches_;
  std::vector<SearchOptions> options_;  // of each batch
  SearchTimes times_;
};

// By turns: what slows the machine down slows all of them down.
void time_by_turns(std::vector<TimedSearches>& all, double seconds) {
  for (const TimedSearches& each : all) each.search(0);
  const auto start = Clock::now();
  seconds *= static_cast<double>(all.size());
  for (int64_t at = 0; at < kLeastSearches || seconds_between(start, Clock::now()) < seconds; ++at)
    for (TimedSearches& each : all) each.time(at);
}

int64_t threads_of(const Context& context) {
  return context.threads == nullptr ? 1 : context.threads->threads();
}

// Whether CPU time is the time of a search.
bool by_cpu_time(const Context& context) {
  return context.device == Device::kCpu && threads_of(context) == 1;
}

struct Limits {
  double bytes_per_second, flops_per_second;
};

// Bytes per second that one thread reads from memory, by CPU time.
double measure_read(std::span<const float> memory) {
  std::vector<std::byte> part(16384);  // stays in the L1 cache
  const auto bytes = std::as_bytes(memory);
  double best = HUGE_VAL;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const double begin = cpu_time();
    for (size_t at = 0; at + part.size() <= bytes.size(); at += part.size()) {
      std::memcpy(part.data(), bytes.data() + at, part.size());
      __asm__ volatile("" : : "r"(part.data()) : "memory");  // as if it was used
    }
    best = std::min(best, cpu_time() - begin);
  }
  return static_cast<double>(bytes.size()) / std::max(best, 1e-9);
}

Limits measure_limits(const Context& context, const RetrieveOptions& of, const Index& index,
                      const Catalogue& catalogue) {
  return dispatch(
      context.device,
      [&] {
        return Limits{
            by_cpu_time(context) ? measure_read(catalogue.vectors) : measure_copy(context),
            measure_arithmetic(context, index.kernel())};
      },
      [&] {
        const DType type = of.dtype == DType::kF16 ? DType::kF16 : DType::kBf16;
        return Limits{cuda::measure_device_copy(context), cuda::measure_device_gemm(context, type)};
      });
}

std::string name_of(const RetrieveOptions& of, int64_t users, int64_t probes) {
  std::string name = cat("retrieve-", name_of(of.kind), "-n", of.items, "-d", of.dim, "-k",
                         of.top_k, "-", name_of(of.dtype), "-u", users);
  if (of.kind == IndexKind::kIvfFlat) name += cat("-p", probes);
  if (of.similarity == Similarity::kCosine) name += "-cosine";
  if (of.topics > 0) name += cat("-topics", of.topics);
  if (of.filter > 0) name += cat("-filter", of.filter);
  if (of.exclude > 0) name += cat("-exclude", of.exclude);
  return name;
}

void add_settings(const Context& context, const RetrieveOptions& of, const Index& index,
                  int64_t users, int64_t probes, BenchResult& result) {
  const bool cpu = context.device == Device::kCpu;
  result.settings = {{"items", of.items},
                     {"dim", of.dim},
                     {"users", users},
                     {"top_k", of.top_k},
                     {"dtype", std::string(name_of(of.dtype))},
                     {"kind", std::string(name_of(of.kind))},
                     {"similarity", std::string(name_of(of.similarity))},
                     {"filter", of.filter},
                     {"exclude", of.exclude},
                     {"topics", of.topics},
                     {"device", std::string(cpu ? "cpu" : "cuda")},
                     {"threads", threads_of(context)},
                     {"clock", std::string(by_cpu_time(context) ? "cpu" : "wall")}};
  if (cpu) result.settings.push_back({"kernel", std::string(index.kernel().name)});
  if (of.kind == IndexKind::kIvfFlat) result.settings.push_back({"probes", probes});
}

void add_shares(const RetrieveOptions& of, const Context& context, const Index& index,
                const Limits& limits, int64_t users, double seconds, BenchResult& result) {
  result.ceilings = {{"memory_bytes_per_second", limits.bytes_per_second},
                     {"arithmetic_flops_per_second", limits.flops_per_second}};
  if (of.kind != IndexKind::kFlat) return;
  const int64_t element = context.device == Device::kCpu ? index.kernel().element_bytes
                          : of.dtype == DType::kInt8     ? 1
                          : of.dtype == DType::kF32      ? 4
                                                         : 2;
  const double elements = static_cast<double>(of.items) * static_cast<double>(of.dim),
               product = 2.0 * elements * static_cast<double>(users) / limits.flops_per_second,
               read = elements * static_cast<double>(element) / limits.bytes_per_second;
  result.ceilings.push_back({"floor_seconds", std::max(product, read)});
  result.shares = {{"of the product limit", product / seconds},
                   {"of the memory limit", read / seconds},
                   {"of the floor", std::max(product, read) / seconds}};
}

// What is measured, the same for all numbers of users. `exact` is null for a flat index.
struct Measured {
  const Index& index;
  const Index* exact;
  double build_seconds;
  Limits limits;
  const std::vector<float>& queries;
  const Exclusions& excluded;
};

double usual_seconds(const Context& context, const SearchTimes& times) {
  return median_of(by_cpu_time(context) ? times.cpu : times.wall).value;
}

std::vector<std::vector<ScoredItem>> answers_of(const Context& context, const RetrieveOptions& of,
                                                const Index& index,
                                                const std::vector<float>& queries, int64_t wanted,
                                                int64_t probes, const Exclusions& excluded) {
  const int64_t count = std::min(wanted, static_cast<int64_t>(queries.size()) / of.dim);
  return index.search(context, {queries.data(), count, of.dim},
                      search_options(of, probes, excluded, 0, count));
}

// Of the first kRecallQueries.
double recall_in(const Context& context, const RetrieveOptions& of, const Measured& measured,
                 int64_t probes) {
  const auto answers = [&](const Index& index) {
    return answers_of(context, of, index, measured.queries, kRecallQueries, probes,
                      measured.excluded);
  };
  return recall_of(answers(measured.index), answers(*measured.exact));
}

BenchResult measure(const Context& context, const RetrieveOptions& of, const Measured& measured,
                    int64_t users, int64_t probes) {
  std::vector<TimedSearches> searches;  // those that count, and those that they are compared with
  const auto add = [&](const Index& index, const Exclusions& excluded) {
    searches.emplace_back(context, of, index, measured.queries, users, probes, excluded);
    return searches.size() - 1;
  };
  const bool excludes = !measured.excluded.empty();
  add(measured.index, measured.excluded);
  const size_t flat = measured.exact != nullptr ? add(*measured.exact, measured.excluded) : 0,
               plain = excludes ? add(measured.index, {}) : 0;
  time_by_turns(searches, of.seconds);
  const SearchTimes& times = searches.front().times();
  const double usual = usual_seconds(context, times),
               seconds = *std::ranges::min_element(by_cpu_time(context) ? times.cpu : times.wall);
  BenchResult result = begin_result("retrieve", name_of(of, users, probes));
  add_settings(context, of, measured.index, users, probes, result);
  result.metrics = {
      {"queries_per_second", {static_cast<double>(users) / usual, "queries/s", Better::kHigher}},
      {"search_seconds", {usual, "s", Better::kLower}},
      {"best_search_seconds", {seconds, "s", Better::kLower}},
      {"wall_seconds_p50", {median_of(times.wall).value, "s", Better::kLower}},
      {"build_seconds", {measured.build_seconds, "s", Better::kLower}},
      {"index_memory", {static_cast<double>(measured.index.memory_bytes()), "B", Better::kLower}}};
  if (measured.exact != nullptr) {
    const double recall = recall_in(context, of, measured, probes),
                 flat_usual = usual_seconds(context, searches[flat].times());
    result.metrics.push_back({cat("recall_at_", of.top_k), {recall, "", Better::kHigher}});
    result.metrics.push_back({"flat_search_seconds", {flat_usual, "s", Better::kLower}});
    result.metrics.push_back({"times_flat", {flat_usual / usual, "x", Better::kHigher}});
  }
  if (excludes) {
    const double without = usual_seconds(context, searches[plain].times());
    result.metrics.push_back({"search_seconds_without_exclusion", {without, "s", Better::kLower}});
    result.metrics.push_back({"times_without_exclusion", {usual / without, "x", Better::kLower}});
  }
  add_shares(of, context, measured.index, measured.limits, users, seconds, result);
  return result;
}

void check_options(const RetrieveOptions& of) {
  EMBLEM_REQUIRE(of.items >= 1 && of.dim >= 1 && of.top_k >= 1 && of.topics >= 0,
                 "bench retrieve: items, dim and top-k must be at least 1");
  EMBLEM_REQUIRE(of.filter >= 0.0 && of.filter <= 1.0, "bench retrieve: a filter of ", of.filter,
                 " is not a share of the items, 0 to 1");
  EMBLEM_REQUIRE(of.exclude >= 0 && of.exclude < of.items, "bench retrieve: ", of.exclude,
                 " excluded items, expected fewer than the ", of.items, " items");
  EMBLEM_REQUIRE(!of.users.empty() && std::ranges::min(of.users) >= 1,
                 "bench retrieve: users must be numbers from 1 on, e.g. 1,16,64");
  EMBLEM_REQUIRE(!of.probes.empty() && std::ranges::min(of.probes) >= 1,
                 "bench retrieve: probes must be numbers from 1 on, e.g. 16,64");
}

void check_answers(const Context& context, const RetrieveOptions& of, const Catalogue& catalogue,
                   const Index& index, const std::vector<float>& queries,
                   const Exclusions& excluded) {
  const std::vector<float> checked(queries.begin(), queries.begin() + kCheckedQueries * of.dim);
  if (answers_of(context, of, index, queries, kCheckedQueries, 1, excluded) !=
      plain_search(context, of, catalogue, checked, excluded))
    throw Error(ErrorCode::kInternal,
                "bench retrieve: the index does not find the items with the best scores");
}

void write_floats(const std::string& path, const std::vector<float>& values) {
  FileWriter file(path);
  file.write(values.data(), values.size() * sizeof(float));
  file.finish();
}

}  // namespace

std::vector<BenchResult> bench_retrieve(const Context& context, const RetrieveOptions& of,
                                        const std::function<void(const BenchResult&)>& show) {
  check_options(of);
  const Catalogue catalogue(context, of);
  const auto begin = Clock::now();
  const double cpu = cpu_time();
  const auto index = catalogue.index(context, of, of.kind);
  const double build_seconds =
      by_cpu_time(context) ? cpu_time() - cpu : seconds_between(begin, Clock::now());
  const auto exact =
      of.kind == IndexKind::kFlat ? nullptr : catalogue.index(context, of, IndexKind::kFlat);
  const int64_t distinct =
      of.exclude > 0
          ? std::max(std::ranges::max(of.users), kExcludingQueries)
          : std::max({std::ranges::max(of.users), kRecallQueries, kQueryElements / of.dim / 8});
  const std::vector<float> queries = draw_vectors(context, of, kQueries, distinct);
  const Exclusions excluded =
      draw_exclusions(context, of, exact == nullptr ? *index : *exact, queries);
  if (exact == nullptr) check_answers(context, of, catalogue, *index, queries, excluded);
  if (!of.data.empty()) {
    write_floats(of.data + "/items.f32", catalogue.vectors);
    write_floats(of.data + "/queries.f32", queries);
  }
  const Measured measured{
      *index, exact.get(), build_seconds, measure_limits(context, of, *index, catalogue), queries,
      excluded};
  const std::vector<int64_t> once = {1};
  std::vector<BenchResult> results;
  for (const int64_t users : of.users) {
    for (const int64_t probes : of.kind == IndexKind::kFlat ? once : of.probes) {
      results.push_back(measure(context, of, measured, users, probes));
      show(results.back());
    }
  }
  return results;
}

}  // namespace emblem
