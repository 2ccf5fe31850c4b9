// Nothing whose size a client chooses is allocated before it is taken from the memory budget: an
// allocator that watches a whole server, over every type of request.
#include <execinfo.h>
#include <gmock/gmock.h>
#include <malloc.h>

#include <array>
#include <atomic>

#include "serve/accounting_requests_test.h"
#include "serve/accounting_retrieval_test.h"
#include "serve/engine/hps/table_sources.h"
#include "serve/grpc/methods.h"
#include "serve/grpc/raw_client_test.h"
#include "serve/http/client_test.h"
#include "serve/http/compress_test.h"
#include "serve/serving.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EMBLEM_WATCHES_ALLOCATIONS false
#else
#define EMBLEM_WATCHES_ALLOCATIONS true
#endif

namespace emblem {
namespace {

std::atomic<int64_t> live_bytes = 0;  // live bytes of the whole process
using Budgets = std::vector<const MemoryBudget*>;
std::atomic<const Budgets*> watched = nullptr;
int64_t live_before = 0, used_before = 0;
std::atomic<int64_t> worst = 0;  // live bytes beyond those that were taken from the budget
std::array<void*, 40> worst_frames;
std::atomic<int> worst_depth = 0;
thread_local bool is_client = false;  // what a client allocates here is not the server's

// Below, blocks are part of the slack.
constexpr size_t kLooksAt = size_t{64} << 10;
// Bytes for buffers of connections and of zlib.
constexpr int64_t kSlack = int64_t{8} << 20;

int64_t used_of(const Budgets& budgets) {
  int64_t used = 0;
  for (const MemoryBudget* budget : budgets) used += static_cast<int64_t>(budget->used());
  return used;
}

void look(size_t bytes) {
  const Budgets* budgets = watched.load(std::memory_order_acquire);
  if (budgets == nullptr || bytes < kLooksAt) return;
  const int64_t excess = live_bytes - live_before - (used_of(*budgets) - used_before);
  if (excess <= worst) return;
  worst = excess;
  if (excess > kSlack) worst_depth = backtrace(worst_frames.data(), worst_frames.size());
}

void* counted(void* data) {
  if (data == nullptr || is_client) return data;
  const size_t bytes = malloc_usable_size(data);
  live_bytes += static_cast<int64_t>(bytes);
  look(bytes);
  return data;
}

void uncounted(void* data) {
  if (!is_client) live_bytes -= static_cast<int64_t>(malloc_usable_size(data));
}

}  // namespace
}  // namespace emblem

#if EMBLEM_WATCHES_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t bytes) { return emblem::counted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return emblem::counted(__libc_calloc(count, bytes)); }
void* realloc(void* data, size_t bytes) {
  const size_t before = malloc_usable_size(data);
  void* moved = __libc_realloc(data, bytes);
  if ((moved != nullptr || bytes == 0) && !emblem::is_client)
    emblem::live_bytes -= static_cast<int64_t>(before);
  return emblem::counted(moved);
}
void* memalign(size_t alignment, size_t bytes) {
  return emblem::counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** to, size_t alignment, size_t bytes) {
  *to = memalign(alignment, bytes);
  return *to == nullptr ? 12 : 0;  // ENOMEM
}
void free(void* data) {
  emblem::uncounted(data);
  __libc_free(data);
}
}
#endif

namespace emblem {
namespace {

constexpr size_t kBudget = size_t{256} << 20;

// While `act` runs, nothing may be allocated that is not taken from one of the budgets. A client
// has its answer before the server has given back all that the request took, and what is given back
// during the next request looks like a lack there: what is never taken shows every time.
template <class Act>
void watch(const std::string& name, const Budgets& budgets, Act&& act) {
  SCOPED_TRACE(name);
  for (int time = 0; time < 3 && (time == 0 || worst > kSlack); ++time) {
    worst = 0;
    worst_depth = 0;
    live_before = live_bytes;
    used_before = used_of(budgets);
    watched.store(&budgets, std::memory_order_release);
    act();
    watched.store(nullptr, std::memory_order_release);
  }
  EXPECT_LE(worst, kSlack) << "bytes were allocated without being taken from the budget";
  if (worst > kSlack) backtrace_symbols_fd(worst_frames.data(), worst_depth, 2);
}

struct AsClient {
  AsClient() { is_client = true; }
  ~AsClient() { is_client = false; }
};

class Accounting : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::array<void*, 4> frames;
    backtrace(frames.data(), frames.size());  // loads what it needs
    models_ = std::make_unique<AccountingModels>();
  }
  static void TearDownTestSuite() { models_.reset(); }

