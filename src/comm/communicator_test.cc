#include "comm/communicator.h"

#include <gmock/gmock.h>

#include <numeric>

#include "comm/ranks_test.h"
#include "comm/sum_all.h"
#include "core/random.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<unsigned char>;

Piece piece_of(Bytes& bytes) { return {bytes.data(), bytes.size()}; }

// What rank `from` sends to rank `to` in round `round`: both can compute it.
Bytes expected_bytes(size_t count, int from, int to, int round) {
  Bytes bytes(count);
  const uint64_t seed =
      static_cast<uint64_t>(from * 1000 + to) * 1000 + static_cast<uint64_t>(round);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<unsigned char>(random_bits(seed, 1, i / 64) >> (i % 57));
  return bytes;
}

// All ranks draw the same sizes: none, one byte, some, now and then many.
size_t drawn_size(int from, int to, int round) {
  const uint64_t drawn = random_bits(static_cast<uint64_t>(round), static_cast<uint64_t>(from),
                                     static_cast<uint64_t>(to));
  switch (drawn % 5) {
    case 0:
      return 0;
    case 1:
      return 1;
    case 2:
      return 1 + (drawn >> 8) % 200;
    case 3:
      return (drawn >> 8) % 20000;
    default:
      return (drawn >> 8) % 300000;
  }
}

void exchange_and_check(Communicator& ranks, int round,
                        const std::function<size_t(int from, int to)>& size) {
  std::vector<Bytes> sent, received;
  std::vector<Piece> send, receive;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    sent.push_back(expected_bytes(size(ranks.rank(), peer), ranks.rank(), peer, round));
    received.emplace_back(size(peer, ranks.rank()));
  }
  for (Bytes& bytes : sent) send.push_back(piece_of(bytes));
  for (Bytes& bytes : received) receive.push_back(piece_of(bytes));
  ranks.exchange(Context{}, send, receive);
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const Bytes& got = received[static_cast<size_t>(peer)];
    ASSERT_EQ(got, expected_bytes(got.size(), peer, ranks.rank(), round))
        << "from " << peer << " to " << ranks.rank() << " in round " << round;
  }
}

class CommunicatorTest : public testing::TestWithParam<TestRanks> {};
INSTANTIATE_TEST_SUITE_P(Transports, CommunicatorTest, testing::ValuesIn(all_test_ranks()),
                         test_name);

TEST_P(CommunicatorTest, KnowsItsRanksAndHosts) {
  GetParam().run([&](Communicator& ranks) {
    if (GetParam().size != 0) {
      EXPECT_EQ(ranks.size(), GetParam().size);
    }
    EXPECT_EQ(ranks.transport(), GetParam().transport);
    ASSERT_EQ(ranks.hosts().size(), static_cast<size_t>(ranks.size()));
    EXPECT_NO_THROW(ranks.check());
  });
}

TEST_P(CommunicatorTest, ExchangesRandomSizesIncludingNone) {
  GetParam().run([](Communicator& ranks) {
    for (int round = 0; round < 30; ++round)
      exchange_and_check(ranks, round,
                         [&](int from, int to) { return drawn_size(from, to, round); });
  });
}

TEST_P(CommunicatorTest, ExchangesMoreThanBuffersHoldInBothDirectionsAtOnce) {
  const size_t bytes = GetParam().size > 4 ? size_t{2} << 20 : size_t{12} << 20;
  GetParam().run(
      [&](Communicator& ranks) { exchange_and_check(ranks, 1, [&](int, int) { return bytes; }); });
}

TEST_P(CommunicatorTest, ExchangesWhereOnlyOneRankSends) {
  GetParam().run([](Communicator& ranks) {
    for (int sender = 0; sender < ranks.size(); ++sender)
      exchange_and_check(ranks, sender,
                         [&](int from, int) { return from == sender ? 70000u : 0u; });
  });
}

TEST_P(CommunicatorTest, ExchangesNothing) {
  GetParam().run([](Communicator& ranks) {
    for (int round = 0; round < 3; ++round)
      exchange_and_check(ranks, round, [](int, int) { return 0u; });
    ranks.barrier();
  });
}

TEST_P(CommunicatorTest, GathersFromAll) {
  GetParam().run([](Communicator& ranks) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{400000}}) {
      Bytes mine = expected_bytes(bytes, ranks.rank(), 0, 0);
      Bytes all(bytes * static_cast<size_t>(ranks.size()));
      ranks.gather_all(Context{}, piece_of(mine), piece_of(all));
      for (int from = 0; from < ranks.size(); ++from) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(bytes) * from;
        ASSERT_EQ(Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes)),
                  expected_bytes(bytes, from, 0, 0));
      }
    }
  });
}

TEST_P(CommunicatorTest, BroadcastsFromEveryRank) {
  GetParam().run([](Communicator& ranks) {
    for (const size_t bytes : {size_t{0}, size_t{3}, size_t{65536}, size_t{1000003}}) {
      for (int from = 0; from < ranks.size(); ++from) {
        const Bytes expected = expected_bytes(bytes, from, 0, 1);
        Bytes mine = ranks.rank() == from ? expected : Bytes(bytes);
        ranks.broadcast(Context{}, piece_of(mine), from);
        ASSERT_EQ(mine, expected);
      }
    }
  });
}

TEST_P(CommunicatorTest, BarrierWaitsForAll) {
  std::atomic<int> arrived{0};
  GetParam().run([&](Communicator& ranks) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      ranks.barrier();
      if (GetParam().transport != "mpi") {  // whose ranks are processes
        EXPECT_GE(arrived.load(), round * ranks.size());
      }
      ranks.barrier();
    }
  });
}

