#include "serve/net/connection_limits.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

size_t descriptors_of(size_t connections) { return connections + most_refused(connections) + 1; }

TEST(ConnectionLimits, StayAsTheyAreWhereDescriptorsSuffice) {
  const ConnectionLimits fitting = fit_connections({4096, 64}, 2, 2, 100'000);
  EXPECT_EQ(fitting.each, 4096u);
  EXPECT_EQ(fitting.small, 64u);
}

TEST(ConnectionLimits, AllPortsTogetherNeedNoMoreThanThereIs) {
  for (size_t descriptors = 60; descriptors < 12'000; descriptors += 37) {
    const ConnectionLimits fitting = fit_connections({4096, 64}, 2, 2, descriptors);
    EXPECT_LE(2 * descriptors_of(fitting.each) + 2 * descriptors_of(fitting.small), descriptors);
    EXPECT_GE(fitting.each, 4u);
    EXPECT_GE(fitting.small, 4u);
    EXPECT_GE(4 * fitting.each, std::min<size_t>(descriptors, 4 * 4096)) << descriptors;
  }
}

TEST(ConnectionLimits, TooFewDescriptorsAreAnError) {
  try {
    fit_connections({4096, 64}, 2, 2, 10);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("raise ulimit -n"));
  }
}

TEST(ConnectionLimits, FewConnectionsCanBeAskedFor) {
  EXPECT_EQ(fit_connections({1, 64}, 2, 2, 1000).each, 1u);
}

}  // namespace
}  // namespace emblem
