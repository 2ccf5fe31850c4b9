#include "core/math/hash.h"
#include "data/feature/fg/test_operator.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kOperatorCombo[] =
    "combo_feature { feature_name: 'f' expression: 'user:u' expression: 'item:i' hash_bucket_size: "
    "100 }";

TEST(ComboFeature, AllCombinationsAreJoinedTheFirstFieldSlowest) {
  const TestOutput out = apply_operator(
      kOperatorCombo, {{{"ua\x1dub", "uc\x1dud", "uee\x1duf", "ug", "uh", "uj", "", ""}},
                       {{"ia\x1dib", "ic", "", "id\x1die", "if", "", "ig\x1dih", ""}}});
  EXPECT_THAT(out.cells,
              ElementsAre(Bag{"ua_ia", "ua_ib", "ub_ia", "ub_ib"}, Bag{"uc_ic", "ud_ic"}, Bag{},
                          Bag{"ug_id", "ug_ie"}, Bag{"uh_if"}, Bag{}, Bag{}, Bag{}));
  EXPECT_EQ(out.type, ColumnType::kText);
}

TEST(ComboFeature, ItsTextsHaveTheBucketsOfTorchEasyRec) {
  const TestOutput out = apply_operator(kOperatorCombo, {{{"ua\x1dub", "uc\x1dud", "ug", "uh"}},
                                                         {{"ia\x1dib", "ic", "id\x1die", "if"}}});
  std::vector<uint64_t> buckets;
  for (const Bag& bag : out.cells)
    for (const std::string& text : bag) buckets.push_back(fg_hash(text) % 100);
  EXPECT_THAT(buckets, ElementsAre(37, 90, 5, 97, 60, 56, 40, 57, 55));
}

TEST(ComboFeature, ElementsOfASequenceAreCombinedWithTheValueOfTheRow) {
  const TestOutput out = apply_operator(kOperatorCombo, {{{"ua", "", "ub"}},
                                                         {{"abc\x1d"
                                                           "efg;hij",
                                                           "", "hij"},
                                                          ";"}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"ua_abc", "ua_efg"}, Bag{"ua_hij"}, Bag{}, Bag{"ub_hij"}));
  EXPECT_THAT(out.sequence_offsets, ElementsAre(0, 2, 3, 4));
}

TEST(ComboFeature, TwoSequencesGoElementByElement) {
  const TestOutput out =
      apply_operator(kOperatorCombo, {{{"a;b;c", "d"}, ";"}, {{"x;y", "z;w"}, ";"}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"a_x"}, Bag{"b_y"}, Bag{}, Bag{"d_z"}));
}

TEST(ComboFeature, ConstantsAndNumbersAreText) {
  EXPECT_THAT(apply_operator(kOperatorCombo, {{{"a", "b"}}, constant("v2")}).cells,
              ElementsAre(Bag{"a_v2"}, Bag{"b_v2"}));
  Column ints, floats, out;
  ints.type = ColumnType::kInt64;
  ints.ints.assign({7, -1, 0});
  ints.missing.assign({0, 0, 1});
  floats.floats.assign({0.5f, 100000.0f, 1.0f});
  const Column* const columns[] = {&ints, &floats};
  const auto made = make_operator(spec_of(kOperatorCombo, {{}, {}}));
  made->apply(columns, 3, out, [](int64_t, const std::string&) {});
  EXPECT_THAT(read_output(out, 3).cells, ElementsAre(Bag{"7_0.5"}, Bag{"-1_100000"}, Bag{}));
}

TEST(ComboFeature, OneFieldIsRefused) {
  EXPECT_THAT(error_of_operator("combo_feature { expression: 'user:a' }", 1),
              HasSubstr("expected at least 2"));
}

std::string bool_mask(const std::string& rows) {
  return "bool_mask_feature { expression: 'user:i' expression: 'user:m' separator: ',' " + rows +
         " }";
}

TEST(BoolMaskFeature, KeepsTheValuesWhoseMaskIsTrue) {
  EXPECT_THAT(apply_operator(
                  bool_mask("hash_bucket_size: 10"),
                  {{{"1,2,3,4", "1,2", "3,4,5", "", "123,456,90,80"}},
                   {{"true,false,true,false", "true,false", "true,false,true", "true", "1,0,1,0"}}})
                  .cells,
              ElementsAre(Bag{"1", "3"}, Bag{"1"}, Bag{"3", "5"}, Bag{}, Bag{"123", "90"}));
}

