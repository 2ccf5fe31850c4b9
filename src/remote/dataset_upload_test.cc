#include "remote/dataset_upload.h"

#include <gmock/gmock.h>

#include "data/source/data_set_manifest.h"
#include "remote/remote_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

class DatasetUploadTest : public RemoteFolderTest {
 protected:
  static void write(const std::string& folder, const std::string& rows) {
    std::filesystem::create_directories(folder + "/train");
    for (int i = 0; i < 3; ++i)
      write_text_file_atomically(cat(folder, "/train/part-", i, ".csv"), rows);
    write_text_file_atomically(folder + "/metadata.json", "{}");
  }
  void upload(RemoteStorage& storage, const std::string& rows, Overwrite overwrite) {
    write_to_store(storage, "s3://b/set", overwrite,
                   [&](const std::string& folder) { write(folder, rows); });
  }
  // What a reader gets of it: the contents of all parts, or that it is refused.
  std::set<std::string> read(RemoteStorage& storage, const std::string& uri) {
    try {
      std::set<std::string> rows;
      const auto found = storage.expand(uri);
      EXPECT_THAT(found, SizeIs(3));
      for (const ObjectInfo& object : found) rows.insert(all_.get(object.uri));
      return rows;
    } catch (const Error& error) {
      const bool is_refused = std::string(error.what()).find("is not whole") != std::string::npos;
      return {is_refused ? "refused" : "none"};
    }
  }
};

TEST_F(DatasetUploadTest, AnUploadThatFailsAtAnyRequestIsNotReadAsWhole) {
  for (const auto kind : {RequestFaults::Kind::kDenied, RequestFaults::Kind::kAnswerLost}) {
    bool reached_end = false;
    for (int first = 0; !reached_end && first < 200; ++first) {
      SCOPED_TRACE(first);
      all_.objects.clear();
      const auto one = storage();
      upload(*one, "old", Overwrite::kRefuse);
      {
        const RequestFaults faults(all_, kind, first, 8);
        try {
          upload(*one, "new", Overwrite::kReplace);
        } catch (const Error&) {
        }
        reached_end = faults.failed() == 0;
      }
      for (const char* uri : {"s3://b/set/train/", "s3://b/set/train/part-*.csv", "s3://b/set/tr*"})
        EXPECT_THAT((std::set<std::set<std::string>>{{"old"}, {"new"}, {"refused"}}),
                    testing::Contains(read(*one, uri)))
            << uri;
      if (reached_end) {
        EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"new"});
      }
      upload(*one, "mended", Overwrite::kReplace);
      EXPECT_EQ(read(*one, "s3://b/set/train/"), std::set<std::string>{"mended"});
      if (HasFailure()) return;
    }
    EXPECT_TRUE(reached_end);
  }
}

TEST_F(DatasetUploadTest, AMissingOrCutObjectIsNamed) {
  const auto one = storage();
  upload(*one, "rows", Overwrite::kRefuse);
  all_.put("s3://b/set/train/part-1.csv", "ro");
  EXPECT_THAT([&] { one->expand("s3://b/set/train/"); },
              ThrowsMessage<Error>(HasSubstr("part-1.csv has 2 bytes, but 4 were written")));
  all_.remove("s3://b/set/train/part-1.csv");
  EXPECT_THAT([&] { one->expand("s3://b/set/train/"); },
              ThrowsMessage<Error>(HasSubstr("part-1.csv is missing")));
  all_.remove(std::string("s3://b/set/train/") + kDataSetManifest);
  EXPECT_THAT(one->expand("s3://b/set/train/"), SizeIs(2));  // as any other folder
}

TEST_F(DatasetUploadTest, ObjectsOfOthersAreNotReplacedUnasked) {
  all_.put("s3://b/set/x", "x");
  const auto one = storage();
  EXPECT_THAT([&] { upload(*one, "rows", Overwrite::kRefuse); },
              ThrowsMessage<Error>(HasSubstr("has 1 objects already")));
  EXPECT_THAT(all_.objects, SizeIs(1));
}

}  // namespace
}  // namespace emblem
