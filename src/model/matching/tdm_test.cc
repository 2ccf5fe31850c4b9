// TDM against its formulas for padded tensors, one row and one number at a time.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "core/text/text.h"
#include "model/small_model_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct TdmText {
  std::string data, query = R"(feature_names: "price")",
                    din = "windows_len: [1, 2, 4] attn_mlp { hidden_units: 6 }",
                    groups = R"(feature_groups { group_name: "context" feature_names: "age" })";

  // The inputs of the layers are the numbers of the batch.
  std::string pipeline() const {
    return cat(R"(
      train_config { num_steps: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} }
                     dense_optimizer { sgd_optimizer { lr: 0.1 } constant_learning_rate {} } }
      data_config { dataset_type: CsvDataset fg_mode: FG_NONE label_fields: "clk" )",
               data, R"( }
      feature_configs { raw_feature { feature_name: "age" value_dim: 3 } }
      feature_configs { raw_feature { feature_name: "sizes" value_dim: 2 } }
      feature_configs { raw_feature { feature_name: "price" value_dim: 4 } }
      feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 20
        features { raw_feature { feature_name: "price" value_dim: 5 } } } }
      model_config {
        feature_groups { group_name: "first" feature_names: "sizes" }
        feature_groups { group_name: "seq" group_type: SEQUENCE feature_names: "clicks__price" )",
               query, " } ", groups, R"(
        tdm { multiwindow_din { )",
               din, R"( } final { hidden_units: 8 } }
        num_class: 2 losses { softmax_cross_entropy {} } metrics { auc {} } })");
  }
};

using TdmVector = std::vector<double>;

const Parameter& parameter_of(SmallModel& model, const std::string& name) {
  for (const Parameter& each : model.model->graph().parameter_list())
    if (each.name == name) return each;
  std::string names;
  for (const Parameter& each : model.model->graph().parameter_list()) names += " " + each.name;
  throw Error(ErrorCode::kNotFound, cat("no parameter ", name, " among", names));
}

const float* values_of(SmallModel& model, const Parameter& parameter) {
  return model.model->graph().parameters().data + parameter.begin;
}

TdmVector layer_of(SmallModel& model, const std::string& name, const TdmVector& x) {
  const Parameter& weight = parameter_of(model, name + ".weight");
  const float* of = values_of(model, weight);
  const float* bias = values_of(model, parameter_of(model, name + ".bias"));
  EXPECT_EQ(weight.cols, std::ssize(x)) << name;
  TdmVector y;
  for (int64_t i = 0; i < weight.rows; ++i) {
    y.push_back(bias[i]);
    for (int64_t j = 0; j < weight.cols; ++j) y.back() += of[i * weight.cols + j] * x[j];
  }
  return y;
}

TdmVector positive_of(TdmVector x) {
  for (double& value : x) value = std::max(value, 0.0);
  return x;
}

// Windows of 1, 2 and 4 elements, whose width is 5, of a query whose width is 4.
TdmVector windows_of(SmallModel& model, const Batch& batch, int64_t row) {
  const SequenceColumn& clicks = batch.sequences[0];
  const int64_t length = clicks.offsets[row + 1] - clicks.offsets[row];
  const int64_t begin = model.layout.find("price").dense_begin;
  TdmVector query(5, 0.0);
  for (int64_t j = 0; j < 4; ++j) query[j] = batch.dense[row * model.layout.dense_cols + begin + j];
  const double slope = *values_of(model, parameter_of(model, "multiwindow_din.2.weight"));
  TdmVector parts;
  int64_t first = 0;
  for (const int64_t window : {1, 2, 4}) {
    TdmVector sum(5, 0.0);
    for (int64_t t = first; t < std::min(first + window, length); ++t) {
      TdmVector x(15);
      for (int64_t j = 0; j < 5; ++j) {
        x[j] = clicks.numbers[(clicks.offsets[row] + t) * 5 + j];
        x[5 + j] = query[j] * x[j];
        x[10 + j] = query[j];
      }
      double weight = layer_of(model, "multiwindow_din.1",
                               positive_of(layer_of(model, "multiwindow_din.0", x)))[0];
      if (weight < 0) weight *= slope;
      for (int64_t j = 0; j < 5; ++j) sum[j] += weight * x[j];
    }
    const auto count = static_cast<double>(std::max<int64_t>(std::min(length - first, window), 1));
    for (const double value : sum) parts.push_back(value / count);
    first += window;
  }
  parts.insert(parts.end(), query.begin(), query.end());
  return parts;
}

TEST(Tdm, ComputesItsFormulas) {
  SmallModel model(TdmText{}.pipeline());
  const Batch batch = model.batch({.rows = 13, .most_elements = 9});
  for (int step = 1; step <= 3; ++step) model.step(batch, 0.3f, step);
  model.forward(batch);
  const std::vector<float> logits = model.logits();
  ASSERT_EQ(std::ssize(logits), 2 * batch.rows);
  for (int64_t row = 0; row < batch.rows; ++row) {
    TdmVector x = windows_of(model, batch, row);
    for (const auto& [name, count] : {std::pair("sizes", 2), std::pair("age", 3)}) {
      const int64_t begin = model.layout.find(name).dense_begin;
      for (int64_t j = 0; j < count; ++j)
        x.push_back(batch.dense[row * model.layout.dense_cols + begin + j]);
    }
    x = layer_of(model, "output.0", positive_of(layer_of(model, "final.0", x)));
    for (int64_t j = 0; j < 2; ++j) EXPECT_NEAR(logits[row * 2 + j], x[j], 1e-4) << "row " << row;
  }
}

TEST(Tdm, SettingsThatDoNotFitAreRefused) {
  const auto refused = [](const TdmText& text, const std::string& message) {
    EXPECT_THAT([&] { SmallModel(text.pipeline()); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused({.din = "attn_mlp { hidden_units: 6 }"}, "tdm.multiwindow_din has no windows_len");
  refused({.din = "windows_len: [2, 0] attn_mlp { hidden_units: 6 }"},
          "tdm.multiwindow_din.windows_len has a 0, expected at least 1");
  refused({.din = "windows_len: 2"}, "tdm.multiwindow_din has no attn_mlp.hidden_units");
  refused({.query = ""}, "has no query, which tdm.multiwindow_din needs");
  refused({.query = R"(feature_names: "price" feature_names: "age")"},
          "a query of width 7 and elements of width 5");
  refused({.groups = R"(feature_groups { group_name: "more" group_type: SEQUENCE
                        feature_names: "clicks__price" feature_names: "age" })"},
          "tdm has 2 feature groups of group_type SEQUENCE, expected one");
  refused({.data = R"(tdm_sampler { item_input_path: "a" edge_input_path: "b" item_id_field: "price"
                      layer_num_sample: [0, 1] })"},
          "item_id_field is \"price\", which no categorical feature");
}

}  // namespace
}  // namespace emblem
