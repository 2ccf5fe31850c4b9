#include "data/feature/fg/test_operator.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string map_lookup(const std::string& settings) {
  return "lookup_feature { feature_name: 'f' map: 'user:kv' key: 'item:cate' " + settings + " }";
}

const TestInput kMap{
    {"ca:1\x1d"
     "cb:2",
     "ca:1\x1d"
     "cb:2",
     "ca:1\x1d"
     "cb:2",
     "ca:1\x1d"
     "cb:2",
     "ca:1\x1d"
     "cb:2",
     "", ""}};
const TestInput kKeys{
    {"ca\x1d"
     "cb",
     "ca",
     "ca\x1d"
     "cd",
     "cd", "", "ca", ""}};

TEST(LookupFeature, NumbersAreCombined) {
  EXPECT_THAT(apply_operator(map_lookup("combiner: 'sum'"), {kMap, kKeys}).cells,
              ElementsAre(Bag{"3"}, Bag{"1"}, Bag{"1"}, Bag{}, Bag{}, Bag{}, Bag{}));
  EXPECT_THAT(apply_operator(map_lookup("combiner: 'mean'"), {kMap, kKeys}).cells,
              ElementsAre(Bag{"1.5"}, Bag{"1"}, Bag{"1"}, Bag{}, Bag{}, Bag{}, Bag{}));
  EXPECT_THAT(apply_operator(map_lookup("combiner: 'count'"), {kMap, kKeys}).cells[0],
              ElementsAre("2"));
}

TEST(LookupFeature, WithoutACombinerAllNumbersAreKept) {
  const TestOutput out =
      apply_operator(map_lookup("combiner: '' boundaries: [-0.5, 0.5, 1.5, 2.5]"), {kMap, kKeys});
  EXPECT_EQ(out.type, ColumnType::kFloat);
  EXPECT_THAT(out.cells,
              ElementsAre(Bag{"1", "2"}, Bag{"1"}, Bag{"1"}, Bag{}, Bag{}, Bag{}, Bag{}));
}

TEST(LookupFeature, BucketNumbersAreIntegers) {
  const TestOutput out = apply_operator(map_lookup("num_buckets: 10"), {kMap, kKeys});
  EXPECT_EQ(out.type, ColumnType::kInt64);
  EXPECT_THAT(out.cells,
              ElementsAre(Bag{"1", "2"}, Bag{"1"}, Bag{"1"}, Bag{}, Bag{}, Bag{}, Bag{}));
}

TEST(LookupFeature, DiscreteValuesAreText) {
  const TestInput map{
      {"ca:x\x1d"
       "cb:y",
       "ca:x:z"}};
  const TestInput keys{
      {"ca\x1d"
       "cb",
       "ca"}};
  for (const char* setting : {"hash_bucket_size: 100", "need_discrete: true", "vocab_list: 'x'",
                              "zch { zch_size: 10 }", "fg_value_type: 'string'"}) {
    const TestOutput out = apply_operator(map_lookup(setting), {map, keys});
    EXPECT_EQ(out.type, ColumnType::kText) << setting;
    EXPECT_THAT(out.cells, ElementsAre(Bag{"x", "y"}, Bag{"x:z"})) << setting;
  }
  EXPECT_THAT(
      apply_operator(map_lookup("need_key: true hash_bucket_size: 100"), {map, keys}).cells[0],
      ElementsAre("ca_x", "cb_y"));
}