  void SetUp() override {
    if (!EMBLEM_WATCHES_ALLOCATIONS) GTEST_SKIP() << "sanitizers have allocators of their own";
  }

  static ServingOptions options() {
    ServingOptions options;
    for (NetOptions* port :
         std::initializer_list<NetOptions*>{&options.http, &options.grpc, &options.metrics})
      port->address = "127.0.0.1";
    options.models.repository = models_->repository();
    options.models.control = ModelServerOptions::Control::kExplicit;
    options.models.models = {"rows", "bags", "crossed"};
    options.max_memory = kBudget;
    options.access.allow_shared_memory = true;
    return options;
  }

  // The status of the answer. `others` are servers that work for this one.
  static int ask(const Serving& serving, const std::string& name, const std::string& request,
                 const std::vector<const Serving*>& others = {}) {
    int status = 0;
    Budgets budgets = {&serving.memory()};
    for (const Serving* other : others) budgets.push_back(&other->memory());
    watch(name, budgets, [&] {
      const AsClient as_client;
      TestClient client(serving.http_port());
      client.send(request);
      status = client.receive().status;
    });
    return status;
  }

  static std::string call(const Serving& serving, const std::string& method,
                          const std::string& frames) {
    std::string status;
    watch(method, {&serving.memory()}, [&] {
      const AsClient as_client;
      RawClient client(serving.grpc_port());
      client.send(frames);
      status = client.answer(1)["grpc-status"];
    });
    return status;
  }

  static std::unique_ptr<AccountingModels> models_;
};

std::unique_ptr<AccountingModels> Accounting::models_;

TEST_F(Accounting, TheWatchSeesWhatIsNotTaken) {
  MemoryBudget budget(kBudget);
  worst = 0;
  live_before = live_bytes;
  used_before = 0;
  const Budgets budgets = {&budget};
  watched = &budgets;
  { const std::vector<char> unknown(size_t{16} << 20); }
  watched = nullptr;
  EXPECT_GT(worst, kSlack);
  watch("taken", budgets, [&] {
    MemoryBudget::Lease lease(budget);
    lease.grow(size_t{17} << 20);
    const std::vector<char> known(size_t{16} << 20);
  });
}

TEST_F(Accounting, OfInferenceOverHttp) {
  const Serving serving(options());
  for (const HttpCase& one : http_inference_cases()) {
    const int status = ask(serving, one.name, one.request);
    EXPECT_EQ(status, one.status) << one.name;
  }
  EXPECT_LE(serving.memory().used(), kBudget / 2) << "kept after the last request";
}

TEST_F(Accounting, OfAllOtherPathsOverHttp) {
  const Serving serving(options());
  for (const HttpCase& one : http_path_cases()) {
    const int status = ask(serving, one.name, one.request);
    EXPECT_EQ(status, one.status) << one.name;
  }
}

TEST_F(Accounting, OfInferenceOverGrpc) {
  const Serving serving(options());
  for (const GrpcCase& one : grpc_inference_cases())
    EXPECT_EQ(call(serving, one.name, one.frames), one.status) << one.name;
}

TEST_F(Accounting, OfEveryMethodOverGrpc) {
  const Serving serving(options());
  for (const auto& [path, method] : grpc_methods()) {
    for (const GrpcCase& one : grpc_method_cases(path)) {
      const std::string status = call(serving, one.name, one.frames);
      EXPECT_NE(status, "") << one.name;
      if (method.has_payload) continue;
      EXPECT_EQ(status, "8") << one.name;
    }
  }
}