TEST(BoolMaskFeature, WithNumBucketsItsValuesAreIntegers) {
  const TestOutput out =
      apply_operator(bool_mask("num_buckets: 10"), {{{"1,2", "a"}}, {{"1,1", "1"}}});
  EXPECT_EQ(out.type, ColumnType::kInt64);
  EXPECT_THAT(out.cells, ElementsAre(Bag{"1", "2"}, Bag{}));
  EXPECT_THAT(out.problems, ElementsAre(HasSubstr("1: feature \"f\": \"a\" is not an integer")));
}

TEST(BoolMaskFeature, UnequalLengthsAndOtherMasks) {
  const TestOutput out =
      apply_operator(bool_mask("hash_bucket_size: 10"),
                     {{{"1,2,3", "1", "1"}}, {{"true", "true,true", "perhaps"}}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"1"}, Bag{"1"}, Bag{}));
  EXPECT_THAT(out.problems, ElementsAre(HasSubstr("\"perhaps\", expected true, false, 1 or 0")));
}

std::string combine(const std::string& settings) {
  return "combine_feature { expression: 'user:x' " + settings + " }";
}

TEST(CombineFeature, NumbersAreCombined) {
  const TestInput input{
      {"1.0\x1d"
       "2.0",
       "3.0", ""}};
  EXPECT_THAT(apply_operator(combine("combiner: 'sum'"), {input}).cells,
              ElementsAre(Bag{"3"}, Bag{"3"}, Bag{}));
  EXPECT_THAT(apply_operator(combine("combiner: 'mean'"), {input}).cells,
              ElementsAre(Bag{"1.5"}, Bag{"3"}, Bag{}));
}

TEST(CombineFeature, EveryCombiner) {
  const TestInput input{
      {"4\x1d"
       "1\x1d"
       "9",
       "7"}};
  const auto of = [&](const std::string& name) {
    return apply_operator(combine("combiner: '" + name + "'"), {input}).cells;
  };
  EXPECT_THAT(of("sum"), ElementsAre(Bag{"14"}, Bag{"7"}));
  EXPECT_THAT(of("AVG"), ElementsAre(Bag{"4.6666665"}, Bag{"7"}));
  EXPECT_THAT(of("min"), ElementsAre(Bag{"1"}, Bag{"7"}));
  EXPECT_THAT(of("max"), ElementsAre(Bag{"9"}, Bag{"7"}));
  EXPECT_THAT(of("count"), ElementsAre(Bag{"3"}, Bag{"1"}));
  EXPECT_THAT(of("gap_min"), ElementsAre(Bag{"3"}, Bag{"0"}));
  EXPECT_THAT(of("gap_max"), ElementsAre(Bag{"5"}, Bag{"0"}));
  EXPECT_THAT(error_of_operator(combine("combiner: 'median'"), 1),
              HasSubstr("combiner is \"median\", expected one of sum, mean"));
}

TEST(CombineFeature, WordsBecomeNumbersAndBuckets) {
  const std::string settings =
      "num_buckets: 10 value_map { key: 'tag1' value: 1 } value_map { key: 'tag2' value: 2 } "
      "value_map { key: 'tag3' value: 3 } ";
  const TestInput input{{"tag1\x1dtag2", "tag3", "", "other"}};
  const TestOutput sums = apply_operator(combine(settings + "combiner: 'sum'"), {input});
  EXPECT_EQ(sums.type, ColumnType::kInt64);
  EXPECT_THAT(sums.cells, ElementsAre(Bag{"3"}, Bag{"3"}, Bag{}, Bag{}));
  EXPECT_THAT(apply_operator(combine(settings + "combiner: 'mean'"), {input}).cells,
              ElementsAre(Bag{"1"}, Bag{"3"}, Bag{}, Bag{}));
}

TEST(CombineFeature, ElementsOfASequenceAreCombinedEach) {
  const TestOutput out = apply_operator(
      combine("value_map { key: 'tag1' value: 1 } value_map { key: 'tag2' value: 2 }"),
      {{{"tag1\x1dtag2;tag1", "tag2", ""}, ";"}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"3"}, Bag{"1"}, Bag{"2"}, Bag{}));
  EXPECT_THAT(out.sequence_offsets, ElementsAre(0, 2, 3, 4));
}

