// Contents that arrive damaged, from stores that say which MD5 they have.
#include "data/source/objects/content_check.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "core/files/temp_folder_test.h"
#include "data/source/objects/content_md5.h"
#include "data/source/objects/memory_store_test.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string md5(const std::string& text) {
  Md5 sum;
  sum.add(text.data(), text.size());
  return sum.hex();
}

// As stores compute it for objects that are uploaded in parts.
std::string md5_of_parts(const std::string& content, size_t part_bytes) {
  Md5 all;
  size_t parts = 0;
  for (size_t at = 0; at < content.size(); at += part_bytes, ++parts) {
    Md5 part;
    part.add(content.data() + at, std::min(part_bytes, content.size() - at));
    const auto digest = part.digest();
    all.add(digest.data(), digest.size());
  }
  return cat(all.hex(), "-", parts);
}

// One bit of the next `flips` reads is another.
class DamagedReader final : public ObjectReader {
 public:
  DamagedReader(std::unique_ptr<ObjectReader> reader, std::atomic<int>& flips)
      : reader_(std::move(reader)), flips_(flips) {}
  int64_t read_at(int64_t offset, int64_t count, void* into) override {
    const int64_t got = reader_->read_at(offset, count, into);
    if (got > 0 && flips_.fetch_sub(1) > 0) *static_cast<char*>(into) ^= 4;
    return got;
  }

 private:
  std::unique_ptr<ObjectReader> reader_;
  std::atomic<int>& flips_;
};

// Has ETags as S3 has them.
class DamagedStore final : public ObjectStore {
 public:
  // Objects were uploaded in parts of `uploaded` bytes; 0: by one request.
  DamagedStore(MemoryObjects& all, std::atomic<int>& flips, size_t uploaded)
      : all_(all), store_(all), flips_(flips), uploaded_(uploaded) {}
  std::optional<ObjectInfo> find(const ObjectUri& uri) override {
    auto info = store_.find(uri);
    if (!info) return info;
    const std::string content = all_.get(uri.text());
    info->md5 = uploaded_ == 0 ? md5(content) : md5_of_parts(content, uploaded_);
    return info;
  }
  ObjectListing list(const ObjectUri& folder, ListDepth depth) override {
    return store_.list(folder, depth);
  }
  std::unique_ptr<ObjectReader> open(const ObjectUri& uri, const ObjectInfo& info) override {
    return std::make_unique<DamagedReader>(store_.open(uri, info), flips_);
  }
  void write(const ObjectUri& uri, std::string_view content) override {
    store_.write(uri, content);
  }
  void upload(const std::string& file, const ObjectUri& uri, const BeforePiece& before) override {
    store_.upload(file, uri, before);
  }
  void remove(const ObjectUri& uri) override { store_.remove(uri); }
  void remove_folder(const ObjectUri& uri) override { store_.remove_folder(uri); }

 private:
  MemoryObjects& all_;
  TestObjectStore store_;
  std::atomic<int>& flips_;
  size_t uploaded_;
};

constexpr int kAlways = 1 << 30;

class DamagedContent : public testing::Test {
 protected:
  DamagedContent() { ::setenv("EMBLEM_TEST_RETRY_MS", "1", 1); }
  ~DamagedContent() override { ::unsetenv("EMBLEM_CHECK_ETAGS"); }

  std::unique_ptr<RemoteStorage> storage(const std::string& endpoint = "http://127.0.0.1:9") {
    RemoteOptions options;
    options.cache_dir = folder_.path("cache");
    options.cache_bytes = int64_t{1} << 30;
    options.download_threads = 2;
    options.part_bytes = part_bytes_;
    options.endpoint = endpoint;
    return std::make_unique<RemoteStorage>(options, [this](const ObjectUri&, const StoreOptions&) {
      return std::make_unique<DamagedStore>(all_, flips_, uploaded_);
    });
  }

  std::string read(RemoteStorage& from, size_t bytes) {
    std::string content(bytes, '\0');
    from.open("s3://b/x")->read(0, static_cast<int64_t>(bytes), content.data());
    return content;
  }

  TempFolder folder_;
  MemoryObjects all_;
  std::atomic<int> flips_{0};
  int64_t part_bytes_ = 65536;
  size_t uploaded_ = 0;
};

TEST_F(DamagedContent, OfASmallObjectIsFetchedAgain) {
  all_.put("s3://b/x", test_content(1000));
  flips_ = 2;
  EXPECT_EQ(read(*storage(), 1000), test_content(1000));
}

