// Memory that is not there: a step fails before it has changed anything that was learned.
#include <gmock/gmock.h>

#include <algorithm>

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
void expect_that_steps_without_memory_can_be_repeated(const Context& context,
                                                      const config::PipelineConfig& config) {
  const Batch batch = batch_of(0, 200), next = batch_of(1, 250);
  Training whole(context, config);
  whole.learner.step(whole.feed.set(batch), 0);
  whole.learner.step(whole.feed.set(next), 0);
  const auto expected = learned(context, whole.learner);
  std::unique_ptr<Training> run;
  const int64_t allocations = fail_each_allocation(
      failing_on(context.device), [&] { run = std::make_unique<Training>(context, config); },
      [&] { return run->learner.step(run->feed.set(batch), 0).loss; },
      [&](const std::optional<double>& loss) {
        if (!loss) run->learner.step(run->feed.set(batch), 0);
        run->learner.step(run->feed.set(next), 0);
        EXPECT_EQ(learned(context, run->learner), expected);
      });
  EXPECT_GT(allocations, 5);
}

TEST_P(LearnerMemoryTest, AStepWithoutMemoryCanBeRepeated) {
  expect_that_steps_without_memory_can_be_repeated(
      context_, pipeline(model_cases().back(), "deterministic: true"));
}

// No lookup has updated its rows when another one finds no memory.
TEST_P(LearnerMemoryTest, AStepOfSeveralLookupsWithoutMemoryCanBeRepeated) {
  const std::vector<ModelCase> cases = model_cases();
  const auto deepfm = std::find_if(cases.begin(), cases.end(),
                                   [](const ModelCase& each) { return each.name == "DeepFm"; });
  ASSERT_NE(deepfm, cases.end());
  expect_that_steps_without_memory_can_be_repeated(context_,
                                                   pipeline(*deepfm, "deterministic: true"));
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
