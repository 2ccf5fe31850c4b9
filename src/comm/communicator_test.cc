#include "comm/communicator.h"

#include <gmock/gmock.h>

#include <numeric>

#include "comm/ranks_test.h"
#include "comm/sum_all.h"
#include "core/math/random.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<unsigned char>;

using DeviceBytes = Buffer<unsigned char>;

Piece piece_of(Bytes& bytes) { return {bytes.data(), bytes.size()}; }
Piece piece_of(DeviceBytes& bytes) { return {bytes.data(), static_cast<size_t>(bytes.size())}; }

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

void exchange_and_check(const Context& context, Communicator& ranks, int round,
                        const std::function<size_t(int from, int to)>& size) {
  std::vector<DeviceBytes> sent, received;
  std::vector<Piece> send, receive;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    sent.push_back(DeviceBytes::from(
        context, expected_bytes(size(ranks.rank(), peer), ranks.rank(), peer, round)));
    received.emplace_back(context.device, static_cast<int64_t>(size(peer, ranks.rank())));
  }
  for (DeviceBytes& bytes : sent) send.push_back(piece_of(bytes));
  for (DeviceBytes& bytes : received) receive.push_back(piece_of(bytes));
  ranks.exchange(context, send, receive);
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const Bytes got = received[static_cast<size_t>(peer)].to_host(context);
    ASSERT_EQ(got, expected_bytes(got.size(), peer, ranks.rank(), round))
        << "from " << peer << " to " << ranks.rank() << " in round " << round;
  }
}

class CommunicatorTest : public testing::TestWithParam<TestRanks> {
 protected:
  // Runs `body` with a context of the device on which the ranks exchange memory.
  static void run(const std::function<void(const Context&, Communicator&)>& body) {
    GetParam().run([&](Communicator& ranks) {
      const RankContext context(ranks, GetParam().device);
      body(context, ranks);
      context.get().synchronize();
    });
  }
};
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
  run([](const Context& context, Communicator& ranks) {
    for (int round = 0; round < 30; ++round)
      exchange_and_check(context, ranks, round,
                         [&](int from, int to) { return drawn_size(from, to, round); });
  });
}

TEST_P(CommunicatorTest, ExchangesMoreThanBuffersHoldInBothDirectionsAtOnce) {
  const size_t bytes = GetParam().size > 4 ? size_t{2} << 20 : size_t{12} << 20;
  run([&](const Context& context, Communicator& ranks) {
    exchange_and_check(context, ranks, 1, [&](int, int) { return bytes; });
  });
}

TEST_P(CommunicatorTest, ExchangesWhereOnlyOneRankSends) {
  run([](const Context& context, Communicator& ranks) {
    for (int sender = 0; sender < ranks.size(); ++sender)
      exchange_and_check(context, ranks, sender,
                         [&](int from, int) { return from == sender ? 70000u : 0u; });
  });
}

TEST_P(CommunicatorTest, ExchangesNothing) {
  run([](const Context& context, Communicator& ranks) {
    for (int round = 0; round < 3; ++round)
      exchange_and_check(context, ranks, round, [](int, int) { return 0u; });
    ranks.barrier();
  });
}

// Pieces as they lie in the buffers of a step: next to each other, at any address.
TEST_P(CommunicatorTest, ExchangesPiecesOfOneBufferAtAnyAddress) {
  run([](const Context& context, Communicator& ranks) {
    const auto size = [](int from, int to) {
      return static_cast<size_t>(3000 + 5 * from + 7 * to);
    };
    Bytes sent, expected;
    for (int peer = 0; peer < ranks.size(); ++peer) {
      const Bytes to = expected_bytes(size(ranks.rank(), peer), ranks.rank(), peer, 1);
      const Bytes from = expected_bytes(size(peer, ranks.rank()), peer, ranks.rank(), 1);
      sent.insert(sent.end(), to.begin(), to.end());
      expected.insert(expected.end(), from.begin(), from.end());
    }
    DeviceBytes all_sent = DeviceBytes::from(context, sent);
    DeviceBytes all_received(context.device, static_cast<int64_t>(expected.size()));
    std::vector<Piece> send, receive;
    size_t to = 0, from = 0;
    for (int peer = 0; peer < ranks.size(); ++peer) {
      send.push_back({all_sent.data() + to, size(ranks.rank(), peer)});
      receive.push_back({all_received.data() + from, size(peer, ranks.rank())});
      to += send.back().bytes;
      from += receive.back().bytes;
    }
    ranks.exchange(context, send, receive);
    EXPECT_EQ(all_received.to_host(context), expected);
  });
}