// Sums of such numbers depend on their order.
float awkward_value(int rank, size_t i) {
  const uint64_t bits = random_bits(7, static_cast<uint64_t>(rank), i);
  return std::ldexp(static_cast<float>(bits % 1000003) - 500000.0f,
                    static_cast<int>(bits % 40) - 20);
}

float tree_sum(int first, int count, size_t i) {
  if (count == 1) return awkward_value(first, i);
  int left = 1;
  while (2 * left < count) left *= 2;
  return tree_sum(first, left, i) + tree_sum(first + left, count - left, i);
}

TEST_P(CommunicatorTest, SumsHaveTheBitsOfTheTreeOverRanks) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{5003}}) {
    GetParam().run([&](Communicator& ranks) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = awkward_value(ranks.rank(), i);
      sum_all(Context{}, ranks, std::span(values));
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], tree_sum(0, ranks.size(), i));
    });
  }
}

TEST_P(CommunicatorTest, SumsDoublesAndCounts) {
  GetParam().run([](Communicator& ranks) {
    std::vector<double> reals(9, 0.5);
    std::vector<int64_t> counts = {1, ranks.rank(), int64_t{1} << 58};
    sum_all(Context{}, ranks, std::span(reals));
    sum_all(Context{}, ranks, std::span(counts));
    const int64_t n = ranks.size();
    EXPECT_EQ(reals, std::vector<double>(9, 0.5 * static_cast<double>(n)));
    EXPECT_EQ(counts, (std::vector<int64_t>{n, n * (n - 1) / 2, n * (int64_t{1} << 58)}));
  });
}

TEST_P(CommunicatorTest, RefusesWrongArguments) {
  GetParam().run([](Communicator& ranks) {
    Bytes bytes(8);
    const std::vector<Piece> too_many(static_cast<size_t>(ranks.size()) + 1);
    EXPECT_THROW(ranks.exchange(Context{}, too_many, too_many), Error);
    EXPECT_THROW(ranks.broadcast(Context{}, piece_of(bytes), ranks.size()), Error);
    if (ranks.size() > 1) {
      EXPECT_THROW(ranks.gather_all(Context{}, piece_of(bytes), piece_of(bytes)), Error);
    }
    ranks.barrier();
  });
}

TEST_P(CommunicatorTest, RefusesMemoryOfAGpu) {
  GetParam().run([](Communicator& ranks) {
    const std::vector<Piece> none(static_cast<size_t>(ranks.size()));
    Context gpu;
    gpu.device = Device::kCuda;
    EXPECT_THROW(ranks.exchange(gpu, none, none), Error);
  });
}

std::string error_of_thread_ranks(int size, const RankBody& body, double seconds = kTestSeconds) {
  try {
    run_thread_ranks(size, body, seconds);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ThreadRanks, RethrowTheErrorOfTheRankThatFailed) {
  for (int size : {2, 4, 8}) {
    std::atomic<int> others{0};
    const std::string error = error_of_thread_ranks(size, [&](Communicator& ranks) {
      if (ranks.rank() == 1) throw Error(ErrorCode::kCorruption, "bad file");
      try {
        for (;;) ranks.barrier();
      } catch (const RankError& peer) {
        EXPECT_EQ(peer.rank(), 1);
        EXPECT_THAT(peer.what(), HasSubstr("rank 1 (host "));
        EXPECT_THAT(peer.what(), HasSubstr("): bad file"));
        ++others;
        throw;
      }
    });
    EXPECT_EQ(error, "bad file");
    EXPECT_EQ(others, size - 1);
  }
}

TEST(ThreadRanks, NameARankThatDoesNotArrive) {
  const std::string error = error_of_thread_ranks(
      2,
      [&](Communicator& ranks) {
        if (ranks.rank() == 0) ranks.barrier();
      },
      0.05);
  EXPECT_THAT(error, HasSubstr("rank 1 (host "));
  EXPECT_THAT(error, HasSubstr("timed out after 0.05 s"));
}

TEST(ThreadRanks, SayWhichSizesDiffer) {
  const std::string error = error_of_thread_ranks(2, [&](Communicator& ranks) {
    Bytes bytes(ranks.rank() == 0 ? 8 : 16);
    ranks.broadcast(Context{}, piece_of(bytes), 0);
  });
  EXPECT_THAT(error, HasSubstr("rank 0 sends 8 bytes, rank 1 expects 16"));
}

TEST(SumTree, GivesTheSameBitsForGroupsOfPowersOfTwo) {
  constexpr size_t kParts = 8, kValues = 3000;
  std::vector<std::vector<float>> all(kParts, std::vector<float>(kValues)), grouped;
  for (size_t part = 0; part < kParts; ++part)
    for (size_t i = 0; i < kValues; ++i) all[part][i] = awkward_value(static_cast<int>(part), i);
  grouped = all;
  const auto sum = [](std::span<std::vector<float>> parts) {
    std::vector<std::span<float>> views(parts.begin(), parts.end());
    sum_tree(views);
  };
  sum(all);
  sum(std::span(grouped).first(4));
  sum(std::span(grouped).last(4));
  std::vector<std::vector<float>> halves = {grouped[0], grouped[4]};
  sum(halves);
  EXPECT_EQ(halves[0], all[0]);
}

}  // namespace
}  // namespace emblem
