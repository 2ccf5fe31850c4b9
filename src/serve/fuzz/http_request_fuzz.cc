// Fuzzes what the bytes of HTTP requests meet: JSON, tensors, shared memory, compression, paths.
// The first byte chooses which. Whatever comes in, the only way out is a result that holds what it
// promises, or an Error.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "serve/http/api/infer.h"
#include "serve/http/message/body.h"
#include "serve/http/message/target.h"
#include "serve/protocol/encoding/json_reader.h"

namespace emblem {
namespace {

using Bytes = std::span<const std::byte>;

void require(bool promise) {
  if (!promise) std::abort();
}

HttpRequest make_request(Bytes bytes) {
  HttpRequest request;
  request.may_use_regions = true;
  if (bytes.size() >= 2) {
    uint16_t json_bytes = 0;
    std::memcpy(&json_bytes, bytes.data(), sizeof(json_bytes));
    bytes = bytes.subspan(2);
    if (json_bytes != 0xFFFF) request.json_bytes = json_bytes;
  }
  // A copy of exactly this size, so that the sanitizer sees every byte read beyond it.
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  request.body = *copy;
  request.memory = copy;
  return request;
}

// Regions with one, "r", of 1000 bytes, whose object ends in the middle of them.
const SharedMemoryRegions& regions_with_one() {
  static const std::unique_ptr<SharedMemoryRegions> regions = [] {
    const std::string key = cat("/emblem_fuzz_", getpid());
    const int file = shm_open(key.c_str(), O_RDWR | O_CREAT, 0600);
    require(file >= 0 && ftruncate(file, 1000) == 0);
    auto made = std::make_unique<SharedMemoryRegions>(
        SharedMemoryOptions{.allowed_prefixes = {"emblem_fuzz_"}, .max_tensor_bytes = 800});
    made->register_system({"r", key, 0, 1000});
    require(ftruncate(file, 500) == 0);
    close(file);
    shm_unlink(key.c_str());
    return made;
  }();
  return *regions;
}

// Sends the inputs back as outputs of the same names.
void infer(Bytes bytes) {
  const SharedMemoryRegions& regions = regions_with_one();
  MemoryBudget budget(size_t{1} << 22);
  HttpRequest request = make_request(bytes);
  request.memory_budget = &budget;
  InferCall call = read_infer_request(request, "m", "1", regions);
  InferResponse response{"m", "1", call.request->id, {}};
  for (const InputTensor& input : call.request->inputs) {
    check_bytes(input);
    response.outputs.push_back(
        {input.name, input.type, input.shape, {input.data.begin(), input.data.end()}});
  }
  const size_t most = json_bytes_of(response, call.forms);
  const HttpResponse http = write_infer_response(std::move(response), call.forms);
  require(http.body.size() <= most);
  JsonReader written(http.body);
  written.skip();
  written.end();
}

void expand(Bytes bytes, ContentEncoding encoding) {
  constexpr size_t kLimit = 1 << 16, kStep = 1 << 12;
  MemoryBudget budget(kLimit * 4);
  {
    HttpBodyExpander expander({nullptr, bytes}, encoding, 7, kLimit, &budget);
    HttpBodyExpander::State state = HttpBodyExpander::State::kMore;
    while (state == HttpBodyExpander::State::kMore) state = expander.step(kStep);
    if (state == HttpBodyExpander::State::kComplete) {
      const HttpBody body = expander.take();
      require(body.bytes.size() <= kLimit && budget.used() >= body.bytes.size());
    }
  }
  require(budget.used() == 0);
}

void split(Bytes bytes) {
  for (const std::string& name : split_target(text_of(bytes))) {
    require(!name.empty() && name != "." && name != "..");
    require(name.find('/') == std::string::npos && name.find('\0') == std::string::npos);
  }
}

void skip(Bytes bytes) {
  JsonReader reader(text_of(bytes));
  reader.skip();
  reader.end();
}

void run(uint8_t choice, Bytes bytes) {
  switch (choice % 6) {
    case 0:
      return expand(bytes, ContentEncoding::kGzip);
    case 1:
      return expand(bytes, ContentEncoding::kDeflate);
    case 2:
      return split(bytes);
    case 3:
      choose_encoding(text_of(bytes));
      return skip(bytes);
    default:
      return infer(bytes);
  }
}

}  // namespace
}  // namespace emblem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    emblem::run(data[0], std::as_bytes(std::span(data + 1, size - 1)));
  } catch (const emblem::Error&) {
    // The answer to most of what a fuzzer makes.
  }
  return 0;
}