std::string overlap(const std::string& method) {
  return "overlap_feature { query: 'user:q' title: 'item:t' method: '" + method + "' }";
}

std::string overlap_of(const std::string& method, const std::string& query,
                       const std::string& title) {
  return apply_operator(overlap(method), {{{query}}, {{title}}}).cells[0].at(0);
}

TEST(OverlapFeature, RatiosContainmentAndEquality) {
  const TestInput query{
      {"abc\x1d"
       "efg",
       "abc\x1d"
       "efg",
       ""}};
  const auto of = [&](const std::string& method, const std::string& first,
                      const std::string& second) {
    return apply_operator(overlap(method), {query, {{first, second, ""}}}).cells;
  };
  const std::string four = "abc\x1dqwe\x1drty\x1duio", three =
                                                           "abc\x1d"
                                                           "efg\x1drty";
  EXPECT_THAT(of("query_common_ratio", four, three), ElementsAre(Bag{"0.5"}, Bag{"1"}, Bag{"0"}));
  EXPECT_THAT(of("title_common_ratio", four, "abc"), ElementsAre(Bag{"0.25"}, Bag{"1"}, Bag{"0"}));
  EXPECT_THAT(of("is_contain", four, three), ElementsAre(Bag{"0"}, Bag{"1"}, Bag{"0"}));
  EXPECT_THAT(of("is_equal", three,
                 "abc\x1d"
                 "efg"),
              ElementsAre(Bag{"0"}, Bag{"1"}, Bag{"0"}));
  EXPECT_THAT(of("index_of",
                 "x\x1d"
                 "abc\x1d"
                 "efg",
                 four),
              ElementsAre(Bag{"1"}, Bag{"-1"}, Bag{"0"}));
}

std::string terms(int count, const std::string& name) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : "\x1d") + name + std::to_string(i);
  return text;
}

TEST(OverlapFeature, FindsQueriesThatRepeatThemselves) {
  EXPECT_EQ(overlap_of("index_of",
                       "a\x1d"
                       "a\x1d"
                       "b",
                       "a\x1d"
                       "a\x1d"
                       "a\x1d"
                       "b"),
            "1");
  EXPECT_EQ(overlap_of("index_of",
                       "a\x1d"
                       "b\x1d"
                       "a\x1d"
                       "c",
                       "a\x1d"
                       "b\x1d"
                       "a\x1d"
                       "b\x1d"
                       "a\x1d"
                       "c"),
            "2");
  EXPECT_EQ(overlap_of("index_of",
                       "a\x1d"
                       "a",
                       "a"),
            "-1");
}

