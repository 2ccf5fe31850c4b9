#include "bench/comm/collective.h"

#include <algorithm>

#include "comm/sum_all.h"
#include "core/buffer.h"
#include "core/host_copy.h"

namespace emblem {
namespace {

unsigned char pattern(size_t from, size_t to, size_t i) {
  return static_cast<unsigned char>(from * 31 + to * 7 + i);
}

[[noreturn]] void wrong(const char* name, size_t at) {
  throw Error(ErrorCode::kInternal, cat("bench comm: ", name, " gave a wrong byte at ", at));
}

// A rank's buffer has a part for every rank.
class Parts {
 public:
  Parts(const Context& context, const Communicator& ranks, size_t bytes)
      : count(static_cast<size_t>(ranks.size())),
        part_bytes((bytes + count - 1) / count),
        context_(context),
        bytes_(context.device, static_cast<int64_t>(part_bytes * count)) {}

  Piece whole() { return {bytes_.data(), size()}; }
  Piece part(size_t rank) { return {bytes_.data() + rank * part_bytes, part_bytes}; }
  size_t size() const { return part_bytes * count; }

  // Byte i of part r becomes value(r, i).
  template <class Value>
  void fill(const Value& value) {
    std::vector<unsigned char> host(size());
    for (size_t i = 0; i < host.size(); ++i) host[i] = value(i / part_bytes, i % part_bytes);
    to_device(context_, host, bytes_.view());
  }
  // Throws unless byte i of part r is value(r, i).
  template <class Value>
  void check(const char* name, const Value& value) const {
    const std::vector<unsigned char> host = bytes_.to_host(context_);
    for (size_t i = 0; i < host.size(); ++i)
      if (host[i] != value(i / part_bytes, i % part_bytes)) wrong(name, i);
  }

  const size_t count, part_bytes;

 private:
  const Context& context_;
  Buffer<unsigned char> bytes_;
};

class Exchange : public Collective {
 public:
  Exchange(const Context& context, Communicator& ranks, size_t bytes)
      : context_(context),
        ranks_(ranks),
        sent_(context, ranks, bytes),
        received_(context, ranks, bytes) {
    for (size_t r = 0; r < sent_.count; ++r) {
      send_.push_back(sent_.part(r));
      receive_.push_back(received_.part(r));
    }
  }
  void run() override { ranks_.exchange(context_, send_, receive_); }
  void prepare() override {
    sent_.fill([&](size_t to, size_t i) { return pattern(own(), to, i); });
    received_.fill([](size_t, size_t) { return static_cast<unsigned char>(0); });
  }
  void check() const override {
    received_.check("exchange", [&](size_t from, size_t i) { return pattern(from, own(), i); });
  }
  size_t received() const override { return sent_.part_bytes * (sent_.count - 1); }

 private:
  size_t own() const { return static_cast<size_t>(ranks_.rank()); }

  const Context& context_;
  Communicator& ranks_;
  Parts sent_, received_;
  std::vector<Piece> send_, receive_;
};

class GatherAll : public Collective {
 public:
  GatherAll(const Context& context, Communicator& ranks, size_t bytes)
      : context_(context),
        ranks_(ranks),
        all_(context, ranks, bytes),
        mine_(context, ranks, all_.size()) {}
  void run() override { ranks_.gather_all(context_, mine_.part(0), all_.whole()); }
  void prepare() override {
    const auto own = static_cast<size_t>(ranks_.rank());
    mine_.fill([&](size_t, size_t i) { return pattern(own, 0, i); });
  }
  void check() const override {
    all_.check("gather_all", [](size_t from, size_t i) { return pattern(from, 0, i); });
  }
  size_t received() const override { return all_.part_bytes * (all_.count - 1); }

 private:
  const Context& context_;
  Communicator& ranks_;
  Parts all_, mine_;  // of mine_ one part
};

// From another rank each time: it waits for the broadcast before, so that calls do not overlap.
class Broadcast : public Collective {
 public:
  Broadcast(const Context& context, Communicator& ranks, size_t bytes)
      : context_(context), ranks_(ranks), all_(context, ranks, bytes) {}
  void run() override {
    ranks_.broadcast(context_, all_.whole(), from_);
    from_ = (from_ + 1) % ranks_.size();
  }
  void prepare() override {
    const bool is_source = ranks_.rank() == from_;
    all_.fill([&](size_t part, size_t i) {
      return is_source ? pattern(0, part, i) : static_cast<unsigned char>(0);
    });
  }
  void check() const override {
    all_.check("broadcast", [](size_t part, size_t i) { return pattern(0, part, i); });
  }
  // On average: its source receives nothing.
  size_t received() const override { return all_.part_bytes * (all_.count - 1); }
  void run_floor(CommFloor& floor) const override { floor.pass(all_.size()); }

 private:
  const Context& context_;
  Communicator& ranks_;
  Parts all_;
  int from_ = 0;
};

class SumAll : public Collective {
 public:
  SumAll(Communicator& ranks, size_t bytes)
      : ranks_(ranks), values_(std::max<size_t>(1, bytes / sizeof(float))) {}
  // Repeated sums would grow without end, which takes no more time.
  void run() override { sum_all(Context{}, ranks_, std::span(values_)); }
  void prepare() override {
    for (size_t i = 0; i < values_.size(); ++i)
      values_[i] = static_cast<float>(ranks_.rank() + static_cast<int>(i % 1000));
  }
  void check() const override {
    const int n = ranks_.size();
    for (size_t i = 0; i < values_.size(); ++i)
      if (values_[i] != static_cast<float>(n * (n - 1) / 2 + n * static_cast<int>(i % 1000)))
        wrong("sum_all", i);
  }
  size_t received() const override {
    const auto count = static_cast<size_t>(ranks_.size());
    return 2 * ((values_.size() + count - 1) / count * sizeof(float)) * (count - 1);
  }
  void run_floor(CommFloor& floor) const override {
    floor.run(received() / 2);
    floor.run(received() / 2);
  }

 private:
  Communicator& ranks_;
  std::vector<float> values_;
};

class Barrier : public Collective {
 public:
  explicit Barrier(Communicator& ranks) : ranks_(ranks) {}
  void run() override { ranks_.barrier(); }
  void prepare() override {}
  void check() const override {}
  size_t received() const override { return static_cast<size_t>(ranks_.size() - 1); }

 private:
  Communicator& ranks_;
};

}  // namespace

std::unique_ptr<Collective> make_collective(const Context& context, const std::string& name,
                                            Communicator& ranks, size_t bytes) {
  if (name == "exchange") return std::make_unique<Exchange>(context, ranks, bytes);
  if (name == "gather_all") return std::make_unique<GatherAll>(context, ranks, bytes);
  if (name == "broadcast") return std::make_unique<Broadcast>(context, ranks, bytes);
  if (name == "sum_all") return std::make_unique<SumAll>(ranks, bytes);
  EMBLEM_REQUIRE(name == "barrier", "unknown collective \"", name,
                 "\"; expected exchange, gather_all, broadcast, sum_all or barrier");
  return std::make_unique<Barrier>(ranks);
}

}  // namespace emblem
