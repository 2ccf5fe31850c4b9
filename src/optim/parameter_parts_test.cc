#include "optim/parameter_parts.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

const std::vector<NamedRange> kParameters = {{"bottom.0.weight", {0, 8}},
                                             {"bottom.0.bias", {8, 10}},
                                             {"bottom.1.weight", {16, 20}},
                                             {"top.weight", {20, 30}}};

std::vector<std::vector<std::pair<int64_t, int64_t>>> groups_of(const std::string& text) {
  config::DenseOptimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  std::vector<std::vector<std::pair<int64_t, int64_t>>> groups;
  for (const auto& group : group_parameters(kParameters, optimizer)) {
    groups.emplace_back();
    for (const WeightRange& range : group) groups.back().emplace_back(range.begin, range.end);
  }
  return groups;
}

TEST(ParameterParts, AreMatchedAsAWholeAndByTheFirstPattern) {
  EXPECT_THAT(groups_of(""), ElementsAre(ElementsAre(Pair(0, 10), Pair(16, 30))));
  EXPECT_THAT(groups_of("part_optimizers { regex_pattern: 'bottom\\\\..*bias' } "
                        "part_optimizers { regex_pattern: '.*bottom.*' }"),
              ElementsAre(ElementsAre(Pair(20, 30)), ElementsAre(Pair(8, 10)),
                          ElementsAre(Pair(0, 8), Pair(16, 20))));
}

TEST(ParameterParts, SayWhichNamesThereAreWhenNoneMatches) {
  EXPECT_THAT([] { groups_of("part_optimizers { regex_pattern: 'top.weigth' }"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("did you mean \"top.weight\"?"),
                                         HasSubstr("the model has bottom.0.weight"))));
  EXPECT_THAT([] { groups_of("part_optimizers { regex_pattern: 'weight' }"); },
              ThrowsMessage<Error>(HasSubstr("matches no parameter")));
  EXPECT_THAT(
      [] {
        groups_of(
            "part_optimizers { regex_pattern: '.*' } part_optimizers { regex_pattern: 'top.*' }");
      },
      ThrowsMessage<Error>(HasSubstr("\"top.*\" matches no parameter that is not matched by")));
}

TEST(ParameterParts, ArePatternsOfAnyKindMatchedInPolynomialTime) {
  const std::vector<NamedRange> names = {{std::string(200, 'a'), {0, 1}}};
  config::DenseOptimizer optimizer;
  optimizer.add_part_optimizers()->set_regex_pattern("(a*)*(a*)*(.*.*)*.*b$");
  EXPECT_THAT([&] { group_parameters(names, optimizer); },
              ThrowsMessage<Error>(HasSubstr("matches no parameter")));
}

TEST(ParameterParts, RejectWhatIsNoPattern) {
  EXPECT_THAT([] { groups_of("part_optimizers { regex_pattern: '(' }"); },
              ThrowsMessage<Error>(HasSubstr("\"(\" is not a regular expression")));
  EXPECT_THAT([] { groups_of("part_optimizers { sgd_optimizer {} }"); },
              ThrowsMessage<Error>(HasSubstr("regex_pattern is missing")));
}

}  // namespace
}  // namespace emblem
