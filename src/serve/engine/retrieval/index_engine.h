// serve/engine/retrieval/index_engine.h - runs the tower of users on requests, and searches an
// index with their vectors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/device/workers.h"
#include "retrieval/index.h"
#include "serve/engine/retrieval/retrieval_request.h"
#include "serve/engine/servable.h"

namespace emblem {

inline constexpr const char* kFoundIds = "ids";
inline constexpr const char* kFoundScores = "scores";
inline constexpr const char* kFoundCount = "count";
inline constexpr const char* kRankScores = "rank_scores";  // of requests with then_rank
// What rows have behind the items that were found; their scores are 0.
inline constexpr int64_t kNoItem = -1;

// What the answer to a request consists of, in its order: what it names of `all`, or all. Throws
// kInvalidArgument for others, for a name that is given twice, and for classes.
std::vector<std::string> retrieval_outputs(const InferRequest& request,
                                           const std::vector<std::string>& all = {
                                               kFoundIds, kFoundScores, kFoundCount});

class IndexEngine final : public Engine {
 public:
  using MakeTower = std::function<std::unique_ptr<Engine>()>;

  // `index` is borrowed. The engines that `make_tower` makes have the vectors as their only output,
  // one or several for each row, and no budget: what they allocate is taken from the one of this
  // engine. With several vectors an item counts with its best score, and vectors of zeros are none.
  // Searches on `device`, which is that of the index.
  IndexEngine(const Index& index, int64_t version, MakeTower make_tower, Device device,
              int threads);

 protected:
  void compute(std::span<EngineTask> tasks, EngineTimes& times) override;
  void release() override;

 private:
  // A request on its way.
  struct Query {
    explicit Query(EngineTask& task)
        : task(&task), asked(*task.request), width(asked.most_found(task.rows)) {}

    EngineTask* task;
    RetrievalRequest asked;
    int64_t width;               // columns of the outputs
    std::vector<float> vectors;  // [rows, vectors of a row, dim]
    std::vector<std::vector<ScoredItem>> found;
    int64_t change = 0;  // the last one of the index that its search has seen
  };

  // k, attributes, whether allowed ids alone are searched, and lists that are.
  using SearchedTogether =
      std::tuple<int64_t, std::vector<std::string>, bool, std::optional<int64_t>>;

  void compute_together(std::span<EngineTask> tasks, EngineTimes& times);
  void read_vectors(std::vector<Query>& queries);
  int64_t vectors_of_row(const Query& query) const;
  std::span<const float> vector_of(const Query& query, int64_t number) const;
  std::optional<Error> problem_of(const Query& query) const;
  void search(std::vector<Query>& queries);
  void search(std::span<Query* const> queries, const SearchedTogether& asked);
  void answer(Query& query) const;

  const Index& index_;
  const int64_t version_;
  const MakeTower make_tower_;
  std::unique_ptr<Engine> tower_;
  const Workers workers_;
};

}  // namespace emblem
