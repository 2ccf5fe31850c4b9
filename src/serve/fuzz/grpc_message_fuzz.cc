// Fuzzes what the bytes of gRPC's messages meet: the scanner that knows their cost, the parser, the
// decoder of requests. The first byte chooses the message. Whatever comes in, it takes no more
// memory than was taken from the budget before.
#include <cstdlib>
#include <memory>

#include "serve/grpc/health.pb.h"
#include "serve/grpc/messages.h"
#include "serve/grpc/parsed.h"

namespace emblem {
namespace {

using Bytes = std::span<const std::byte>;

void require(bool promise) {
  if (!promise) std::abort();
}

template <class Message>
std::shared_ptr<Parsed<Message>> read(Bytes bytes, MemoryBudget& budget) {
  auto parsed = std::make_shared<Parsed<Message>>();
  parsed->lease = MemoryBudget::Lease(budget);
  parse(bytes, *parsed);
  require(parsed->lease.bytes() >= parsed->message.SpaceUsedLong());
  return parsed;
}

void run(uint8_t choice, Bytes bytes, MemoryBudget& budget) {
  if (choice % 3 == 0) {
    read<grpc::health::v1::HealthCheckRequest>(bytes, budget);
  } else if (choice % 3 == 1) {
    read<inference::RepositoryModelLoadRequest>(bytes, budget);
  } else {
    const auto parsed = read<inference::ModelInferRequest>(bytes, budget);
    const SharedMemoryRegions regions;
    const DecodedInfer decoded = decode_infer({parsed, &parsed->message}, regions, &budget);
    for (const InputTensor& input : decoded.request->inputs) {
      require(input.shape.size() <= kMostDimensions && input.name.size() <= kMostNameBytes);
      check_bytes(input);
    }
  }
}

}  // namespace
}  // namespace emblem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  emblem::MemoryBudget budget(1 << 22);
  try {
    emblem::run(data[0], std::as_bytes(std::span(data + 1, size - 1)), budget);
  } catch (const emblem::Error&) {
    // The answer to most of what a fuzzer makes.
  }
  emblem::require(budget.used() == 0);
  return 0;
}
