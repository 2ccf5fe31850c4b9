// Memory that is not there: a step fails before it has changed anything that was learned.
#include <gmock/gmock.h>

#include "core/memory/failing_new_test.h"
#include "train/learner/small_learner_test.h"

namespace emblem {
namespace {

class LearnerMemoryTest : public AllocationTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(LearnerMemoryTest);

// Dense parameters, and weights and optimizer state of rows by key.
std::vector<std::vector<float>> learned(const Context& context, Learner& learner) {
  std::vector<std::vector<float>> all = {
      to_host(context, learner.model().graph().parameters()),
      to_host(context, learner.dense_parts()[0].optimizer.state())};
  for (const Table* table : learner.model().tables()) {
    table->export_rows(context, 1000, [&](const RowBatch& rows) {
      all.emplace_back(rows.weights.begin(), rows.weights.end());
      all.emplace_back(rows.states.begin(), rows.states.end());
    });
  }
  return all;
}

// The first step of a learner allocates most.
TEST_P(LearnerMemoryTest, AStepWithoutMemoryCanBeRepeated) {
  const config::PipelineConfig config = pipeline(model_cases().back(), "deterministic: true");
  const Batch batch = batch_of(0, 200), next = batch_of(1, 250);
  Training whole(context_, config);
  whole.learner.step(whole.feed.set(batch), 0);
  whole.learner.step(whole.feed.set(next), 0);
  const auto expected = learned(context_, whole.learner);
  std::unique_ptr<Training> run;
  const int64_t allocations = fail_each_allocation(
      failing_on(context_.device), [&] { run = std::make_unique<Training>(context_, config); },
      [&] { return run->learner.step(run->feed.set(batch), 0).loss; },
      [&](const std::optional<double>& loss) {
        if (!loss) run->learner.step(run->feed.set(batch), 0);
        run->learner.step(run->feed.set(next), 0);
        EXPECT_EQ(learned(context_, run->learner), expected);
      });
  EXPECT_GT(allocations, 5);
}

TEST_P(LearnerMemoryTest, ALearnerWithoutMemoryCanBeMadeAgain) {
  const config::PipelineConfig config = pipeline(model_cases().back());
  const FeatureLayout layout = layout_of(config);
  const int64_t allocations = fail_each_allocation(
      Failing::kData, [] {}, [&] { return Learner(context_, config, layout, kMaxRows).steps(); },
      [](const std::optional<int64_t>&) {});
  EXPECT_GT(allocations, 10);
}

}  // namespace
}  // namespace emblem