// Every round prepares its data after work that takes the GPU a while, and overwrites it right
// after the exchange, without waiting for the GPU.
TEST_P(CommunicatorTest, ExchangesInTheOrderOfTheStream) {
  constexpr size_t kBytes = 20000;
  constexpr int kRounds = 24;
  run([](const Context& context, Communicator& ranks) {
    const auto count = static_cast<size_t>(ranks.size());
    const size_t all = kBytes * count;
    Bytes prepared, expected;
    for (int round = 0; round < kRounds; ++round) {
      for (int peer = 0; peer < ranks.size(); ++peer) {
        const Bytes to = expected_bytes(kBytes, ranks.rank(), peer, round);
        const Bytes from = expected_bytes(kBytes, peer, ranks.rank(), round);
        prepared.insert(prepared.end(), to.begin(), to.end());
        expected.insert(expected.end(), from.begin(), from.end());
      }
    }
    const DeviceBytes source = DeviceBytes::from(context, prepared);
    DeviceBytes sent(context.device, static_cast<int64_t>(all)),
        received(context.device, sent.size());
    DeviceBytes collected(context.device, source.size());
    DeviceBytes work(context.device, context.device == Device::kCpu ? 0 : int64_t{512} << 20);
    std::vector<Piece> send, receive;
    for (size_t peer = 0; peer < count; ++peer) {
      send.push_back({sent.data() + peer * kBytes, kBytes});
      receive.push_back({received.data() + peer * kBytes, kBytes});
    }
    for (int round = 0; round < kRounds; ++round) {
      const size_t first = static_cast<size_t>(round) * all;
      // Another rank is late in each round.
      if (round % ranks.size() == ranks.rank())
        detail::zero(context, work.data(), static_cast<size_t>(work.size()));
      detail::copy(context, sent.data(), source.data() + first, all);
      ranks.exchange(context, send, receive);
      detail::zero(context, sent.data(), all);
      if (round % ranks.size() == ranks.rank())
        detail::zero(context, work.data(), static_cast<size_t>(work.size()));
      detail::copy(context, collected.data() + first, received.data(), all);
    }
    EXPECT_EQ(collected.to_host(context), expected);
    ranks.barrier();
  });
}

// The same with peer memory: every rank takes what is in it and leaves an answer there.
TEST_P(CommunicatorTest, UsesPeerMemoryInTheOrderOfTheStream) {
  static constexpr size_t kBytes = 20000;
  constexpr int kRounds = 24;
  run([](const Context& context, Communicator& ranks) {
    if (!ranks.can_use_peer_memory(context)) {
      const std::vector<Piece> none(static_cast<size_t>(ranks.size()));
      EXPECT_THROW(ranks.use_peer_memory(context, none, [](auto) {}), Error);
      return;
    }
    const auto count = static_cast<size_t>(ranks.size());
    const size_t all = kBytes * count;
    const auto add = [&](Bytes& to, int from, int peer, int round) {
      const Bytes bytes = expected_bytes(kBytes, from, peer, round);
      to.insert(to.end(), bytes.begin(), bytes.end());
    };
    Bytes prepared, answers, expected_taken, expected_answers;
    for (int round = 0; round < kRounds; ++round) {
      for (int peer = 0; peer < ranks.size(); ++peer) {
        add(prepared, ranks.rank(), peer, round);
        add(answers, ranks.rank(), peer, round + kRounds);
        add(expected_taken, peer, ranks.rank(), round);
        add(expected_answers, peer, ranks.rank(), round + kRounds);
      }
    }
    const DeviceBytes source = DeviceBytes::from(context, prepared);
    const DeviceBytes own_answers = DeviceBytes::from(context, answers);
    DeviceBytes memory(context.device, static_cast<int64_t>(all));
    DeviceBytes taken(context.device, source.size()), answered(context.device, source.size());
    DeviceBytes work(context.device, int64_t{512} << 20);
    std::vector<Piece> own;
    for (size_t peer = 0; peer < count; ++peer)
      own.push_back({memory.data() + peer * kBytes, kBytes});
    for (int round = 0; round < kRounds; ++round) {
      const size_t first = static_cast<size_t>(round) * all;
      const auto be_late = [&](int after) {
        if ((round + after) % ranks.size() == ranks.rank())
          detail::zero(context, work.data(), static_cast<size_t>(work.size()));
      };
      be_late(0);
      detail::copy(context, memory.data(), source.data() + first, all);
      ranks.use_peer_memory(context, own, [&](std::span<const Piece> peers) {
        be_late(1);
        for (size_t peer = 0; peer < count; ++peer) {
          const size_t at = first + peer * kBytes;
          EXPECT_EQ(peers[peer].bytes, kBytes);
          detail::copy(context, taken.data() + at, peers[peer].data, kBytes);
          detail::copy(context, peers[peer].data, own_answers.data() + at, kBytes);
        }
      });
      detail::copy(context, answered.data() + first, memory.data(), all);
      detail::zero(context, memory.data(), all);
    }
    EXPECT_EQ(taken.to_host(context), expected_taken);
    EXPECT_EQ(answered.to_host(context), expected_answers);
    ranks.barrier();
  });
}

