#include "data/source/known_objects.h"

#include <gtest/gtest.h>

#include "data/source/objects/object_file.h"

namespace emblem {
namespace {

TEST(KnownObjects, AreForgottenWhenThereAreManyAndTheirListingIsOld) {
  KnownObjects known(10);
  const auto uri = [](int listing, int object) { return cat("s3://b/", listing, "/", object); };
  for (int listing = 0; listing < 100; ++listing) {
    std::vector<ObjectInfo> found;
    for (int object = 0; object < 5; ++object) found.push_back({uri(listing, object), listing});
    known.add(found);
    EXPECT_LE(known.size(), 40u);
    for (int kept = std::max(0, listing - 7); kept <= listing; ++kept)
      ASSERT_EQ(known.find(uri(kept, 4))->bytes, kept) << listing;
  }
  EXPECT_FALSE(known.find(uri(0, 0)));
}

TEST(KnownObjects, AreAllKeptWhereTheyAreFew) {
  KnownObjects known;
  known.add({{"s3://b/first", 1}});
  for (int i = 0; i < 100; ++i) known.add({{"s3://b/x", i}});
  EXPECT_EQ(known.find("s3://b/first")->bytes, 1);
  EXPECT_EQ(known.find("s3://b/x")->bytes, 99);
}

TEST(KnownObjects, OpenedByNameDisplaceNoListing) {
  KnownObjects known(10);
  std::vector<ObjectInfo> listed;
  for (int i = 0; i < 20; ++i) listed.push_back({cat("s3://b/listed/", i), i});
  known.add(listed);
  for (int i = 0; i < 100; ++i) known.add_one({cat("s3://b/opened/", i), i});
  EXPECT_EQ(known.find("s3://b/listed/19")->bytes, 19);
  EXPECT_EQ(known.size(), 20u);
}

TEST(OpenObjects, AreSharedWhileTheyAreHeldAndForgottenLater) {
  OpenObjects open;
  int made = 0;
  const auto make = [&] {
    ++made;
    // Only its identity is looked at.
    return std::shared_ptr<ObjectFile>(std::make_shared<int>(),
                                       reinterpret_cast<ObjectFile*>(&made));
  };
  const auto held = open.find_or_make("held", make);
  for (int i = 0; i < 10000; ++i) {
    open.find_or_make(cat("file ", i), make);
    ASSERT_LE(open.size(), 1100u);
  }
  EXPECT_EQ(made, 10001);
  EXPECT_EQ(open.find_or_make("held", make), held);
  EXPECT_EQ(made, 10001);
}

}  // namespace
}  // namespace emblem
