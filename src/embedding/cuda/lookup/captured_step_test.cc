// Steps that are captured once in a CUDA graph and replayed with other keys, gradients and values.
#include <gmock/gmock.h>

#include <algorithm>

#include "core/device/cuda_graph.h"
#include "core/device/stream.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

constexpr int64_t kBags = 300, kMostBags = 70000;
constexpr int64_t kWordsABag = 3;

// Tables of every kind, and a batch at a fixed place in memory.
class Model {
 public:
  explicit Model(const Context& context) : context_(context) {
    add({.name = "lru",
         .dim = 8,
         .kind = TableKind::kDynamic,
         .capacity = 900,
         .eviction = Eviction::kLru,
         .rule = Adam{}});
    add({.name = "cached",
         .dim = 4,
         .kind = TableKind::kDynamic,
         .capacity = 900,
         .eviction = Eviction::kStep,
         .rule = AdaGrad{},
         .placement = Placement::kCache,
         .device_bytes = 300 * 32});
    add({.name = "words",
         .dim = 3,
         .kind = TableKind::kDynamic,
         .admission_threshold = 2,
         .rule = Momentum{.dampening = 0.5f},
         .l2 = 0.01f,
         .l2_on_all_rows = true});
    add({.name = "static", .dim = 8, .capacity = 500, .rule = RowWiseAdaGrad{}});
    add({.name = "growing", .dim = 2, .kind = TableKind::kDynamic});
    std::vector<LookupFeature> features;
    for (const auto& table : tables_) features.push_back({table.get(), Pooling::kMean});
    lookup_ = make_lookup(context, features, settings_of_suite(Sums::kDeterministic));
    for (auto* keys : {&keys_, &next_keys_}) {
      for (size_t f = 0; f < tables_.size(); ++f)
        keys->emplace_back(context.device, kMostBags * (f == kWords ? kWordsABag : 1));
    }
    std::vector<int32_t> offsets(kMostBags + 1);
    for (int64_t b = 0; b <= kMostBags; ++b) offsets[b] = static_cast<int32_t>(b * kWordsABag);
    offsets_ = Buffer<int32_t>::from(context, offsets);
    out_ = Buffer<float>(context.device, kMostBags, lookup_->width());
    gradients_ = Buffer<float>(context.device, kMostBags, lookup_->width());
  }

  // Keys and gradients of a step, and the keys of the next.
  void load(int step, int64_t bags) {
    for (size_t f = 0; f < tables_.size(); ++f) {
      copy(draw_keys(step, f, bags), keys_[f]);
      copy(draw_keys(step + 1, f, kBags), next_keys_[f]);
    }
    Random random{.seed = 31, .stream = static_cast<uint64_t>(step)};
    std::vector<float> gradients(bags * lookup_->width());
    for (float& gradient : gradients) gradient = random.normal();
    copy(gradients, gradients_);
  }
  void forward(int64_t bags) {
    lookup_->forward(context_, features(keys_, bags), Phase::kTrain, part(out_, bags));
    lookup_->prefetch(context_, features(next_keys_, kBags));
  }
  void backward(int64_t bags, const StepScalars& with) {
    lookup_->backward(context_, part(gradients_, bags), with.scale, with.learning_rate, with.step);
  }
  void set_step(const StepScalars& scalars) { lookup_->set_step(context_, scalars); }
  void backward_as_set(int64_t bags) { lookup_->backward_as_set(context_, part(gradients_, bags)); }
  std::vector<float> output(int64_t bags) {
    lookup_->check(context_);
    std::vector<float> out = out_.to_host(context_);
    out.resize(bags * lookup_->width());
    return out;
  }
  std::vector<LookupCounts> take_counts() { return lookup_->take_counts(context_); }
  std::vector<Content> content() const {
    std::vector<Content> all;
    for (const auto& table : tables_) all.push_back(content_of(context_, *table));
    return all;
  }

 private:
  static constexpr size_t kWords = 2, kGrowing = 4;

  void add(TableSettings settings) { tables_.push_back(make_table(context_, std::move(settings))); }
  template <class T>
  void copy(const std::vector<T>& from, Buffer<T>& to) {
    detail::copy(context_, to.data(), from.data(), from.size() * sizeof(T));
    context_.synchronize();
  }
  // Keys move on with the steps, so that some leave. A large batch brings many new ones.
  static std::vector<int64_t> draw_keys(int step, size_t feature, int64_t bags) {
    Random random{.seed = 30 + feature, .stream = static_cast<uint64_t>(step)};
    std::vector<int64_t> keys(bags * (feature == kWords ? kWordsABag : 1));
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = static_cast<int64_t>(random.below(400)) + (feature == 3 ? 0 : 30 * step);
      if (feature == kGrowing && bags > kBags) keys[i] = static_cast<int64_t>(1000000 + i);
    }
    return keys;
  }
  std::vector<FeatureKeys> features(std::vector<Buffer<int64_t>>& keys, int64_t bags) {
    std::vector<FeatureKeys> all(keys.size());
    for (size_t f = 0; f < keys.size(); ++f) {
      all[f].keys = {keys[f].data(), f == kWords ? bags * kWordsABag : bags, 1, context_.device};
      if (f == kWords) all[f].offsets = {offsets_.data(), bags + 1, 1, context_.device};
    }
    return all;
  }
  View<float> part(Buffer<float>& of, int64_t bags) {
    return {of.data(), bags, lookup_->width(), context_.device};
  }

  Context context_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<Buffer<int64_t>> keys_, next_keys_;
  Buffer<int32_t> offsets_;
  Buffer<float> out_, gradients_;
  std::unique_ptr<Lookup> lookup_;
};

