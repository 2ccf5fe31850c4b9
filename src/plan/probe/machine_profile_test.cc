#include "plan/probe/machine_profile.h"

#include <gmock/gmock.h>

#include "emblem/error.h"
#include "plan/probe/plain_profile_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string problem_of(const std::string& text) {
  try {
    parse_machine_profile(text, "p.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(MachineProfile, ReadsBackWhatItWrites) {
  const MachineProfile profile = test_profile(3);
  EXPECT_EQ(parse_machine_profile(to_json(profile), "p.json"), profile);
  MachineProfile with_steps = profile;
  with_steps.steps = {2,
                      {{{Holding::kRows}, Curve({{512, 1e-3}, {1024, 2e-3}})},
                       {{Holding::kPooledColumns, true, 1000}, Curve({{512, 3e-3}})}}};
  EXPECT_EQ(parse_machine_profile(to_json(with_steps), "p.json"), with_steps);
  EXPECT_THAT(problem_of(replaced(to_json(with_steps), "columns pooled", "columns pulled")),
              HasSubstr("p.json.steps.held[1].holding is \"columns pulled\"; expected a way"));
  MachineProfile hosts = profile;
  hosts.hosts = {"a", "a", "b"};
  hosts.exchange.inside = Curve({{64, 1e-5}, {4096, 2e-5}});
  EXPECT_EQ(parse_machine_profile(to_json(hosts), "p.json"), hosts);
}

TEST(MachineProfile, BadFilesAreNamedWithTheFieldThatIsWrong) {
  const std::string good = to_json(test_profile(2));
  EXPECT_EQ(problem_of(good), "none");
  EXPECT_THAT(problem_of("{\"a\": 1}"), HasSubstr("p.json: not a file of emblem probe"));
  EXPECT_THAT(problem_of("# plan"), HasSubstr("p.json: not a file of emblem probe: line 1, column 1"));
  EXPECT_THAT(problem_of(good.substr(0, good.size() / 2)), HasSubstr("not a file of emblem probe"));
  EXPECT_EQ(
      problem_of(replaced(good, "\"threads\": 1", "\"threads\": \"x\"")),
      "p.json.threads is \"x\"; expected a whole number of at least 1; make the file again with "
      "emblem probe");
  EXPECT_EQ(problem_of(replaced(good, "\"dense_sum\"", "\"dense_som\"")),
            "p.json has no \"dense_sum\"; make the file again with emblem probe");
  EXPECT_THAT(problem_of(replaced(good, "\"emblem_probe\": 2", "\"emblem_probe\": 1")),
              HasSubstr("p.json.emblem_probe is 1; expected 2; make the file again"));
  EXPECT_THAT(problem_of(replaced(good, "\"dim\": 16", "\"dim\": 0")),
              HasSubstr("p.json.tables[0].dim is 0; expected a whole number of at least 1"));
  EXPECT_THAT(problem_of(replaced(good, "\"free_bytes\": 1073741824", "\"free_bytes\": -1")),
              HasSubstr("p.json.memory[0].free_bytes is -1"));
}

TEST(MachineProfile, EveryRankHasMemoryOnce) {
  MachineProfile profile = test_profile(2);
  profile.memory[1].ranks = {0};
  EXPECT_THAT(problem_of(to_json(profile)), HasSubstr("expected each of ranks 0 to 1 once"));
  profile.memory.pop_back();
  EXPECT_THAT(problem_of(to_json(profile)), HasSubstr("expected all of 2 ranks"));
}

TEST(MachineProfile, TablesThatWereNotProbedAreRefused) {
  EXPECT_THAT([] { test_profile(1).costs_of({.name = "C1", .dim = 32}); },
              ThrowsMessage<Error>("the probe has no tables like C1 (dim 32, fp32, sgd, static); "
                                   "run emblem probe with this pipeline"));
}

}  // namespace
}  // namespace emblem