TEST(LookupFeature, SeveralNumbersInAValue) {
  const std::string settings = map_lookup("value_dim: 2 combiner: ''");
  const std::string map =
      "ca:1,2\x1d"
      "cb:3,4";
  EXPECT_THAT(
      apply_operator(settings, {{{map, map, map, "", map}}, {{"ca", "cd", "", "ca", ""}}}).cells,
      ElementsAre(Bag{"1", "2"}, Bag{}, Bag{}, Bag{}, Bag{}));
  const TestOutput sequence = apply_operator(
      settings, {{{map, map, map, "", map}}, {{"ca;cb", "cd;ca", "", "ca", ""}, ";"}});
  EXPECT_THAT(sequence.cells,
              ElementsAre(Bag{"1", "2"}, Bag{"3", "4"}, Bag{}, Bag{"1", "2"}, Bag{}, Bag{}, Bag{}));
  EXPECT_THAT(sequence.sequence_offsets, ElementsAre(0, 2, 4, 5, 6, 7));
  const TestOutput wrong = apply_operator(settings, {{{"ca:1,2,3"}}, {{"ca"}}});
  EXPECT_THAT(wrong.problems, ElementsAre(HasSubstr("with 3 numbers, expected value_dim 2")));
}

TEST(LookupFeature, ElementsOfASequenceOfKeysShareTheMapOfTheRow) {
  const TestInput keys{{"ca\x1d"
                        "cb;ca",
                        "ca",
                        "ca\x1d"
                        "cd;ce",
                        "cd", "", "ca", ""},
                       ";"};
  const TestOutput out = apply_operator(map_lookup("combiner: 'sum'"), {kMap, keys});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"3"}, Bag{"1"}, Bag{"1"}, Bag{"1"}, Bag{}, Bag{}, Bag{},
                                     Bag{}, Bag{}));
  EXPECT_THAT(out.sequence_offsets, ElementsAre(0, 2, 3, 5, 6, 7, 8, 9));
}

TEST(LookupFeature, LargeMapsAreFoundByHash) {
  std::string map;
  for (int i = 0; i < 100; ++i) map += cat(i == 0 ? "" : "\x1d", "k", i, ":", i * 2);
  EXPECT_THAT(apply_operator(map_lookup(""), {{{map, map}}, {{"k7\x1dk99", "none"}}}).cells,
              ElementsAre(Bag{"212"}, Bag{}));
}

TEST(LookupFeature, BrokenMapsAreBadRows) {
  const TestOutput out = apply_operator(map_lookup(""), {{{"ca:1\x1d"
                                                           "cb",
                                                           "ca:x", ":1", "ca:1"}},
                                                         {{"ca", "ca", "a", "ca"}}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{}, Bag{}, Bag{}, Bag{"1"}));
  EXPECT_THAT(out.problems,
              ElementsAre("0: feature \"f\": the map has \"cb\", expected key:value",
                          "1: feature \"f\": the map has the value \"x\", which is not a number",
                          "2: feature \"f\": the map has \":1\", expected key:value"));
  EXPECT_THAT(apply_operator(map_lookup("num_buckets: 4"), {{{"a:1.5"}}, {{"a"}}}).problems,
              ElementsAre(HasSubstr("\"1.5\", which is not an integer")));
}

TEST(LookupFeature, KeysWithWeightsAreAMap) {
  Column map, keys, out;
  map.type = keys.type = ColumnType::kText;
  map.text = "ab";
  map.text_ends.assign({1, 2});
  map.weights.assign({0.5f, 2.0f});
  map.offsets.assign({0, 2});
  keys.text = "b";
  keys.text_ends.assign({1});
  const Column* const columns[] = {&map, &keys};
  make_operator(spec_of(map_lookup(""), {{}, {}}))
      ->apply(columns, 1, out, [](int64_t, const std::string&) {});
  EXPECT_THAT(read_output(out, 1).cells, ElementsAre(Bag{"2"}));
}

std::string match(const std::string& settings) {
  return "match_feature { feature_name: 'match_feat' nested_map: 'user:m' " + settings + " }";
}
constexpr char kKeyFields[] = "pkey: 'item:cate' skey: 'item:brand' ";
constexpr char kNested[] = "ca^ba:1,bb:2|cb^ba:3,bb:4";

TEST(MatchFeature, NumbersAreFoundByBothKeys) {
  const TestOutput out = apply_operator(match(kKeyFields), {{{kNested, kNested, kNested, "", ""}},
                                                            {{"ca", "ca", "", "ca", ""}},
                                                            {{"ba", "", "", "ba", ""}}});
  EXPECT_EQ(out.type, ColumnType::kFloat);
  EXPECT_THAT(out.cells, ElementsAre(Bag{"1"}, Bag{}, Bag{}, Bag{}, Bag{}));
}

