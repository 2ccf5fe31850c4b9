#include "serve/engine/retrieval/index_engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "core/system/caught_error.h"
#include "core/text/joined.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

// A tensor of zeros, and where its values are.
template <class T>
std::pair<OutputTensor, T*> tensor_of(const std::string& name, DataType type, int64_t rows,
                                      int64_t cols) {
  OutputTensor tensor{name, type, {rows, cols}, {}};
  tensor.data.resize(static_cast<size_t>(rows * cols) * sizeof(T));
  T* const values = reinterpret_cast<T*>(tensor.data.data());
  return {std::move(tensor), values};
}

}  // namespace

std::vector<std::string> retrieval_outputs(const InferRequest& request,
                                           const std::vector<std::string>& all) {
  std::vector<std::string> names;
  for (const RequestedOutput& output : request.outputs) {
    EMBLEM_REQUIRE(std::ranges::count(all, output.name) == 1, "unexpected inference output '",
                   output.name, "' for model '", request.model, "'; it has ", joined(all));
    EMBLEM_REQUIRE(std::ranges::count(names, output.name) == 0, "output '", output.name,
                   "' is requested twice");
    EMBLEM_REQUIRE(output.classes == 0, "output '", output.name, "' has no classes");
    names.push_back(output.name);
  }
  return names.empty() ? all : names;
}

IndexEngine::IndexEngine(const Index& index, int64_t version, MakeTower make_tower, Device device,
                         int threads)
    : index_(index),
      version_(version),
      make_tower_(std::move(make_tower)),
      tower_(make_tower_()),
      workers_(device == Device::kCuda || threads > 1 ? make_workers(device, threads) : Workers()) {
}

void IndexEngine::release() { tower_ = make_tower_(); }

void IndexEngine::compute(std::span<EngineTask> tasks, EngineTimes& times) {
  try {
    compute_together(tasks, times);
  } catch (...) {  // they may need too much memory together
    if (tasks.size() == 1) throw;
    const auto start = times.start;
    for (EngineTask& task : tasks) {
      task.outputs.clear();
      task.error.reset();
      run({&task, 1}, times);
    }
    times.start = start;
  }
  times.output_end = Clock::now();
}

void IndexEngine::compute_together(std::span<EngineTask> tasks, EngineTimes& times) {
  std::vector<Query> queries;
  queries.reserve(tasks.size());
  for (EngineTask& task : tasks) queries.emplace_back(task);
  times.input_end = Clock::now();
  read_vectors(queries);
  for (Query& query : queries)
    if (!query.task->error) query.task->error = problem_of(query);
  search(queries);
  times.infer_end = Clock::now();
  for (Query& query : queries)
    if (!query.task->error) answer(query);
}

void IndexEngine::read_vectors(std::vector<Query>& queries) {
  std::vector<EngineTask> of_tower;
  std::vector<Query*> waiting;
  for (Query& query : queries) {
    if (const InputTensor* given = query.asked.user_vector(); given != nullptr) {
      query.vectors.resize(given->data.size() / sizeof(float));
      std::memcpy(query.vectors.data(), given->data.data(), given->data.size());
      continue;
    }
    of_tower.push_back({.request = &query.asked.features(), .rows = query.task->rows});
    waiting.push_back(&query);
  }
  if (of_tower.empty()) return;
  EngineTimes times;
  tower_->run(of_tower, times);
  for (size_t i = 0; i < waiting.size(); ++i) {
    waiting[i]->task->error = of_tower[i].error;
    if (of_tower[i].error) continue;
    const std::vector<std::byte>& bytes = of_tower[i].outputs.at(0).data;
    waiting[i]->vectors.resize(bytes.size() / sizeof(float));
    std::memcpy(waiting[i]->vectors.data(), bytes.data(), bytes.size());
    of_tower[i].outputs.clear();
  }
}

int64_t IndexEngine::vectors_of_row(const Query& query) const {
  return std::ssize(query.vectors) / index_.settings().dim / query.task->rows;
}

std::span<const float> IndexEngine::vector_of(const Query& query, int64_t number) const {
  const auto dim = static_cast<size_t>(index_.settings().dim);
  return std::span(query.vectors).subspan(static_cast<size_t>(number) * dim, dim);
}