StepScalars values_at(int step) {
  return {.scale = 1.0f / static_cast<float>(step),
          .learning_rate = 0.1f / static_cast<float>(1 + step % 4),
          .step = step};
}
constexpr int kSteps = 16, kLargeStep = 12;
int64_t bags_at(int step) { return step == kLargeStep ? kMostBags : kBags; }

struct CapturedStepTrained {
  std::vector<std::vector<float>> outputs;
  std::vector<Content> content;
  std::vector<LookupCounts> counts;
};

CapturedStepTrained train_launched(const Context& context) {
  Model model(context);
  CapturedStepTrained trained;
  for (int step = 1; step <= kSteps; ++step) {
    model.load(step, bags_at(step));
    model.forward(bags_at(step));
    model.backward(bags_at(step), values_at(step));
    trained.outputs.push_back(model.output(bags_at(step)));
  }
  trained.content = model.content();
  trained.counts = model.take_counts();
  return trained;
}

class CapturedStepTest : public DeviceTest {};
EMBLEM_TEST_TRANSFERS_TOO(CapturedStepTest);

TEST_P(CapturedStepTest, BackwardAsSetIsBackwardWithTheValuesSet) {
  const CapturedStepTrained expected = train_launched(context_);
  Model model(context_);
  for (int step = 1; step <= kSteps; ++step) {
    model.load(step, bags_at(step));
    model.set_step(values_at(step));
    model.forward(bags_at(step));
    model.backward_as_set(bags_at(step));
    EXPECT_EQ(model.output(bags_at(step)), expected.outputs[step - 1]) << "step " << step;
  }
  EXPECT_EQ(model.content(), expected.content);
}

// The first two steps are launched, and make the memory; so is a large one, for which tables and
// memory grow after the capture.
TEST_P(CapturedStepTest, ACapturedStepTrainsLikeALaunchedOne) {
  dispatch(
      GetParam(), [] { GTEST_SKIP() << "graphs are of a GPU"; },
      [&] {
        const cuda::Stream stream;
        context_.stream = stream.get();
        const CapturedStepTrained expected = train_launched(context_);
        Model model(context_);
        std::unique_ptr<cuda::CudaGraph> graph;
        for (int step = 1; step <= kSteps; ++step) {
          model.load(step, bags_at(step));
          if (step <= 2 || step == kLargeStep) {
            model.forward(bags_at(step));
            model.backward(bags_at(step), values_at(step));
          } else {
            if (!graph) {
              graph = std::make_unique<cuda::CudaGraph>(context_, [&] {
                model.forward(kBags);
                model.backward_as_set(kBags);
              });
            }
            model.set_step(values_at(step));
            graph->launch(context_);
          }
          ASSERT_EQ(model.output(bags_at(step)), expected.outputs[step - 1]) << "step " << step;
        }
        EXPECT_EQ(model.content(), expected.content);
        EXPECT_EQ(model.take_counts(), expected.counts);
      });
}

// A replayed pass cannot make room for more keys that wait; it says so, and nothing is lost but the
// counts of those keys.
TEST_P(CapturedStepTest, AReplayThatRunsOutOfRoomSaysSo) {
  dispatch(
      GetParam(), [] { GTEST_SKIP() << "graphs are of a GPU"; },
      [&] {
        const cuda::Stream stream;
        context_.stream = stream.get();
        const auto table = make_table(
            context_,
            {.name = "t", .dim = 1, .kind = TableKind::kDynamic, .admission_threshold = 2});
        const LookupFeature feature{table.get()};
        const auto lookup = make_lookup(context_, {&feature, 1}, settings_of_suite(Sums::kFast));
        constexpr int64_t kKeys = 30000;
        Buffer<int64_t> keys(Device::kCuda, kKeys);
        Buffer<float> out(Device::kCuda, kKeys);
        FeatureKeys of;
        of.keys = keys.view();
        const auto forward = [&] {
          lookup->forward(context_, {&of, 1}, Phase::kTrain, out.view());
        };
        const auto load = [&](int64_t first) {
          std::vector<int64_t> values(kKeys);
          for (int64_t i = 0; i < kKeys; ++i) values[i] = first + i;
          detail::copy(context_, keys.data(), values.data(), kKeys * sizeof(int64_t));
          context_.synchronize();
        };
        load(0);
        forward();
        const cuda::CudaGraph graph(context_, forward);
        load(kKeys);
        graph.launch(context_);
        lookup->check(context_);
        EXPECT_EQ(static_cast<int64_t>(table->export_admission().size()), 2 * kKeys);
        load(2 * kKeys);
        graph.launch(context_);
        EXPECT_THAT([&] { lookup->check(context_); },
                    testing::ThrowsMessage<Error>(
                        testing::HasSubstr("could not be counted for admission")));
        forward();  // outside of the graph there is room
        lookup->check(context_);
        const std::vector<KeyCount> waiting = table->export_admission();
        EXPECT_EQ(static_cast<int64_t>(waiting.size()) + table->size(), 3 * kKeys);
      });
}

}  // namespace
}  // namespace emblem
