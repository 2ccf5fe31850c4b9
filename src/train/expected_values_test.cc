// Outputs, losses and training steps of every model against an independent implementation: PyTorch,
// from the formulas, in fp64. tests/peers/write_expected.py wrote the files (`make peers`).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/safetensors.h"
#include "config/feature/items.h"
#include "config/load/load.h"
#include "core/device/device_test.h"
#include "core/files/file.h"
#include "data/loader/loader.h"
#include "model/check/check.h"
#include "model/lookup/feed.h"
#include "train/learner/learner.h"
#include "train/state/dense_values.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = EMBLEM_EXPECTED_VALUES;

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder))
    if (entry.path().extension() == ".config") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

// The items of `drawn`, a batch of rows, become those that a sampler has drawn for `batch`.
void add_negatives(const Batch& drawn, size_t items, Batch& batch) {
  for (size_t i = 0; i < batch.sparse.size(); ++i) {
    SparseColumn& column = batch.sparse[i];
    if (column.sequence != static_cast<int32_t>(items)) continue;
    ASSERT_TRUE(column.offsets.empty()) << "an item has one value of each feature";
    column.keys.insert(column.keys.end(), drawn.sparse[i].keys.begin(), drawn.sparse[i].keys.end());
  }
  SequenceColumn& to = batch.sequences[items];
  const SequenceColumn& from = drawn.sequences[items];
  to.numbers.insert(to.numbers.end(), from.numbers.begin(), from.numbers.end());
  to.offsets.back() += static_cast<int32_t>(drawn.rows);
}

// The files of a case: a pipeline, rows, those of negatives where it samples some, and tensors of
// before ("first.") and after ("last.") training.
struct Expected {
  explicit Expected(const std::string& name)
      : rows(kFolder + "/" + name + ".csv"),
        negatives(kFolder + "/" + name + ".negatives.csv"),
        config(parse_pipeline(cat(read_text_file(kFolder + "/" + name + ".config"),
                                  "train_input_path: '", rows, "' model_dir: 'none'"),
                              name)),
        file(kFolder + "/" + name + ".safetensors") {
    for (const TensorRef& tensor : file.tensors()) unused.insert(tensor.name);
  }

  std::vector<float> read(const std::string& name) {
    std::vector<float> values(static_cast<size_t>(file.find(name).elements()));
    file.read<float>(name, values);
    unused.erase(name);
    return values;
  }

  std::string rows, negatives;
  config::PipelineConfig config;
  SafetensorsFile file;
  std::set<std::string> unused;  // tensors that nothing was compared with
};

// Rounding of fp32 is relative to the largest value of a tensor, whose parts are summed up.
void expect_close(const std::string& what, std::span<const float> actual,
                  const std::vector<float>& expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float largest = 0.0f, difference = 0.0f;
  size_t where = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const float here = std::abs(actual[i] - expected[i]);
    if (!(here <= difference)) difference = here, where = i;
  }
  if (actual.empty()) return;
  EXPECT_LE(difference, tolerance * largest)
      << what << "[" << where << "] is " << actual[where] << ", expected " << expected[where]
      << " (largest " << largest << ")";
}

class ExpectedValuesTest : public testing::TestWithParam<std::tuple<std::string, Device>> {
 protected:
  void SetUp() override {
    context_.device = std::get<1>(GetParam());
    context_.threads = &pool_;
    if (!device_is_usable(context_.device)) GTEST_SKIP() << "no CUDA device here";
    stream_ = use_own_stream(context_);
  }

  // A GPU sums in another order and has fused multiplications: errors grow a little faster over
  // the steps.
  float tolerance() const { return context_.device == Device::kCpu ? 1e-5f : 5e-5f; }

  std::vector<Batch> read(const config::PipelineConfig& config, const FeatureLayout& layout,
                          const LoaderOptions& options) {
    Loader loader(config.data_config(), layout, options);
    std::vector<Batch> batches(1);
    while (loader.next(batches.back())) batches.emplace_back();
    batches.pop_back();
    return batches;
  }

  std::vector<Batch> batches(Expected& expected, const FeatureLayout& layout) {
    LoaderOptions options = evaluation_loader_options(expected.config);
    options.input = expected.rows;
    return items_in(layout) < 0 ? read(expected.config, layout, options)
                                : batches_with_negatives(expected, layout, options);
  }