TEST(MatchFeature, IdsThatAreHashedHaveTheNameOfTheFeature) {
  const std::vector<TestInput> inputs = {{{kNested}}, {{"ca"}}, {{"ba"}}};
  const auto of = [&](const std::string& settings) {
    return apply_operator(match(kKeyFields + settings), inputs).cells[0];
  };
  EXPECT_THAT(of("hash_bucket_size: 100"), ElementsAre("match_feat_1"));
  EXPECT_THAT(of("num_buckets: 10"), ElementsAre("1"));
  EXPECT_THAT(of("vocab_list: '1'"), ElementsAre("1"));
  EXPECT_THAT(of("hash_bucket_size: 100 show_pkey: true"), ElementsAre("match_feat_ca_1"));
  EXPECT_THAT(of("hash_bucket_size: 100 show_pkey: true show_skey: true"),
              ElementsAre("match_feat_ca_ba_1"));
}

TEST(MatchFeature, AllKeys) {
  EXPECT_THAT(apply_operator(match("pkey: 'ALL' skey: 'item:b' hash_bucket_size: 9"),
                             {{{kNested}}, constant("ALL"), {{"bb"}}})
                  .cells[0],
              ElementsAre("match_feat_2", "match_feat_4"));
  EXPECT_THAT(
      apply_operator(match("pkey: 'item:c' skey: 'ALL'"), {{{kNested}}, {{"cb"}}, constant("ALL")})
          .cells[0],
      ElementsAre("7"));
}

TEST(MatchFeature, SequencesOfKeys) {
  const TestOutput out =
      apply_operator(match(kKeyFields), {{{kNested}}, {{"ca;cb"}, ";"}, {{"bb;ba"}, ";"}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"2"}, Bag{"3"}));
  EXPECT_THAT(out.sequence_offsets, ElementsAre(0, 2));
}

// In time that does not grow with both.
TEST(MatchFeature, ManyKeysAreFoundInALargeMap) {
  constexpr int kKeys = 200'000;
  std::string map = "ca^", keys;
  for (int i = 0; i < kKeys; ++i) {
    map += cat("s", i, ":1,");
    keys += cat(i == 0 ? "" : "\x1d", "s", 2 * i);
  }
  EXPECT_THAT(apply_operator(match(kKeyFields), {{{map}}, {{"ca"}}, {{keys}}}).cells,
              ElementsAre(Bag{cat(kKeys / 2)}));
}

TEST(MatchFeature, SequencesReadTheMapAgain) {
  std::string map = "ca^";
  for (int i = 0; i < 8000; ++i) map += "s:1,";  // one value, of 2,000 times 16 bytes
  std::string keys = "ca";
  for (int i = 0; i < 600; ++i) keys += ";cb";
  EXPECT_THAT(apply_operator(match(kKeyFields), {{{map}}, {{keys}, ";"}, {{"s"}}}).problems,
              ElementsAre(HasSubstr("each of the 601 elements of a sequence reads 2000 values")));
}

TEST(MatchFeature, BrokenMapsAreBadRows) {
  const TestOutput out =
      apply_operator(match(kKeyFields), {{{"ca", "ca^ba", "ca^ba:x", "ca^ba:1,"}},
                                         {{"ca", "ca", "ca", "ca"}},
                                         {{"ba", "ba", "ba", "ba"}}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{}, Bag{}, Bag{}, Bag{"1"}));
  EXPECT_THAT(out.problems,
              ElementsAre("0: feature \"f\": the map has \"ca\", expected pkey^skey:value",
                          "1: feature \"f\": the map has \"ba\", expected skey:value",
                          "2: feature \"f\": the map has the value \"x\", which is not a number"));
}

}  // namespace
}  // namespace emblem
