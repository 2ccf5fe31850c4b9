#include "bench/comm/collective.h"

#include <algorithm>

#include "comm/sum_all.h"

namespace emblem {
namespace {

unsigned char pattern(int from, int to, size_t i) {
  return static_cast<unsigned char>(static_cast<size_t>(from) * 31 + static_cast<size_t>(to) * 7 +
                                    i);
}

[[noreturn]] void wrong(const char* name, size_t at) {
  throw Error(ErrorCode::kInternal, cat("bench comm: ", name, " gave a wrong byte at ", at));
}

// A rank's buffer has a part for every rank.
class Parts {
 public:
  Parts(const Communicator& ranks, size_t bytes)
      : count(static_cast<size_t>(ranks.size())),
        part_bytes((bytes + count - 1) / count),
        bytes_(part_bytes * count) {}

  Piece whole() { return {bytes_.data(), bytes_.size()}; }
  Piece part(size_t rank) { return {bytes_.data() + rank * part_bytes, part_bytes}; }
  unsigned char& operator[](size_t i) { return bytes_[i]; }
  unsigned char operator[](size_t i) const { return bytes_[i]; }
  size_t size() const { return bytes_.size(); }

  const size_t count, part_bytes;

 private:
  std::vector<unsigned char> bytes_;
};

class Exchange : public Collective {
 public:
  Exchange(Communicator& ranks, size_t bytes)
      : ranks_(ranks), sent_(ranks, bytes), received_(ranks, bytes) {
    for (size_t r = 0; r < sent_.count; ++r) {
      send_.push_back(sent_.part(r));
      receive_.push_back(received_.part(r));
    }
  }
  void run() override { ranks_.exchange(Context{}, send_, receive_); }
  void prepare() override {
    for (size_t i = 0; i < sent_.size(); ++i) {
      sent_[i] =
          pattern(ranks_.rank(), static_cast<int>(i / sent_.part_bytes), i % sent_.part_bytes);
      received_[i] = 0;
    }
  }
  void check() const override {
    for (size_t i = 0; i < received_.size(); ++i)
      if (received_[i] !=
          pattern(static_cast<int>(i / sent_.part_bytes), ranks_.rank(), i % sent_.part_bytes))
        wrong("exchange", i);
  }
  size_t received() const override { return sent_.part_bytes * (sent_.count - 1); }

 private:
  Communicator& ranks_;
  Parts sent_, received_;
  std::vector<Piece> send_, receive_;
};

class GatherAll : public Collective {
 public:
  GatherAll(Communicator& ranks, size_t bytes)
      : ranks_(ranks), all_(ranks, bytes), mine_(all_.part_bytes) {}
  void run() override { ranks_.gather_all(Context{}, {mine_.data(), mine_.size()}, all_.whole()); }
  void prepare() override {
    for (size_t i = 0; i < mine_.size(); ++i) mine_[i] = pattern(ranks_.rank(), 0, i);
  }
  void check() const override {
    for (size_t i = 0; i < all_.size(); ++i)
      if (all_[i] != pattern(static_cast<int>(i / mine_.size()), 0, i % mine_.size()))
        wrong("gather_all", i);
  }
  size_t received() const override { return all_.part_bytes * (all_.count - 1); }

 private:
  Communicator& ranks_;
  Parts all_;
  std::vector<unsigned char> mine_;
};

// From another rank each time: it waits for the broadcast before, so that calls do not overlap.
class Broadcast : public Collective {
 public:
  Broadcast(Communicator& ranks, size_t bytes) : ranks_(ranks), all_(ranks, bytes) {}
  void run() override {
    ranks_.broadcast(Context{}, all_.whole(), from_);
    from_ = (from_ + 1) % ranks_.size();
  }
  void prepare() override {
    for (size_t i = 0; i < all_.size(); ++i)
      all_[i] = ranks_.rank() == from_ ? pattern(0, 0, i) : static_cast<unsigned char>(0);
  }
  void check() const override {
    for (size_t i = 0; i < all_.size(); ++i)
      if (all_[i] != pattern(0, 0, i)) wrong("broadcast", i);
  }
  // On average: its source receives nothing.
  size_t received() const override { return all_.part_bytes * (all_.count - 1); }
  void run_floor(CommFloor& floor) const override { floor.pass(all_.size()); }

 private:
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

std::unique_ptr<Collective> make_collective(const std::string& name, Communicator& ranks,
                                            size_t bytes) {
  if (name == "exchange") return std::make_unique<Exchange>(ranks, bytes);
  if (name == "gather_all") return std::make_unique<GatherAll>(ranks, bytes);
  if (name == "broadcast") return std::make_unique<Broadcast>(ranks, bytes);
  if (name == "sum_all") return std::make_unique<SumAll>(ranks, bytes);
  EMBLEM_REQUIRE(name == "barrier", "unknown collective \"", name,
                 "\"; expected exchange, gather_all, broadcast, sum_all or barrier");
  return std::make_unique<Barrier>(ranks);
}

}  // namespace emblem