  // Predictions draw nothing and have no labels: labels are those of a pipeline without a sampler.
  std::vector<Batch> batches_with_negatives(Expected& expected, const FeatureLayout& layout,
                                            LoaderOptions options) {
    config::PipelineConfig plain = expected.config;
    remove_sampler(&plain);
    std::vector<Batch> labels = read(plain, layout_of(plain), options);
    options.label_check = LabelCheck::kIgnore;
    std::vector<Batch> batches = read(expected.config, layout, options);
    options.input = expected.negatives;
    options.batch_size = item_sampler_of(expected.config.data_config())->count;
    const std::vector<Batch> drawn = read(expected.config, layout, options);
    EXPECT_EQ(drawn.size(), batches.size());
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i].labels = std::move(labels.at(i).labels);
      batches[i].sample_weights = std::move(labels[i].sample_weights);
      add_negatives(drawn.at(i), static_cast<size_t>(items_in(layout)), batches[i]);
    }
    return batches;
  }

  void set_first_values(Expected& expected, Learner& learner) {
    DenseValues values = read_dense(learner);
    for (const Parameter& parameter : learner.model().graph().parameter_list()) {
      const std::vector<float> first = expected.read("first." + parameter.name);
      const std::span<float> to = part_of<float>(values.parameters, parameter);
      ASSERT_EQ(first.size(), to.size()) << parameter.name;
      std::copy(first.begin(), first.end(), to.begin());
    }
    for (const Parameter& statistic : learner.model().graph().statistic_list())
      expected.read("first." + statistic_tensor(statistic));
    write_dense(learner, values);
    for (Table* table : learner.model().tables()) {
      const std::vector<float> rows = expected.read("first.tables." + table->settings().name);
      ASSERT_EQ(static_cast<int64_t>(rows.size()), table->settings().capacity * table->dim());
      std::vector<int64_t> keys(static_cast<size_t>(table->settings().capacity));
      for (size_t key = 0; key < keys.size(); ++key) keys[key] = static_cast<int64_t>(key);
      table->import_rows(context_, {keys, rows, {}, {}});
    }
  }

  void expect_values(Expected& expected, Learner& learner) {
    const DenseValues values = read_dense(learner);
    for (const TensorRef& tensor : dense_tensors(learner, values)) {
      if (tensor.name.starts_with("optimizer")) continue;
      const std::span<const float> actual(static_cast<const float*>(tensor.data),
                                          static_cast<size_t>(tensor.elements()));
      expect_close(tensor.name, actual, expected.read("last." + tensor.name), tolerance());
    }
    for (Table* table : learner.model().tables()) {
      std::vector<float> rows;
      table->export_rows(context_, 100, [&](const RowBatch& batch) {
        rows.insert(rows.end(), batch.weights.begin(), batch.weights.end());
      });
      const std::string& name = table->settings().name;
      expect_close(name, rows, expected.read("last.tables." + name), tolerance());
    }
  }

  void expect_outputs(const std::string& prefix, Expected& expected, Learner& learner,
                      const std::vector<Batch>& batches) {
    std::map<std::string, std::vector<float>> outputs;
    Model& model = learner.model();
    Feed feed(context_);
    for (const Batch& batch : batches) {
      model.forward(context_, feed.set(batch), Phase::kEval, 0);
      for (size_t head = 0; head < model.heads().size(); ++head) {
        const HeadSpec& spec = model.heads()[head].spec;
        if (spec.in_training_only) continue;
        const std::vector<float> logits = to_host(context_, model.logits(head));
        std::vector<float>& all =
            outputs[prefix + ".logits" + (spec.name.empty() ? "" : "." + spec.name)];
        all.insert(all.end(), logits.begin(), logits.end());
      }
    }
    for (const auto& [name, values] : outputs)
      expect_close(name, values, expected.read(name), tolerance());
  }

  // The loss of each step and its summands.
  void train(Expected& expected, Learner& learner, const std::vector<Batch>& batches) {
    const std::vector<float> losses = expected.read("loss");
    const std::vector<std::string> names = learner.model().graph().loss_names();
    std::map<std::string, std::vector<float>> actual;
    Feed feed(context_);
    for (size_t step = 0; step < losses.size(); ++step) {
      const Batch& batch = batches[step % batches.size()];
      actual["loss"].push_back(static_cast<float>(learner.step(feed.set(batch), 0).loss));
      const std::vector<double> terms = learner.model().graph().losses(context_);
      for (size_t term = 0; term < names.size(); ++term)
        actual["loss." + names[term]].push_back(static_cast<float>(terms[term]));
    }
    for (const auto& [name, values] : actual)
      expect_close(name, values, expected.read(name), tolerance());
  }

  ThreadPool pool_{2};
  Context context_;
  std::shared_ptr<cuda::Stream> stream_;
};

TEST_P(ExpectedValuesTest, AreComputed) {
  Expected expected(std::get<0>(GetParam()));
  check_pipeline(expected.config);
  const FeatureLayout layout = layout_of(expected.config);
  Learner learner(context_, expected.config, layout, expected.config.data_config().batch_size());
  const std::vector<Batch> batches = this->batches(expected, layout);
  ASSERT_NO_FATAL_FAILURE(set_first_values(expected, learner));
  expect_outputs("first", expected, learner, batches);
  train(expected, learner, batches);
  expect_values(expected, learner);
  expect_outputs("last", expected, learner, batches);
  EXPECT_THAT(expected.unused, testing::IsEmpty()) << "the model has no such values";
}

INSTANTIATE_TEST_SUITE_P(, ExpectedValuesTest,
                         testing::Combine(testing::ValuesIn(case_names()),
                                          testing::Values(Device::kCpu, Device::kCuda)),
                         [](const auto& info) {
                           return cat(std::get<0>(info.param), "_", std::get<1>(info.param));
                         });

}  // namespace
}  // namespace emblem
