// What end-to-end tests with ONNX Runtime (tests/onnx_test.py) cannot reach.
#include <gmock/gmock.h>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"
#include "model/onnx/onnx_tables.h"
#include "nn/onnx/layers.h"
#include "nn/onnx/onnx.pb.h"

namespace emblem {
namespace {

using testing::ElementsAre;

TEST(OnnxLayers, a_layer_without_a_form_is_refused_by_its_name) {
  Graph graph(1);
  const Node x = graph.input("x", 4), labels = graph.input("label", 1);
  graph.set_scope("parts");
  const Node chosen = graph.select({graph.linear(x, 2), graph.linear(x, 2)}, labels, 0);
  graph.mark_output(chosen);
  graph.prepare(Context(), 8, DType::kF32, Graph::Purpose::kInference);
  OnnxGraph to("test");
  OnnxLayers layers(graph, to);
  layers.feed(x, {{4, [&] { return to.input("x", OnnxType::kFloat, {"batch", 4}, ""); }}});
  try {
    layers.write({chosen});
    FAIL() << "was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_STREQ(
        error.what(),
        "this model cannot be exported to ONNX: its layer select (select) has no ONNX form");
  }
}

std::unique_ptr<Table> dynamic_table(const std::string& name, float missing,
                                     const std::vector<int64_t>& keys,
                                     const std::vector<float>& weights) {
  TableSettings settings{.name = name, .dim = 1, .kind = TableKind::kDynamic};
  settings.missing = {Initializer::Kind::kConstant, missing, 0.0f};
  auto table = make_table(Context(), settings);
  table->import_rows(Context(), {.keys = keys, .weights = weights});
  return table;
}

std::vector<float> floats_of(const onnx::TensorProto& tensor) {
  std::vector<float> values(tensor.raw_data().size() / sizeof(float));
  std::copy_n(tensor.raw_data().data(), tensor.raw_data().size(),
              reinterpret_cast<char*>(values.data()));
  return values;
}

TEST(OnnxTables, dynamic_tables_that_a_feature_reads_have_one_list_of_keys) {
  const auto deep = dynamic_table("item", 0.5f, {-3, 5, 7}, {1, 2, 3});
  const auto wide = dynamic_table("item_wide", 0.25f, {5, 9}, {4, 5});
  const auto other = dynamic_table("shop", 0.0f, {}, {});
  const TempFolder folder;
  OnnxGraph to("test");
  OnnxTables tables(to, folder.path(), OnnxRows::kInModel);
  tables.add_feature("item", {deep.get(), wide.get()});
  tables.add_feature("shop", {other.get()});
  tables.add_feature("twin", {wide.get()});
  EXPECT_EQ(tables.keys_file("item"), "keys/item.npy");
  EXPECT_EQ(tables.keys_file("twin"), "keys/item.npy");
  EXPECT_EQ(tables.keys_file("shop"), "keys/shop.npy");
  tables.rows(*deep);
  tables.rows(*wide);
  tables.rows(*other);
  const auto& initializers = to.model().graph().initializer();
  // Of the keys -3, 5, 7, 9; of unknown keys; of no value.
  EXPECT_THAT(floats_of(initializers[0]), ElementsAre(1, 2, 3, 0.5, 0.5, 0));
  EXPECT_THAT(floats_of(initializers[1]), ElementsAre(0.25, 4, 0.25, 5, 0.25, 0));
  EXPECT_THAT(floats_of(initializers[2]), ElementsAre(0, 0));
}

}  // namespace
}  // namespace emblem
