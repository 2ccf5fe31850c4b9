#include "serve/repository/ranked_search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

#include "core/system/caught_error.h"
#include "emblem/error.h"
#include "serve/engine/request_sequence.h"
#include "serve/engine/retrieval/index_engine.h"
#include "serve/engine/retrieval/retrieval_request.h"

namespace emblem {
namespace {

template <class T>
std::vector<T> values_of_output(const InferResponse& response, const std::string& name) {
  const auto found = std::ranges::find(response.outputs, name, &OutputTensor::name);
  EMBLEM_REQUIRE(found != response.outputs.end(), "the answer has no output ", name);
  std::vector<T> values(found->data.size() / sizeof(T));
  std::memcpy(values.data(), found->data.data(), found->data.size());
  return values;
}

// Of an item on its way: its id, its columns, its score, its place in the order.
constexpr size_t kBytesOfItem =
    sizeof(FoundItem) + sizeof(std::string_view) + 2 * sizeof(int64_t) + sizeof(float);

template <class T>
OutputTensor output_of(const std::string& name, DataType type, int64_t rows,
                       const std::vector<T>& values) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return {name,
          type,
          {rows, std::ssize(values) / rows},
          std::vector<std::byte>(bytes.begin(), bytes.end())};
}

}  // namespace

// Scores of all items, as they come from the requests for parts of them.
struct RankedSearch::Ranking {
  explicit Ranking(size_t items) : scores(items) {}

  // Whether this was the last of the parts.
  bool end_one() { return --left == 0; }

  std::mutex mutex;
  std::vector<float> scores;
  int64_t version = 0;
  std::optional<Error> error;  // the first
  std::atomic<int64_t> left = 1;
};

RankedSearch::RankedSearch(const InferRequest& request, FindModel find, MemoryBudget* memory,
                           InferDone done)
    : request_(request),
      find_(std::move(find)),
      memory_(memory),
      done_(std::move(done)),
      outputs_(retrieval_outputs(request_, {kFoundIds, kFoundScores, kFoundCount, kRankScores})) {}

// Errors of the ranking model are not those of the model that the request names.
void RankedSearch::fail_ranking(const Error& error) const {
  throw Error(error.code(), cat("then_rank: ", error.what()));
}

void RankedSearch::prepare(std::shared_ptr<ModelVersion> model) {
  if (model->servable().stored_columns() != nullptr)
    throw Error(ErrorCode::kInvalidArgument, cat("model '", request_.then_rank,
                                                 "' has an index of items; name a model that "
                                                 "ranks"));
  output_ = rank_output_of(model->servable(), request_.rank_output);
  inputs_.emplace(request_, model->servable(), output_, *columns_);
  model_ = std::move(model);
}

std::unique_ptr<InferRequest> RankedSearch::search_with(const ModelVersion& index) {
  columns_ = index.servable().stored_columns();
  if (columns_ == nullptr)
    throw Error(ErrorCode::kInvalidArgument, cat("model '", request_.model,
                                                 "' has no index of items, whose items parameter "
                                                 "then_rank could have ranked"));
  try {
    prepare(find_(request_.then_rank));
  } catch (const Error& error) {
    fail_ranking(error);
  }
  const std::vector<TensorMetadata> of_tower = index.servable().inputs();
  const bool has_vectors = std::ranges::any_of(
      request_.inputs, [](const InputTensor& tensor) { return tensor.name == kUserVector; });
  auto search = std::make_unique<InferRequest>(request_);
  search->outputs.clear();
  std::erase_if(search->inputs, [&](const InputTensor& tensor) {
    const bool is_of_tower = std::ranges::any_of(of_tower, [&](const TensorMetadata& input) {
      return tensor.name == input.name || RequestSequence::is_companion(tensor.name, input.name);
    });
    return inputs_->reads(tensor.name) && (has_vectors || !is_of_tower);
  });
  return search;
}

void RankedSearch::rank(InferResult found) noexcept {
  try {
    if (const auto* error = std::get_if<Error>(&found)) return done_(*error);
    read(std::get<InferResponse>(std::move(found)));
    // A version that was closed has a successor, unless it was unloaded.
    while (!submit()) {
      try {
        prepare(find_(request_.then_rank));
      } catch (const Error& error) {
        fail_ranking(error);
      }
    }
  } catch (...) {
    done_(caught_error());
  }
}