TEST_F(DamagedContent, ThatStaysIsAnErrorAndNotKept) {
  all_.put("s3://b/x", test_content(1000));
  flips_ = kAlways;
  EXPECT_THAT([&] { read(*storage(), 1000); },
              ThrowsMessage<Error>(AllOf(HasSubstr("s3://b/x arrived damaged"),
                                         HasSubstr(md5(test_content(1000))),
                                         HasSubstr("EMBLEM_CHECK_ETAGS=0"))));
  flips_ = 0;
  EXPECT_EQ(read(*storage(), 1000), test_content(1000));
}

TEST_F(DamagedContent, OfALargeObjectIsAnErrorBeforeItsLastPartIsRead) {
  const std::string content = test_content(300000);
  all_.put("s3://b/x", content);
  flips_ = 1;
  EXPECT_THAT([&] { read(*storage(), 300000); }, ThrowsMessage<Error>(HasSubstr("damaged")));
  EXPECT_EQ(read(*storage(), 300000), content) << "nothing of it was kept";
}

TEST_F(DamagedContent, OfTextsAndCopiesIsFound) {
  all_.put("s3://b/x", "some text");
  const auto shared = storage();
  flips_ = 1;
  EXPECT_EQ(shared->read_text("s3://b/x"), "some text");
  flips_ = kAlways;
  EXPECT_THAT([&] { shared->read_text("s3://b/x"); },
              ThrowsMessage<Error>(HasSubstr("arrived damaged")));
  const ObjectInfo info = *shared->find("s3://b/x");
  shared->check_copy(info, folder_.write("good", "some text"));
  EXPECT_THAT([&] { shared->check_copy(info, folder_.write("bad", "some texu")); },
              ThrowsMessage<Error>(HasSubstr("arrived damaged")));
}

TEST_F(DamagedContent, IsNotLookedForWhereThatIsSwitchedOff) {
  ::setenv("EMBLEM_CHECK_ETAGS", "0", 1);
  all_.put("s3://b/x", test_content(1000));
  flips_ = kAlways;
  EXPECT_NE(read(*storage(), 1000), test_content(1000));
}

constexpr size_t kMiB = size_t{1} << 20;

TEST_F(DamagedContent, OfAnObjectThatWasUploadedInPartsIsFound) {
  const std::string content = test_content(6 * kMiB);
  all_.put("s3://b/x", content);
  uploaded_ = 5 * kMiB;
  part_bytes_ = 32 * kMiB;
  flips_ = 1;
  EXPECT_EQ(read(*storage(), content.size()), content) << "fetched again";
  std::filesystem::remove_all(folder_.path("cache"));
  flips_ = 1;
  EXPECT_EQ(storage()->read_text("s3://b/x"), content);
  part_bytes_ = kMiB;
  flips_ = 1;
  EXPECT_THAT([&] { read(*storage(), content.size()); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("s3://b/x arrived damaged"), HasSubstr("-2; start again"))));
  EXPECT_EQ(read(*storage(), content.size()), content) << "nothing of it was kept";
  const auto shared = storage();
  const ObjectInfo info = *shared->find("s3://b/x");
  std::string damaged = content;
  damaged[kMiB] ^= 1;
  shared->check_copy(info, folder_.write("good", content));
  EXPECT_THAT([&] { shared->check_copy(info, folder_.write("bad", damaged)); },
              ThrowsMessage<Error>(HasSubstr("arrived damaged")));
}

// Nothing tells their ETags from those of damaged contents, but the same content arrives again.
TEST_F(DamagedContent, IsNotSeenInObjectsThatWereUploadedInPartsOfUnusualSizes) {
  const std::string content = test_content(6 * kMiB);
  all_.put("s3://b/x", content);
  uploaded_ = 5 * kMiB + 1;
  for (const int64_t part_bytes : {kMiB, 32 * kMiB}) {
    part_bytes_ = part_bytes;
    std::filesystem::remove_all(folder_.path("cache"));
    testing::internal::CaptureStderr();
    const auto shared = storage();
    EXPECT_EQ(read(*shared, content.size()), content);
    EXPECT_EQ(shared->read_text("s3://b/x"), content);
    const std::string logged = testing::internal::GetCapturedStderr();
    EXPECT_THAT(logged, HasSubstr("fits its content with no usual size of parts"));
    EXPECT_EQ(logged.find("the ETag"), logged.rfind("the ETag")) << "told once";
    flips_ = 1;
    EXPECT_NE(shared->read_text("s3://b/x"), content);
  }
  uploaded_ = 5 * kMiB + 1;
  const auto shared = storage();
  shared->check_copy(*shared->find("s3://b/x"), folder_.write("good", content));
}

