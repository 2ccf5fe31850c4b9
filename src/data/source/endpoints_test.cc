// Several configurations in one process: each has its own stores.
#include <gmock/gmock.h>

#include <future>
#include <map>
#include <thread>

#include "core/files/temp_folder_test.h"
#include "data/format/reader.h"
#include "data/source/objects/memory_store_test.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Endpoints : public testing::Test {
 protected:
  std::shared_ptr<RemoteStorage> storage(const std::string& endpoint) {
    RemoteOptions options;
    options.cache_dir = folder_.path("cache");
    options.cache_bytes = int64_t{1} << 30;
    options.endpoint = endpoint;
    return std::make_shared<RemoteStorage>(
        options, [this](const ObjectUri&, const StoreOptions& given) {
          return std::make_unique<TestObjectStore>(stores_[given.endpoint]);
        });
  }

  static std::string read(RemoteStorage& from, const std::string& uri) {
    const auto file = from.open(uri);
    std::string content(static_cast<size_t>(file->bytes()), '\0');
    file->read(0, file->bytes(), content.data());
    return content;
  }

  TempFolder folder_;
  std::map<std::string, MemoryObjects> stores_;  // by endpoint
};

TEST_F(Endpoints, TheSameAddressIsAnotherObjectAtAnotherEndpoint) {
  stores_["http://a"].put("s3://b/x", "rows of a");
  stores_["http://b"].put("s3://b/x", "rows of b");  // of the same size, time and ETag
  const auto a = storage("http://a"), b = storage("http://b");
  for (int round = 0; round < 2; ++round) {  // from the store, then from the cache
    EXPECT_EQ(read(*a, "s3://b/x"), "rows of a");
    EXPECT_EQ(read(*b, "s3://b/x"), "rows of b");
    EXPECT_EQ(read(*storage("http://a"), "s3://b/x"), "rows of a");
  }
  EXPECT_NE(a->identity_of("s3://b/x"), b->identity_of("s3://b/x"));
}

TEST_F(Endpoints, ASlashAtTheEndIsTheSameEndpoint) {
  EXPECT_EQ(storage("http://a/")->identity_of("s3://b/x"),
            storage("http://a")->identity_of("s3://b/x"));
}

TEST_F(Endpoints, ReadersUseTheStorageThatTheyAreGiven) {
  stores_["http://a"].put("s3://b/x.csv", "label,n\n1,2\n");
  stores_["http://b"].put("s3://b/x.csv", "label,n\n0,7\n");
  for (const auto& [endpoint, label] :
       {std::pair{"http://a", int64_t{1}}, {"http://b", int64_t{0}}}) {
    const DataSource source = guess_source("s3://b/x.csv", {}, storage(endpoint));
    Block block;
    const auto reader = open_reader(source);
    ASSERT_TRUE(reader->next(block));
    EXPECT_EQ(block.columns[0].ints[0], label);
  }
  EXPECT_THAT([] { guess_source("s3://b/x.csv"); },
              ThrowsMessage<Error>(HasSubstr("no settings of stores were given")));
}

TEST_F(Endpoints, AStoreThatIsSlowToConnectDoesNotKeepOthersWaiting) {
  stores_[""].put("s3://fast/x", "content");
  std::promise<void> reached, released;
  RemoteOptions options;
  options.cache_dir = folder_.path("cache");
  options.cache_bytes = 1 << 20;
  RemoteStorage shared(options, [&](const ObjectUri& uri, const StoreOptions&) {
    if (uri.authority == "slow") {
      reached.set_value();
      released.get_future().wait();
    }
    return std::make_unique<TestObjectStore>(stores_[""]);
  });
  std::thread waiting([&] { shared.find("s3://slow/x"); });
  reached.get_future().wait();
  EXPECT_EQ(read(shared, "s3://fast/x"), "content");  // hangs where a lock is held meanwhile
  released.set_value();
  waiting.join();
}

}  // namespace
}  // namespace emblem