// What Index::search would refuse all queries for.
std::optional<Error> IndexEngine::problem_of(const Query& query) const {
  const int64_t of_row = vectors_of_row(query);
  const bool needs_length = of_row == 1 && index_.settings().similarity == Similarity::kCosine;
  for (int64_t i = 0; i < query.task->rows * of_row; ++i) {
    const double length = length_of(vector_of(query, i));
    const char* const problem = !std::isfinite(length)    ? "contains NaN or infinite elements"
                                : length > kLongestVector ? "is too long to be searched with"
                                : length > 0.0 || !needs_length
                                    ? nullptr
                                    : "is all zeros, which has no cosine";
    if (problem != nullptr)
      return Error(ErrorCode::kInvalidArgument,
                   cat("row ", i / of_row, ": the vector of the user ", problem));
  }
  return std::nullopt;
}

// Queries that ask for the same are searched together.
void IndexEngine::search(std::vector<Query>& queries) {
  std::map<SearchedTogether, std::vector<Query*>> groups;
  for (Query& query : queries)
    if (!query.task->error)
      groups[{query.width, query.asked.filter(), query.asked.allow().is_given(),
              query.asked.probes()}]
          .push_back(&query);
  for (const auto& [asked, group] : groups) search(group, asked);
}

void IndexEngine::search(std::span<Query* const> queries, const SearchedTogether& asked) {
  const auto& [k, filter, is_allowed, probes] = asked;
  const int64_t dim = index_.settings().dim;
  SearchOptions options{.k = k, .probes = probes, .allow = filter};
  const bool excludes = std::ranges::any_of(
      queries, [](const Query* query) { return query->asked.exclude().is_given(); });
  std::vector<float> vectors;
  std::vector<std::vector<ScoredItem>*> places;  // of what each vector finds
  for (Query* query : queries) {
    const IdLists &exclude = query->asked.exclude(), &allow = query->asked.allow();
    query->found.resize(static_cast<size_t>(query->task->rows));
    const int64_t of_row = vectors_of_row(*query);
    for (int64_t i = 0; i < query->task->rows * of_row; ++i) {
      const std::span<const float> vector = vector_of(*query, i);
      if (of_row > 1 && length_of(vector) == 0.0) continue;
      vectors.insert(vectors.end(), vector.begin(), vector.end());
      places.push_back(&query->found[static_cast<size_t>(i / of_row)]);
      if (excludes)
        options.exclude.push_back(exclude.is_given() ? exclude.of_row(i / of_row)
                                                     : std::vector<int64_t>());
      if (is_allowed) options.only.push_back(allow.of_row(i / of_row));
    }
  }
  if (places.empty()) return;
  int64_t change = 0;
  auto found =
      index_.search(workers_.context, {vectors.data(), std::ssize(places), dim}, options, &change);
  for (Query* query : queries) query->change = change;
  for (size_t i = 0; i < places.size(); ++i) add_found(std::move(found[i]), k, *places[i]);
}

void IndexEngine::answer(Query& query) const {
  const HeapAccount::Scope paused(nullptr);  // answers are taken from the budget beforehand
  const int64_t rows = query.task->rows, width = query.width;
  const auto count_of = [&](int64_t row) {
    return std::min(query.asked.is_ranked() ? width : query.asked.top_k(row),
                    std::ssize(query.found[static_cast<size_t>(row)]));
  };
  const auto add = [&](auto made, const auto& of_item) {
    auto& [tensor, values] = made;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0, count = count_of(row); i < width; ++i)
        values[row * width + i] =
            of_item(i < count ? query.found[static_cast<size_t>(row)][static_cast<size_t>(i)]
                              : ScoredItem{.score = 0.0f, .id = kNoItem});
    query.task->outputs.push_back(std::move(tensor));
  };
  for (const std::string& name : retrieval_outputs(*query.task->request)) {
    if (name == kFoundIds) {
      add(tensor_of<int64_t>(name, DataType::kInt64, rows, width),
          [](const ScoredItem& item) { return item.id; });
    } else if (name == kFoundScores) {
      add(tensor_of<float>(name, DataType::kFp32, rows, width),
          [](const ScoredItem& item) { return item.score; });
    } else {
      auto [tensor, counts] = tensor_of<int64_t>(name, DataType::kInt64, rows, 1);
      for (int64_t row = 0; row < rows; ++row) counts[row] = count_of(row);
      query.task->outputs.push_back(std::move(tensor));
    }
  }
  query.task->parameters = {{"index_version", version_}, {"index_change", query.change}};
}

}  // namespace emblem
