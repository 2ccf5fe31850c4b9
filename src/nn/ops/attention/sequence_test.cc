// Random jagged batches against what dense, padded batches give, computed element by element.
#include <gmock/gmock.h>

#include <cmath>

#include "nn/ops/attention/sequence_cases_test.h"

namespace emblem {
namespace {

class SequenceTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(SequenceTest);

// [rows, longest, cols], zero after the last element of a row.
struct Padded {
  int64_t rows, longest, cols;
  std::vector<double> values;
  Padded(int64_t rows, int64_t longest, int64_t cols)
      : rows(rows), longest(longest), cols(cols), values(rows * longest * cols) {}
  double& at(int64_t r, int64_t t, int64_t j) { return values[(r * longest + t) * cols + j]; }
};

// A graph with one output, run once for given lengths.
class JaggedRun {
 public:
  JaggedRun(const Context& context, const std::vector<int32_t>& lengths)
      : context_(context), lengths_(lengths), graph_(3), sequence_(graph_.add_sequence("s")) {}
  Graph& graph() { return graph_; }
  Space sequence() const { return sequence_; }
  Node rows(int64_t cols) { return add(cols, {}); }
  Node elements(int64_t cols) { return add(cols, sequence_); }

  void use(const std::vector<Node>& inputs) {  // fills them too
    inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
  }

  std::vector<float> output(Node out, Phase phase = Phase::kEval) {
    graph_.prepare(context_, static_cast<int64_t>(lengths_.size()));
    graph_.set_rows(static_cast<int64_t>(lengths_.size()));
    const auto offsets = Buffer<int32_t>::from(context_, this->offsets());
    graph_.set_elements(context_, sequence_, offsets.view(), this->offsets().back());
    for (const Node input : inputs_) to_device(context_, values(input), graph_.value(input));
    graph_.forward(context_, phase, 0);
    return to_host(context_, graph_.value(out));
  }
  std::vector<float> values(Node input) {
    return random_normals(graph_.value(input).size(), input.id, 1.0f);
  }
  Padded padded(Node input) {
    const int64_t cols = graph_.cols(input);
    Padded all(static_cast<int64_t>(lengths_.size()), longest(), cols);
    const std::vector<float> flat = values(input);
    int64_t e = 0;
    for (size_t r = 0; r < lengths_.size(); ++r) {
      for (int64_t t = 0; t < lengths_[r]; ++t, ++e) {
        for (int64_t j = 0; j < cols; ++j) all.at(r, t, j) = flat[e * cols + j];
      }
    }
    return all;
  }
  // The elements of a padded result.
  std::vector<float> jagged(Padded& from) {
    std::vector<float> flat;
    for (size_t r = 0; r < lengths_.size(); ++r) {
      for (int64_t t = 0; t < lengths_[r]; ++t) {
        for (int64_t j = 0; j < from.cols; ++j)
          flat.push_back(static_cast<float>(from.at(r, t, j)));
      }
    }
    return flat;
  }
  int64_t longest() const { return *std::max_element(lengths_.begin(), lengths_.end()); }

 private:
  Node add(int64_t cols, Space space) {
    inputs_.push_back(graph_.input("x", cols, space));
    return inputs_.back();
  }
  std::vector<int32_t> offsets() const {
    std::vector<int32_t> all = {0};
    for (const int32_t length : lengths_) all.push_back(all.back() + length);
    return all;
  }

  Context context_;
  std::vector<int32_t> lengths_;
  Graph graph_;
  Space sequence_;
  std::vector<Node> inputs_;
};

// Batches without elements, of one element or row, of random rows, and of rows of one length.
std::vector<std::vector<int32_t>> batches() {
  return {{0, 0}, {1}, {0, 1, 0}, {7}, {5, 5, 5, 5}, random_lengths(37, 12), random_lengths(9, 90)};
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 2e-5 + 1e-6 * std::abs(expected[i])) << i;
}

// softmax over t < length, as TorchEasyRec's: others have the score -2^31 + 1.
std::vector<double> masked_softmax(std::vector<double> scores, int32_t length) {
  for (size_t t = length; t < scores.size(); ++t) scores[t] = -2147483647.0;
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - most);
  for (double& score : scores) score /= sum;
  return scores;
}

