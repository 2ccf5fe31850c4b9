#include "core/system/module.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/system/process.h"
#include "emblem/error.h"

namespace emblem {
namespace {

TEST(Module, ThatIsMissingIsNamedWithItsFolderAndWhatToDo) {
  EXPECT_EQ(find_module("nosuch"), "");
  const std::string folder = std::filesystem::path(program_path()).parent_path().string();
  EXPECT_THAT(
      [] { load_module("nosuch", "install it"); },
      testing::ThrowsMessage<Error>(cat("no libemblem_nosuch.so in ", folder, "; install it")));
}

}  // namespace
}  // namespace emblem
