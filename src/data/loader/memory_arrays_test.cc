// Tables of Arrow arrays: who releases them, and sizes that the sender chose.
#include <gmock/gmock.h>

#include "data/format/memory/table.h"
#include "data/loader/table_batches.h"
#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Table = std::shared_ptr<const ColumnTable>;

const char* const kArraysPipeline = R"(
  data_config { fg_mode: FG_DAG }
  feature_configs { id_feature { feature_name: "C1" embedding_dim: 4 dynamicemb { max_capacity: 10 } } }
)";

// An array that counts how often it is released.
struct CountedArray {
  ArrowSchema schema{};
  ArrowArray array{};
  std::vector<const void*> buffers;
  int released = 0;

  CountedArray(const char* name, const char* format, int64_t length,
               std::vector<const void*> of_buffers)
      : buffers(std::move(of_buffers)) {
    schema.format = format;
    schema.name = name;
    schema.private_data = array.private_data = &released;
    schema.release = [](ArrowSchema* own) {
      ++*static_cast<int*>(own->private_data);
      own->release = nullptr;
    };
    array.length = length;
    array.n_buffers = static_cast<int64_t>(buffers.size());
    array.buffers = buffers.data();
    array.release = [](ArrowArray* own) {
      ++*static_cast<int*>(own->private_data);
      own->release = nullptr;
    };
  }
};

class MemoryArrays : public testing::Test {
 protected:
  static constexpr float kLabels[4] = {0, 1, 0, 1};
  static constexpr int64_t kKeys[4] = {3, 5, 7, 9};
  CountedArray label_{"label", "f", 4, {nullptr, kLabels}};
  CountedArray key_{"C1", "l", 4, {nullptr, kKeys}};

  Table table() {
    ArrowSchema schemas[] = {label_.schema, key_.schema};
    ArrowArray arrays[] = {label_.array, key_.array};
    const auto restore = [&] {
      EXPECT_EQ(schemas[0].release, nullptr) << "they were taken over";
      EXPECT_EQ(arrays[1].release, nullptr);
    };
    try {
      Table made = ColumnTable::of_arrays(schemas, arrays);
      restore();
      return made;
    } catch (...) {
      restore();
      throw;
    }
  }
  std::string error() {
    label_.released = key_.released = 0;
    std::string message;
    try {
      message = loader_error(pipeline_, {.tables = {table()}});
    } catch (const Error& problem) {
      message = problem.what();
    }
    EXPECT_EQ(label_.released, 2) << message;
    EXPECT_EQ(key_.released, 2) << message;
    return message;
  }

  const TestPipeline pipeline_{kArraysPipeline};
};

TEST_F(MemoryArrays, AreReadAndReleasedOnce) {
  {
    LoaderOptions options;
    options.tables = {table()};
    Loader loader(pipeline_.config.data_config(), pipeline_.features, options);
    options.tables.clear();
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    EXPECT_THAT(batch.sparse[0].keys, ElementsAre(3, 5, 7, 9));
    EXPECT_EQ(key_.released, 0);
  }
  EXPECT_EQ(label_.released, 2);
  EXPECT_EQ(key_.released, 2);
}

TEST_F(MemoryArrays, TablesOfASourceAreReleasedWhenTheyAreRead) {
  LoaderOptions options;
  options.epochs = 1;
  options.next_table = [this, given = false]() mutable -> Table {
    return std::exchange(given, true) ? nullptr : table();
  };
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options);
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  EXPECT_FALSE(loader.next(batch));
  EXPECT_EQ(key_.released, 2) << "before the loader ends";
}

TEST_F(MemoryArrays, PartsWithOffsetsAndMissingValuesAreRead) {
  const uint8_t valid = 0b0101;
  key_.array.offset = 1;
  key_.array.length = 3;
  key_.array.null_count = -1;
  key_.buffers = {&valid, kKeys};  // the values 5, 7, 9, of which 7 is there
  key_.array.buffers = key_.buffers.data();
  label_.array.length = 3;
  const TestPipeline pipeline(R"(data_config { fg_mode: FG_NORMAL }
    feature_configs { id_feature { feature_name: "C1" num_buckets: 100 default_value: "42" embedding_dim: 4 } })");
  TableBatches batches(pipeline.config.data_config(), pipeline.features);
  Batch batch;
  batches.make(table(), batch);
  EXPECT_THAT(batch.sparse[0].keys, ElementsAre(42, 7, 42));
}

TEST_F(MemoryArrays, DictionariesAreTextByCode) {
  const int32_t ends[] = {0, 1, 3};
  const int8_t codes[] = {1, 0, 1, 1};
  CountedArray entries("", "u", 2, {nullptr, ends, "abb"});
  key_ = CountedArray("C1", "c", 4, {nullptr, codes});
  key_.schema.private_data = key_.array.private_data = &key_.released;
  key_.array.buffers = key_.buffers.data();
  key_.schema.dictionary = &entries.schema;
  key_.array.dictionary = &entries.array;
  const TestPipeline pipeline(R"(data_config { fg_mode: FG_NORMAL }
    feature_configs { id_feature { feature_name: "C1" vocab_list: ["bb", "a"] embedding_dim: 4 } })");
  TableBatches batches(pipeline.config.data_config(), pipeline.features);
  Batch batch;
  batches.make(table(), batch);
  const auto& keys = batch.sparse[0].keys;
  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(keys[0], keys[2]);
  EXPECT_EQ(keys[0], keys[3]);
  EXPECT_NE(keys[0], keys[1]);

  const int8_t outside[] = {1, 0, 2, 1};
  key_.buffers[1] = outside;
  EXPECT_THAT([&] { batches.make(table(), batch); },
              ThrowsMessage<Error>(HasSubstr("a code is 2, but the dictionary has 2 entries")));
}