TEST_P(CommunicatorTest, ExchangesMoreThan4GiBAtOnce) {
  if (GetParam().device == Device::kCpu || GetParam().size > 2)
    GTEST_SKIP() << "would take the memory or time of the others' tests";
  run([](const Context& context, Communicator& ranks) {
    constexpr size_t kBytes = (size_t{1} << 32) + 12345;
    const Bytes marker = expected_bytes(1000, 0, ranks.size() - 1, 0);
    const bool sends = ranks.rank() == 0, receives = ranks.rank() == ranks.size() - 1;
    const auto buffer_if = [&](bool has) {
      return DeviceBytes::zeros(context, has ? static_cast<int64_t>(kBytes) : 0);
    };
    DeviceBytes sent = buffer_if(sends), received = buffer_if(receives);
    const std::vector<size_t> places = {0, (size_t{1} << 31) - 500, (size_t{1} << 32) - 500,
                                        kBytes - marker.size()};
    const auto at = [&](DeviceBytes& bytes, size_t place) {
      return View<unsigned char>{bytes.data() + place, static_cast<int64_t>(marker.size()), 1,
                                 context.device};
    };
    if (sends)
      for (const size_t place : places) to_device(context, marker, at(sent, place));
    std::vector<Piece> send(static_cast<size_t>(ranks.size())), receive(send);
    if (sends) send.back() = piece_of(sent);
    if (receives) receive.front() = piece_of(received);
    ranks.exchange(context, send, receive);
    for (const size_t place : places)
      if (receives) {
        EXPECT_EQ(to_host(context, at(received, place)), marker);
      }
    context.synchronize();
  });
}

TEST_P(CommunicatorTest, GathersFromAll) {
  run([](const Context& context, Communicator& ranks) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{400000}}) {
      DeviceBytes mine = DeviceBytes::from(context, expected_bytes(bytes, ranks.rank(), 0, 0));
      DeviceBytes gathered(context.device, static_cast<int64_t>(bytes) * ranks.size());
      ranks.gather_all(context, piece_of(mine), piece_of(gathered));
      const Bytes all = gathered.to_host(context);
      for (int from = 0; from < ranks.size(); ++from) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(bytes) * from;
        ASSERT_EQ(Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes)),
                  expected_bytes(bytes, from, 0, 0));
      }
    }
  });
}

TEST_P(CommunicatorTest, BroadcastsFromEveryRank) {
  run([](const Context& context, Communicator& ranks) {
    for (const size_t bytes : {size_t{0}, size_t{3}, size_t{65536}, size_t{1000003}}) {
      for (int from = 0; from < ranks.size(); ++from) {
        const Bytes expected = expected_bytes(bytes, from, 0, 1);
        DeviceBytes mine =
            DeviceBytes::from(context, ranks.rank() == from ? expected : Bytes(bytes));
        ranks.broadcast(context, piece_of(mine), from);
        ASSERT_EQ(mine.to_host(context), expected);
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
      if (GetParam().size != 0) {  // else they are processes
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

TEST_P(CommunicatorTest, RefusesMemoryOfAGpuWhereItIsNotReached) {
  const bool is_reached = kHasCuda && GetParam().transport == "threads";
  if (is_reached || GetParam().device == Device::kCuda) GTEST_SKIP() << "it is reached";
  GetParam().run([](Communicator& ranks) {
    const std::vector<Piece> none(static_cast<size_t>(ranks.size()));
    Context gpu;
    gpu.device = Device::kCuda;
    EXPECT_THROW(ranks.exchange(gpu, none, none), Error);
  });
}

std::string error_of_thread_ranks(int size, const TestRankBody& body,
                                  double seconds = kTestSeconds) {
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

TEST(ThreadRanks, ContinueWhereTheUseOfPeerMemoryFails) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  const std::string error = error_of_thread_ranks(3, [&](Communicator& ranks) {
    Context context{.device = Device::kCuda};
    const auto stream = use_own_stream(context);
    DeviceBytes memory(Device::kCuda, 3);
    std::vector<Piece> own;
    for (int64_t peer = 0; peer < 3; ++peer) own.push_back({memory.data() + peer, 1});
    ranks.use_peer_memory(context, own, [&](auto) {
      if (ranks.rank() == 1) throw Error(ErrorCode::kCorruption, "bad table");
    });
    ranks.barrier();
  });
  EXPECT_EQ(error, "bad table");
}

TEST(ThreadRanks, SayWhichSizesDiffer) {
  const std::string error = error_of_thread_ranks(2, [&](Communicator& ranks) {
    Bytes bytes(ranks.rank() == 0 ? 8 : 16);
    ranks.broadcast(Context{}, piece_of(bytes), 0);
  });
  EXPECT_THAT(error, HasSubstr("rank 0 sends 8 bytes, rank 1 expects 16"));
}

TEST(OpenDeviceCommunicator, IsNotNeededWhereTheRanksReachTheMemory) {
  const auto ranks = make_thread_ranks(1);
  EXPECT_EQ(open_device_communicator(Context{}, *ranks[0], "auto"), nullptr);
  EXPECT_EQ(open_device_communicator(Context{.device = Device::kCuda}, *ranks[0], "auto"), nullptr);
}

TEST(OpenDeviceCommunicator, RefusesUnknownTransportsAndTransportsOfOtherDevices) {
  const auto ranks = make_thread_ranks(1);
  EXPECT_THROW(open_device_communicator(Context{}, *ranks[0], "pigeon"), Error);
  EXPECT_THROW(open_device_communicator(Context{}, *ranks[0], "nccl"), Error);
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