TEST(ContentMd5, FitsObjectsThatWereUploadedInPartsOfUsualSizes) {
  const std::string content = test_content(9 * kMiB + 17);
  const auto found = [&](const std::string& stated, const std::string& arrived) {
    ContentMd5 sum(stated, static_cast<int64_t>(arrived.size()));
    constexpr size_t kPiece = 3000001;
    for (size_t at = 0; at < arrived.size(); at += kPiece)
      sum.add(arrived.data() + at, std::min(kPiece, arrived.size() - at));
    return sum.found();
  };
  for (const size_t size :
       {kMiB, 5 * kMiB, 7 * kMiB, size_t{8000000}, 8 * kMiB, 9 * kMiB, 10 * kMiB, 100 * kMiB})
    EXPECT_EQ(found(md5_of_parts(content, size), content), md5_of_parts(content, size)) << size;
  std::string damaged = content;
  damaged.back() ^= 1;
  EXPECT_EQ(found(md5_of_parts(content, 5 * kMiB), damaged), "");
  EXPECT_EQ(found(md5_of_parts(content, 5 * kMiB + 1), content), "");
}

TEST(ContentCheck, TriesTheSizeOfPartsFirstThatHasFitted) {
  const ObjectUri uri = parse_object_uri("s3://b/x");
  ContentCheck check(uri, "http://127.0.0.1:9000");
  const std::string content = test_content(9 * kMiB + 17);
  int passes = 0;
  const auto problem = [&](const std::string& stated, const std::string& arrived) {
    passes = 0;
    return check.problem(uri, stated, static_cast<int64_t>(arrived.size()),
                         [&](const ContentCheck::Take& take) {
                           ++passes;
                           take(arrived.data(), arrived.size());
                         });
  };
  for (const size_t size : {5 * kMiB, 5 * kMiB, 8 * kMiB, 5000000ul, 8 * kMiB}) {
    EXPECT_EQ(problem(md5_of_parts(content, size), content), "") << size;
    ContentMd5 likely(md5_of_parts(content, size), 9 * kMiB + 17, static_cast<int64_t>(size));
    likely.add(content.data(), content.size());
    EXPECT_EQ(likely.found(), md5_of_parts(content, size));
    EXPECT_TRUE(likely.tried_likely_alone());
  }
  EXPECT_EQ(problem(md5_of_parts(content, 8 * kMiB), content), "");
  EXPECT_EQ(passes, 1);
  EXPECT_EQ(problem(md5_of_parts(content, 5 * kMiB), content), "");
  EXPECT_EQ(passes, 2);
  EXPECT_THAT(problem(md5_of_parts(content, 5 * kMiB + 1), content), HasSubstr("damaged"));
}

// SSE-KMS: what arrives by TLS is what the store has, and no ETag of the bucket is an MD5.
TEST(ContentCheck, TakesEtagsForOthersOnlyWhereTlsProtectsAndNoneHasFitted) {
  const ObjectUri uri = parse_object_uri("s3://b/x");
  ContentCheck plain(uri, "http://127.0.0.1:9000");
  EXPECT_EQ(plain.problem(uri, "", "abc"), "") << "the store said nothing";
  EXPECT_EQ(plain.problem(uri, "abc", "abc"), "");
  EXPECT_THAT(plain.problem(uri, "abc", "def"), HasSubstr("arrived damaged"));

  testing::internal::CaptureStderr();
  ContentCheck secure(uri, "");
  EXPECT_EQ(secure.problem(uri, "abc", "def"), "");
  EXPECT_EQ(secure.problem(uri, "abd", "def"), "");
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, HasSubstr("the ETag of s3://b/x is not the MD5 of its content"));
  EXPECT_EQ(logged.find("ETag"), logged.rfind("ETag")) << "told once";
  EXPECT_EQ(secure.problem(uri, "abc", "abc"), "");
  EXPECT_THAT(secure.problem(uri, "abc", "def"), HasSubstr("arrived damaged"));

  EXPECT_EQ(ContentCheck(uri, "").problem(uri, "abc-2", ""), "");
  EXPECT_EQ(secure.problem(uri, "abc-2", "abc-2"), "");
  EXPECT_THAT(secure.problem(uri, "abc-2", ""), HasSubstr("arrived damaged"));
  EXPECT_THAT(plain.problem(uri, "abc-2", ""), HasSubstr("arrived damaged"));
}

}  // namespace
}  // namespace emblem