TEST_F(MemoryArrays, SizesThatDoNotFitAreRefusedAndReleased) {
  key_.array.length = 3;
  EXPECT_THAT(error(), HasSubstr("column \"C1\" has 3 rows, but the first has 4"));
  key_.array.length = label_.array.length = -4;
  EXPECT_THAT(error(), HasSubstr("the array has length -4"));
  label_.array.length = key_.array.length = int64_t{1} << 60;
  EXPECT_THAT(error(), HasSubstr("the array has length 1152921504606846976"));
  label_.array.length = key_.array.length = 4;
  key_.array.offset = -1;
  EXPECT_THAT(error(), HasSubstr("offset -1"));
  key_.array.offset = 0;
  key_.array.null_count = 2;
  EXPECT_THAT(error(), HasSubstr("2 missing values, but does not say which"));
  key_.array.null_count = 0;
  key_.array.n_buffers = 1;
  EXPECT_THAT(error(), HasSubstr("format \"l\" has 1 buffers, expected 2"));
  key_.array.n_buffers = 2;
  key_.buffers[1] = nullptr;
  EXPECT_THAT(error(), HasSubstr("4 values, but no buffer of them"));
  key_.buffers[1] = kKeys;
  key_.schema.format = "+l";
  EXPECT_THAT(error(), HasSubstr("format \"+l\" has 0 children, expected 1"));
  key_.schema.format = "+ud:0";
  EXPECT_THAT(error(), HasSubstr("column \"C1\" is Arrow format \"+ud:0\""));
  key_.schema.format = nullptr;
  EXPECT_THAT(error(), HasSubstr("column \"C1\": the schema has no format"));
}

TEST_F(MemoryArrays, OffsetsThatLeadOutsideAreRefusedAndReleased) {
  int32_t offsets[] = {0, 1, 1, 2, 4};
  CountedArray lists("C1", "+l", 4, {nullptr, offsets});
  CountedArray values("item", "l", 4, {nullptr, kKeys});
  ArrowSchema* schema = &values.schema;
  ArrowArray* array = &values.array;
  const auto message = [&] {
    key_.schema = lists.schema;
    key_.array = lists.array;
    key_.schema.private_data = key_.array.private_data = &key_.released;
    key_.schema.children = &schema;
    key_.array.children = &array;
    key_.schema.n_children = key_.array.n_children = 1;
    return error();
  };
  EXPECT_EQ(message(), "");
  offsets[4] = 5;
  EXPECT_THAT(message(), HasSubstr("column \"C1\": a list has values 2 to 5 of 4"));
  offsets[4] = 1;
  EXPECT_THAT(message(), HasSubstr("a list has values 2 to 1 of 4"));
  offsets[0] = -1;
  EXPECT_THAT(message(), HasSubstr("a list has values -1 to 1 of 4"));
  values.array.length = 1;
  offsets[0] = 0;
  EXPECT_THAT(message(), HasSubstr("of 1"));

  const int32_t text_ends[] = {0, 3, 2, 2, 2};
  lists.schema.format = "u";
  lists.buffers = {nullptr, text_ends, "abc"};
  lists.array.buffers = lists.buffers.data();
  lists.array.n_buffers = 3;
  key_.schema = lists.schema;
  key_.array = lists.array;
  key_.schema.private_data = key_.array.private_data = &key_.released;
  EXPECT_THAT(error(), HasSubstr("column \"C1\": a text is from byte 3 to 2"));
}

TEST_F(MemoryArrays, StreamsAreReadToTheirEndAndReleasedOnce) {
  struct Stream {
    MemoryArrays* test;
    int left, released;
    std::vector<ArrowSchema*> schemas;
    std::vector<ArrowArray*> arrays;
    const void* bits = nullptr;
    ArrowSchema schema{};
    ArrowArray array{};
  } state{this, 3, 0, {&label_.schema, &key_.schema}, {&label_.array, &key_.array}};
  state.schema = {"+s", "", nullptr, 0, 2, state.schemas.data(), nullptr, [](ArrowSchema*) {}};
  state.array = {4, 0, 0, 1, 2, &state.bits, state.arrays.data(), nullptr, [](ArrowArray*) {}};
  ArrowArrayStream stream{};
  stream.private_data = &state;
  stream.get_schema = [](ArrowArrayStream* own, ArrowSchema* out) {
    *out = static_cast<Stream*>(own->private_data)->schema;
    return 0;
  };
  stream.get_next = [](ArrowArrayStream* own, ArrowArray* out) {
    auto& from = *static_cast<Stream*>(own->private_data);
    if (from.left-- > 0) *out = from.array;
    return 0;
  };
  stream.get_last_error = [](ArrowArrayStream*) -> const char* { return "it broke"; };
  stream.release = [](ArrowArrayStream* own) {
    ++static_cast<Stream*>(own->private_data)->released;
    own->release = nullptr;
  };
  LoaderOptions options;
  options.batch_size = 5;
  {
    ArrowArrayStream given = stream;
    options.next_table = tables_of(&given);
    EXPECT_EQ(given.release, nullptr);
    EXPECT_EQ(read_all(pipeline_, options).size(), 3u);
    options.next_table = nullptr;
  }
  EXPECT_EQ(state.released, 1);
  stream.get_next = [](ArrowArrayStream*, ArrowArray*) { return 5; };
  options.next_table = tables_of(&stream);
  EXPECT_EQ(loader_error(pipeline_, options), "the stream of tables cannot be read: it broke");
  options.next_table = nullptr;
  EXPECT_EQ(state.released, 2);
}

}  // namespace
}  // namespace emblem
