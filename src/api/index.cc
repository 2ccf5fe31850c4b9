#include "emblem/index.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "api/chosen.h"
#include "api/compute.h"
#include "retrieval/index.h"

namespace emblem::api {
namespace {

IndexSettings settings_of(const IndexOptions& options) {
  const char* const where = "index";
  return {
      .dim = options.dim,
      .similarity = chosen<Similarity>(
          where, "similarity", options.similarity,
          {{"inner_product", Similarity::kInnerProduct}, {"cosine", Similarity::kCosine}}),
      .dtype = chosen<DType>(where, "value_type", options.value_type,
                             {{"fp32", DType::kF32},
                              {"fp16", DType::kF16},
                              {"bf16", DType::kBf16},
                              {"int8", DType::kInt8}}),
      .kind = chosen<IndexKind>(where, "kind", options.kind,
                                {{"flat", IndexKind::kFlat}, {"ivf_flat", IndexKind::kIvfFlat}}),
      .lists = options.lists,
      .probes = options.probes,
      .attributes = options.attributes,
      .seed = options.seed};
}

// The options of an index that was loaded.
IndexOptions options_of(const IndexSettings& settings, const IndexOptions& given) {
  return {.dim = settings.dim,
          .similarity = name_of(settings.similarity),
          .value_type = name_of(settings.dtype),
          .kind = name_of(settings.kind),
          .lists = settings.lists,
          .probes = settings.probes,
          .seed = settings.seed,
          .attributes = settings.attributes,
          .device = given.device,
          .threads = given.threads};
}

int64_t rows_of(const char* what, std::span<const float> vectors, int64_t dim) {
  EMBLEM_REQUIRE(std::ssize(vectors) % dim == 0, "index: ", what, " have ", vectors.size(),
                 " floats, not a multiple of dim, ", dim);
  return std::ssize(vectors) / dim;
}

}  // namespace

struct Index::State {
  State(const IndexOptions& given, std::unique_ptr<emblem::Index> made, Workers opened)
      : options(given), workers(std::move(opened)), index(std::move(made)) {}

  void add(const IndexedItems& items, Existing existing) {
    const int64_t rows = rows_of("vectors", items.vectors, options.dim);
    EMBLEM_REQUIRE(std::ssize(items.ids) == rows, "index: ", items.ids.size(), " ids and ", rows,
                   " vectors; expected a vector for each id");
    EMBLEM_REQUIRE(items.attributes.empty() || items.attributes.size() == items.ids.size(),
                   "index: ", items.ids.size(), " ids and ", items.attributes.size(),
                   " numbers of attributes; expected one for each id, or none");
    if (rows == 0) return;
    const std::lock_guard lock(mutex);
    index->add(workers.context,
               {items.ids, {items.vectors.data(), rows, options.dim}, items.attributes}, existing);
  }

  const IndexOptions options;
  const Workers workers;
  const std::unique_ptr<emblem::Index> index;
  std::mutex mutex;  // held by calls that compute
};

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}

Index::Index(const IndexOptions& options)
    : state_(std::make_unique<State>(options, std::make_unique<emblem::Index>(settings_of(options)),
                                     open_workers(options.device, options.threads))) {
  EMBLEM_REQUIRE(options.device == "cpu" || options.kind == "flat",
                 "index: kind ivf_flat is searched on a CPU; use the device cpu, or kind flat");
}

Index Index::load(const std::string& folder, const IndexOptions& options) {
  Workers workers = open_workers(options.device, options.threads);
  auto index = emblem::Index::load(workers.context, folder);
  const IndexOptions loaded = options_of(index->settings(), options);
  return Index(std::make_unique<State>(loaded, std::move(index), std::move(workers)));
}

Index::~Index() = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;

const IndexOptions& Index::options() const { return state_->options; }
int64_t Index::size() const { return state_->index->count(); }
int64_t Index::bytes() const { return state_->index->memory_bytes(); }

void Index::add(const IndexedItems& items) { state_->add(items, Existing::kRefuse); }
void Index::replace(const IndexedItems& items) { state_->add(items, Existing::kReplace); }
void Index::remove(std::span<const int64_t> ids) {
  if (!ids.empty()) state_->index->remove(ids);
}

void Index::rebuild() {
  const std::lock_guard lock(state_->mutex);
  state_->index->rebuild(state_->workers.context);
}

FoundItems Index::search(std::span<const float> queries, const IndexSearch& search) const {
  const int64_t dim = state_->options.dim, rows = rows_of("queries", queries, dim);
  std::vector<std::vector<ScoredItem>> best;
  FoundItems found;
  {
    const std::lock_guard lock(state_->mutex);
    best = state_->index->search(state_->workers.context, {queries.data(), rows, dim},
                                 {.k = search.k,
                                  .probes = search.probes,
                                  .exclude = search.exclude,
                                  .allow = search.filter,
                                  .only = search.allow});
    found.width = std::min(search.k, size());
  }
  for (const auto& items : best) found.width = std::max(found.width, std::ssize(items));
  found.ids.assign(static_cast<size_t>(rows * found.width), -1);
  found.scores.assign(found.ids.size(), std::numeric_limits<float>::quiet_NaN());
  for (size_t row = 0; row < best.size(); ++row) {
    found.count.push_back(std::ssize(best[row]));
    size_t at = row * static_cast<size_t>(found.width);
    for (const ScoredItem& item : best[row]) {
      found.ids[at] = item.id;
      found.scores[at++] = item.score;
    }
  }
  return found;
}

void Index::save(const std::string& folder) const { state_->index->save(folder); }

}  // namespace emblem::api