TEST_P(SequenceTest, AttentionToTheRowIsThatOfAPaddedBatch) {
  for (const auto& lengths : batches()) {
    JaggedRun run(context_, lengths);
    const Node q = run.rows(6), s = run.elements(6);
    const auto actual = run.output(run.graph().attention_pool(run.graph().dot_with_row(q, s), s));
    Padded elements = run.padded(s);
    const auto queries = run.values(q);
    std::vector<float> expected;
    for (size_t r = 0; r < lengths.size(); ++r) {
      std::vector<double> scores(elements.longest);
      for (int64_t t = 0; t < elements.longest; ++t) {
        for (int64_t j = 0; j < 6; ++j) scores[t] += queries[r * 6 + j] * elements.at(r, t, j);
      }
      if (!scores.empty()) scores = masked_softmax(scores, lengths[r]);
      for (int64_t j = 0; j < 6; ++j) {
        double sum = 0.0;
        for (int64_t t = 0; t < elements.longest; ++t) sum += scores[t] * elements.at(r, t, j);
        expected.push_back(static_cast<float>(sum));
      }
    }
    expect_near(actual, expected);
  }
}

TEST_P(SequenceTest, SelfAttentionIsThatOfAPaddedBatch) {
  constexpr int64_t kCols = 6, kHeads = 2, kEach = kCols / kHeads;
  for (const auto& lengths : batches()) {
    JaggedRun run(context_, lengths);
    const Node q = run.elements(kCols), k = run.elements(kCols), v = run.elements(kCols);
    const auto actual = run.output(run.graph().self_attention(q, k, v, kHeads));
    Padded queries = run.padded(q), keys = run.padded(k), values = run.padded(v), out = queries;
    for (int64_t r = 0; r < out.rows; ++r) {
      for (int64_t t = 0; t < lengths[r]; ++t) {
        for (int64_t j = 0; j < kCols; ++j) {
          const int64_t first = j / kEach * kEach;
          std::vector<double> scores(out.longest);
          for (int64_t u = 0; u < out.longest; ++u) {
            for (int64_t c = first; c < first + kEach; ++c)
              scores[u] += queries.at(r, t, c) * keys.at(r, u, c) / std::sqrt(double{kEach});
          }
          scores = masked_softmax(scores, lengths[r]);
          out.at(r, t, j) = 0.0;
          for (int64_t u = 0; u < out.longest; ++u)
            out.at(r, t, j) += scores[u] * values.at(r, u, j);
        }
      }
    }
    expect_near(actual, run.jagged(out));
  }
}

TEST_P(SequenceTest, PoolsAndWindowsAreThoseOfAPaddedBatch) {
  const std::vector<int64_t> windows = {1, 4, 20};
  for (const auto& lengths : batches()) {
    JaggedRun run(context_, lengths);
    Graph& g = run.graph();
    const Node x = run.elements(3);
    const auto actual =
        run.output(g.concat({g.segment_sum(x), g.segment_mean(x), g.window_means(x, windows)}));
    Padded elements = run.padded(x);
    std::vector<float> expected;
    const auto push_sum = [&](size_t r, int64_t begin, int64_t end, double divisor) {
      for (int64_t j = 0; j < 3; ++j) {
        double sum = 0.0;
        for (int64_t t = begin; t < std::min(end, elements.longest); ++t)
          sum += elements.at(r, t, j);
        expected.push_back(static_cast<float>(sum / divisor));
      }
    };
    for (size_t r = 0; r < lengths.size(); ++r) {
      push_sum(r, 0, elements.longest, 1.0);
      push_sum(r, 0, elements.longest, std::max(lengths[r], 1));
      int64_t begin = 0;
      for (const int64_t window : windows) {
        push_sum(r, begin, begin + window,
                 static_cast<double>(
                     std::max<int64_t>(1, std::min<int64_t>(lengths[r] - begin, window))));
        begin += window;
      }
    }
    expect_near(actual, expected);
  }
}

TEST_P(SequenceTest, FeaturesOfAttentionCompareElementsWithTheirRow) {
  JaggedRun run(context_, {1, 0, 2});
  const Node q = run.rows(2), s = run.elements(3);
  const auto actual = run.output(run.graph().din_features(q, s));
  const auto queries = run.values(q), elements = run.values(s);
  const int rows[] = {0, 2, 2};
  std::vector<float> expected;
  for (int e = 0; e < 3; ++e) {
    for (int part = 0; part < 4; ++part) {
      for (int j = 0; j < 3; ++j) {
        const float a = j < 2 ? queries[rows[e] * 2 + j] : 0.0f, b = elements[e * 3 + j];
        expected.push_back(part == 0 ? a : part == 1 ? b : part == 2 ? a - b : a * b);
      }
    }
  }
  expect_near(actual, expected);
}