void RankedSearch::read(InferResponse found) {
  found_ = std::move(found);
  size_t bytes = 0, rows_bytes = 0;
  for (const OutputTensor& output : found_.outputs) {
    bytes += output.data.size();
    if (output.name == kFoundIds) rows_bytes = output.data.size();
  }
  lease_ = lease_of(memory_);
  lease_.grow(bytes + rows_bytes / sizeof(int64_t) * kBytesOfItem);
  ids_ = values_of_output<int64_t>(found_, kFoundIds);
  scores_ = values_of_output<float>(found_, kFoundScores);
  counts_ = values_of_output<int64_t>(found_, kFoundCount);
  found_.outputs.clear();
  const int64_t rows = std::ssize(counts_);
  width_ = std::ssize(ids_) / rows;
  inputs_->check_rows(rows);
  std::vector<int64_t> ids;
  for (int64_t row = 0; row < rows; ++row) {
    items_.insert(items_.end(), static_cast<size_t>(counts_[row]), FoundItem{.user = row});
    ids.insert(ids.end(), ids_.begin() + row * width_, ids_.begin() + row * width_ + counts_[row]);
  }
  const auto change =
      std::ranges::find(found_.parameters, "index_change", &ResponseParameters::value_type::first);
  const std::vector<std::string_view> texts = columns_->find(ids, change->second);
  for (size_t i = 0; i < items_.size(); ++i) items_[i].texts = texts[i];
}

std::unique_ptr<InferRequest> RankedSearch::rank_request(std::span<const FoundItem> items) const {
  auto asked = std::make_unique<InferRequest>();
  asked->model = request_.then_rank;
  asked->outputs = {{output_}};
  asked->timeout_us = request_.timeout_us;
  asked->cancelled = request_.cancelled;
  inputs_->fill(*asked, items, memory_);
  return asked;
}

// False, with nothing answered, where the version does not take all items.
bool RankedSearch::submit() {
  const std::shared_ptr<ModelVersion> model = std::move(model_);
  const auto ranking = std::make_shared<Ranking>(items_.size());
  ranking->version = model->number();
  const int64_t most = model->max_batch_rows();
  const size_t part = most > 0 ? static_cast<size_t>(most) : std::max<size_t>(1, items_.size());
  for (size_t begin = 0; begin < items_.size(); begin += part) {
    const auto items = std::span(items_).subspan(begin, std::min(part, items_.size() - begin));
    auto asked = rank_request(items);
    ++ranking->left;
    InferDone done = [self = shared_from_this(), ranking, begin](InferResult result) {
      {
        const std::lock_guard lock(ranking->mutex);
        if (const auto* error = std::get_if<Error>(&result)) {
          if (!ranking->error) ranking->error = *error;
        } else {
          const OutputTensor& output = std::get<InferResponse>(result).outputs[0];
          std::memcpy(ranking->scores.data() + begin, output.data.data(), output.data.size());
        }
      }
      if (ranking->end_one()) self->finish(*ranking);
    };
    if (!model->infer(asked, done)) return false;  // the last part never ends
  }
  if (ranking->end_one()) finish(*ranking);
  return true;
}

// The best top_k of each row by their ranking scores; equal ones stay in the order of the search.
void RankedSearch::finish(const Ranking& ranking) noexcept {
  try {
    if (ranking.error) fail_ranking(*ranking.error);
    const RetrievalRequest asked(request_);
    const int64_t rows = std::ssize(counts_), width = asked.most_top_k(rows);
    MemoryBudget::Lease lease = lease_of(memory_);
    constexpr size_t kOfItem = sizeof(int64_t) + 2 * sizeof(float);
    lease.grow(2 * static_cast<size_t>(rows) *
               (static_cast<size_t>(width) * kOfItem + sizeof(int64_t)));
    const auto size = static_cast<size_t>(rows * width);
    std::vector<int64_t> ids(size, kNoItem), counts;
    std::vector<float> scores(size), rank_scores(size);
    const auto is_before = [&](int64_t a, int64_t b) {
      const float of_a = ranking.scores[a], of_b = ranking.scores[b];
      return std::isnan(of_b) ? !std::isnan(of_a) : of_a > of_b;
    };
    std::vector<int64_t> order;
    for (int64_t row = 0, first = 0; row < rows; first += counts_[row++]) {
      order.resize(static_cast<size_t>(counts_[row]));
      std::iota(order.begin(), order.end(), first);
      std::ranges::stable_sort(order, is_before);
      const int64_t count = std::min(asked.top_k(row), counts_[row]);
      counts.push_back(count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t from = row * width_ + order[i] - first, to = row * width + i;
        ids[to] = ids_[from];
        scores[to] = scores_[from];
        rank_scores[to] = ranking.scores[order[i]];
      }
    }
    for (const std::string& name : outputs_)
      found_.outputs.push_back(
          name == kFoundIds      ? output_of(name, DataType::kInt64, rows, ids)
          : name == kFoundScores ? output_of(name, DataType::kFp32, rows, scores)
          : name == kFoundCount  ? output_of(name, DataType::kInt64, rows, counts)
                                 : output_of(name, DataType::kFp32, rows, rank_scores));
    found_.parameters.emplace_back("rank_version", ranking.version);
    found_.memory = std::make_shared<MemoryBudget::Lease>(std::move(lease));
    done_(std::move(found_));
  } catch (...) {
    done_(caught_error());
  }
}

}  // namespace emblem