TEST_F(Accounting, OfComputedFeatures) {
  ServingOptions computed = options();
  computed.models.models = {"computed"};
  const Serving serving(computed);
  for (const HttpCase& one : computed_cases())
    EXPECT_EQ(ask(serving, one.name, one.request), one.status) << one.name;
  EXPECT_LE(serving.memory().used(), kBudget / 2) << "kept after the last request";
}

// Rows in memory, and those that are copied out of a database.
TEST_F(Accounting, OfHpsLookups) {
  const TempFolder folder;
  const std::string on_disk =
      cat(R"("persistent_db": {"type": "rocks_db", "path": ")", folder.path("rocks"),
          R"("}, "volatile_db": {"type": "disabled"}, )");
  for (const std::string& databases : {std::string(), on_disk}) {
    SCOPED_TRACE(databases);
    ServingOptions hps = options();
    hps.models.ps_config = write_hps(folder.path("hps"), databases);
    hps.models.repository = folder.path("hps/repository");
    hps.models.models = {"tables"};
    const Serving serving(hps);
    EXPECT_EQ(ask(serving, "a key", hps_request(1, 1)), 200);
    EXPECT_EQ(ask(serving, "rows", hps_request(400'000, 400'000)), 200);
    EXPECT_EQ(ask(serving, "default rows", hps_request(400'000, 0)), 200);
    EXPECT_EQ(ask(serving, "as many as ps.json allows", hps_request(1'000'000, 0)), 200);
    EXPECT_EQ(ask(serving, "more than ps.json allows", hps_request(1'000'001, 0)), 400);
    EXPECT_LE(serving.memory().used(), kBudget / 2) << "kept after the last request";
  }
}

TEST_F(Accounting, OfRowsOfATableServer) {
  ServingOptions parts = options();
  parts.models.models = {"rows"};
  parts.table_parts = TablePartsOptions{.parts = {0, kParts}};
  const Serving serving(parts);
  const ModelId id = model_id_of("rows", 1, models_->repository() + "/rows/1");
  EXPECT_EQ(ask(serving, "keys of a table", rows_request(id, 1, 1'000'000)), 200);
  EXPECT_EQ(ask(serving, "many tables", rows_request(id, 60'000, 0)), 404);
  EXPECT_EQ(ask(serving, "versions in use", status_request(500)), 200);
  EXPECT_EQ(ask(serving, "too many versions in use", status_request(500'000)), 400);
  EXPECT_EQ(ask(serving, "no status", posted_gzip(kStatusPath, std::string(16'000'000, ' '))), 400);
}

// Rows of two table servers in this process, whose memory counts with that of the front end.
TEST_F(Accounting, OfAFrontEnd) {
  const auto of_parts = [](PartRange parts) {
    ServingOptions servers = options();
    servers.models.models = {"rows", "bags"};
    servers.table_parts = TablePartsOptions{.parts = parts};
    return servers;
  };
  const Serving low(of_parts({0, kParts / 2})), high(of_parts({kParts / 2, kParts}));
  ServingOptions front = options();
  front.models.models = {"rows", "bags"};
  front.table_servers.emplace();
  for (const Serving* server : {&low, &high})
    front.table_servers->servers.push_back({"127.0.0.1", server->http_port()});
  front.table_servers->timeout = std::chrono::seconds(60);
  const Serving serving(front);
  for (const HttpCase& one : front_end_cases())
    EXPECT_EQ(ask(serving, one.name, one.request, {&low, &high}), one.status) << one.name;
  for (const Serving* server : {&serving, &low, &high})
    EXPECT_LE(server->memory().used(), kBudget / 2) << "kept after the last request";
}

// Searches on the thread of the engine, and on several.
TEST_F(Accounting, OfItemSearch) {
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(threads);
    const TempFolder folder;
    add_model_with_index(folder.path("model"), folder.path("repository"), threads);
    ServingOptions items = options();
    items.models.repository = folder.path("repository");
    items.models.models = {"items"};
    const Serving serving(items);
    for (const HttpCase& one : item_search_cases())
      EXPECT_EQ(ask(serving, one.name, one.request), one.status) << one.name;
    EXPECT_LE(serving.memory().used(), kBudget / 2) << "kept after the last request";
  }
}

}  // namespace
}  // namespace emblem