// The same parameters, and so the same results, whether or not the features are written down.
TEST_P(SequenceTest, MlpsOverFeaturesOfAttentionAreThoseOverTheFeaturesThemselves) {
  for (const auto& lengths : batches()) {
    for (const auto phase : {Phase::kTrain, Phase::kEval}) {
      std::vector<std::vector<float>> results[2];
      for (const bool plain : {false, true}) {
        JaggedRun run(context_, lengths);
        Graph& g = run.graph();
        const Node label = g.input("label", 1), q = g.trained_input("q", 12),
                   s = g.trained_input("s", 20, run.sequence());
        run.use({label, q, s});
        MlpOptions options = layers({16, 5}, Activation::kRelu);
        g.set_scope("attention");
        const Node h = plain ? g.mlp(g.din_features(q, s), options) : g.din_mlp(q, s, options);
        const Node y = g.segment_sum(g.linear(h, 1));
        g.minimize(losses::BinaryCrossEntropy{}, y, {.labels = label});
        auto& all = results[plain];
        all.push_back(run.output(y, phase));
        for (const Parameter& p : g.parameter_list())
          all.push_back({static_cast<float>(p.rows), static_cast<float>(p.cols)});
        if (phase == Phase::kEval) continue;
        g.backward(context_);
        for (const View<float> gradients : {g.parameter_gradients(), g.gradient(q), g.gradient(s)})
          all.push_back(to_host(context_, gradients));
      }
      ASSERT_EQ(results[0].size(), results[1].size());
      for (size_t part = 0; part < results[0].size(); ++part)
        expect_near(results[0][part], results[1][part]);
    }
  }
}

// Predictions: what a row gives does not depend on the rows beside it; on a GPU but for rounding,
// as products of other sizes add in another order.
TEST_P(SequenceTest, PredictionsOfARowDoNotDependOnOtherRows) {
  const auto predict = [&](const std::vector<int32_t>& lengths) {
    JaggedRun run(context_, lengths);
    Graph& g = run.graph();
    const Node s = run.elements(24);
    const Node h = g.din_mlp(run.rows(10), s, layers({9}, Activation::kRelu));
    return run.output(g.concat({g.segment_mean(g.self_attention(s, s, s, 3)), g.segment_sum(h)}));
  };
  const auto alone = predict({7}), beside = predict({7, 3, 40});
  const std::vector<float> first(beside.begin(), beside.begin() + 33);
  if (context_.device == Device::kCpu)
    EXPECT_EQ(alone, first);
  else
    expect_near(alone, first);
}

TEST(Sequence, RejectsShapesThatDoNotFit) {
  Graph g(1);
  const Space clicks = g.add_sequence("clicks"), buys = g.add_sequence("buys");
  const Node q = g.input("q", 5), s = g.input("s", 4, clicks), b = g.input("b", 1, buys);
  const auto fails = [](const auto& body, const std::string& message) {
    EXPECT_THAT(body, testing::ThrowsMessage<Error>(testing::HasSubstr(message)));
  };
  fails([&] { g.din_features(q, s); },
        "the query 'q' has 5 columns, but the elements 's' have 4; the query must not be wider");
  fails([&] { g.din_features(s, s); }, "'s' belongs to sequence 'clicks'; expected a node of the");
  fails([&] { g.dot_with_row(q, s); }, "'q' has 5 columns and 's' 4; they must be equal");
  fails([&] { g.attention_pool(s, s); }, "the scores 's' have 4 columns; expected 1");
  fails([&] { g.attention_pool(b, s); }, "'b' belongs to sequence 'buys', but 's' to sequence");
  fails([&] { g.self_attention(s, s, s, 3); }, "4 columns, which do not make 3 equal heads");
  fails([&] { g.self_attention(s, s, b, 1); }, "'s' has 4 columns and 'b' 1");
  fails([&] { g.self_attention(s, s, s, 2, 1.0f); }, "dropout is 1");
  const Node wide = g.input("wide", 1024, clicks);
  fails([&] { g.self_attention(wide, wide, wide, 1); }, "heads of 1024 columns; expected at most");
}

}  // namespace
}  // namespace emblem