TEST(OverlapFeature, DistancesOfTooManyTermsAreBad) {
  const std::string many = terms(1001, "t");
  EXPECT_THAT(apply_operator(overlap("proximity_avg_dist"), {{{many}}, {{many}}}).problems,
              ElementsAre(HasSubstr("1001 and 1001 terms, expected at most 1000")));
  EXPECT_THAT(
      apply_operator(overlap("proximity_min_dist"), {{{terms(900, "t")}}, {{terms(20'000, "u")}}})
          .problems,
      ElementsAre(HasSubstr("900 and 20000 terms, expected at most 1000 of one of them and 100000 "
                            "pairs")));
  EXPECT_EQ(overlap_of("proximity_min_cover", many, many), "1001");
}

TEST(ComboFeature, TooManyCombinationsOfARowAreBad) {
  const std::string many = terms(400, "t");
  EXPECT_THAT(apply_operator(kOperatorCombo, {{{many}}, {{many}}}).problems,
              ElementsAre(HasSubstr("160000 combinations, expected at most 100000")));
}

std::string sequence_of(int64_t elements) {
  std::string text = "a";
  for (int64_t i = 1; i < elements; ++i) text += ";a";
  return text;
}

// Else a request of some megabytes keeps a server busy for hours.
TEST(Operators, LongRowsThatEveryElementReadsAgainAreBad) {
  const std::string many = terms(2000, "t"), dot = "kv_dot_product { query: 'a' document: 'b' }";
  const TestInput rows{{many, many, "t"}};
  const TestInput sequences{{sequence_of(501), sequence_of(2), sequence_of(2000)}, ";"};
  for (const std::string& feature : {overlap("query_common_ratio"), dot}) {
    const TestOutput out = apply_operator(feature, {rows, sequences});
    EXPECT_THAT(out.problems,
                ElementsAre(HasSubstr("0: feature \"f\": each of the 501 elements of a sequence "
                                      "reads 2000 values of its row, expected at most 1000000")));
    EXPECT_EQ(out.cells.size(), 2503u);
  }
}

TEST(OverlapFeature, ProximityOfTerms) {
  const std::string title =
      "a\x1dx\x1d"
      "b\x1dx\x1dx\x1d"
      "c\x1d"
      "b";
  EXPECT_EQ(overlap_of("proximity_min_cover",
                       "a\x1d"
                       "b",
                       title),
            "3");
  EXPECT_EQ(overlap_of("proximity_min_cover",
                       "b\x1d"
                       "c",
                       title),
            "2");
  EXPECT_EQ(overlap_of("proximity_min_cover",
                       "a\x1d"
                       "d",
                       title),
            "0");
  EXPECT_EQ(overlap_of("proximity_min_dist",
                       "a\x1d"
                       "b\x1d"
                       "c",
                       title),
            "1");
  EXPECT_EQ(overlap_of("proximity_max_dist",
                       "a\x1d"
                       "b\x1d"
                       "c",
                       title),
            "5");
  EXPECT_EQ(overlap_of("proximity_avg_dist",
                       "a\x1d"
                       "b\x1d"
                       "c",
                       title),
            "2.6666667");
  EXPECT_EQ(overlap_of("proximity_min_dist",
                       "d\x1d"
                       "e",
                       title),
            "8");
  EXPECT_EQ(overlap_of("proximity_min_dist",
                       "a\x1d"
                       "e",
                       title),
            "7");
  EXPECT_EQ(overlap_of("proximity_min_dist", "a", title), "0");
}

TEST(OverlapFeature, AnUnknownMethodIsRefused) {
  EXPECT_THAT(error_of_operator(overlap("jaccard"), 2),
              HasSubstr("method is \"jaccard\", expected one of query_common_ratio"));
}

std::string kv_dot(const std::string& settings) {
  return "kv_dot_product { query: 'user:q' document: 'item:d' separator: '|' " + settings + " }";
}

TEST(KvDotProduct, WeightsOfCommonKeysAreMultiplied) {
  const TestOutput out =
      apply_operator(kv_dot(""), {{{"a:0.5|b:0.5", "a|b|c", "a|b", "", "a:0.5|b:0.5", "a|b|c"}},
                                  {{"a:0.5|b:0.5", "a|b", "", "", "d:0.5|b:0.5", "a:0.5|b:0.5"}}});
  EXPECT_THAT(out.cells, ElementsAre(Bag{"0.5"}, Bag{"2"}, Bag{}, Bag{}, Bag{"0.25"}, Bag{"1"}));
}

TEST(KvDotProduct, WithoutADefaultAnEmptySideIsZero) {
  EXPECT_THAT(apply_operator(kv_dot("default_value: ''"), {{{"a|b", ""}}, {{"", ""}}}).cells,
              ElementsAre(Bag{"0"}, Bag{"0"}));
}

TEST(KvDotProduct, WrongWeightsAreBadRows) {
  const TestOutput out = apply_operator(kv_dot(""), {{{"a:x", "a"}}, {{"a", "a"}}});
  EXPECT_THAT(out.problems, ElementsAre(HasSubstr("\"a:x\" has a weight that is not a number")));
  EXPECT_THAT(out.cells, ElementsAre(Bag{}, Bag{"1"}));
}

TEST(CustomFeature, IsRefusedByName) {
  EXPECT_THAT(error_of_operator("custom_feature { operator_name: 'EditDistance' }", 0),
              HasSubstr("custom_feature runs the operator \"EditDistance\" of a shared library"));
}

TEST(Operators, IdAndRawFeaturesHaveNone) {
  EXPECT_EQ(make_operator(spec_of("id_feature { feature_name: 'f' }", {})), nullptr);
  EXPECT_EQ(make_operator(spec_of("raw_feature { feature_name: 'f' }", {})), nullptr);
}

}  // namespace
}  // namespace emblem
