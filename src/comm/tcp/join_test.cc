#include "comm/tcp/join.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include "comm/ranks_test.h"
#include "comm/tcp/host_name.h"
#include "comm/tcp/pending_connections.h"
#include "comm/tcp/secret.h"
#include "comm/tcp/socket.h"
#include "core/system/tcp_connect.h"
#include "core/threads/becomes_true_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

const auto kNothing = [](Communicator&) {};

FileDescriptor connect_to_port(uint16_t port) {
  const Deadline deadline = Clock::now() + std::chrono::seconds(100);
  return FileDescriptor(connect_first(resolve_host("127.0.0.1", port), deadline));
}

TEST(Join, RefusesRanksOfAnotherVersion) {
  const auto errors = errors_of_tcp_ranks(3, kNothing, [](TcpSettings& settings) {
    if (settings.join.rank == 2) settings.join.version = "9.9.9";
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("rank 2 (host h2) has emblem 9.9.9, rank 0 (host h0) has "),
                         HasSubstr("start the same version everywhere"))));
}

TEST(Join, TheNameOfAHostMayBeGiven) {
  EXPECT_EQ(rank_host_name(), host_name());
  setenv(kHostNameVariable, "a", 1);
  const TestRankBody check = [](Communicator& ranks) {
    EXPECT_EQ(ranks.hosts(), rank_hosts(std::vector<std::string>{"a", "a"}));
  };
  const auto errors =
      errors_of_tcp_ranks(2, check, [](TcpSettings& settings) { settings.join.host.clear(); });
  setenv(kHostNameVariable, "", 1);
  EXPECT_EQ(rank_host_name(), host_name());
  unsetenv(kHostNameVariable);
  EXPECT_THAT(errors, Each(""));
}

TEST(Join, RefusesAnotherConfiguration) {
  const auto errors = errors_of_tcp_ranks(2, kNothing, [](TcpSettings& settings) {
    settings.join.configuration = settings.join.rank == 0 ? 17 : 18;
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 1 (host h1) has a configuration with hash 18, rank 0 "
                                     "(host h0) has 17; start all ranks with the same pipeline")));
}

TEST(Join, RefusesAnotherNumberOfRanks) {
  const auto errors = errors_of_tcp_ranks(2, kNothing, [](TcpSettings& settings) {
    if (settings.join.rank == 1) settings.join.size = 3;
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 1 (host h1) has a number of ranks of 3, rank 0")));
}

TEST(Join, RefusesAnotherTransport) {
  const auto errors = errors_of_tcp_ranks(2, kNothing, [](TcpSettings& settings) {
    if (settings.join.rank == 1) settings.join.transport = "mpi";
  });
  EXPECT_THAT(errors, Each(HasSubstr("has transport mpi, rank 0 (host h0) has tcp")));
}

TEST(Join, RefusesTwoProcessesWithOneRank) {
  const auto errors = errors_of_tcp_ranks(3, kNothing, [](TcpSettings& settings) {
    if (settings.join.rank == 2) settings.join.rank = 1;
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("two processes are rank 1: process "),
                                 HasSubstr("give every process a rank of its own"))));
}

TEST(Join, EndsAllRanksWithTheProblemOfOne) {
  for (const int rank : {0, 2}) {
    const auto errors = errors_of_tcp_ranks(3, kNothing, [&](TcpSettings& settings) {
      if (settings.join.rank == rank) settings.join.problem = "there is no such file";
    });
    EXPECT_THAT(errors, Each(testing::StartsWith(
                            cat("rank ", rank, " (host h", rank, "): there is no such file"))));
  }
}

TEST(Join, NamesRanksThatAreMissing) {
  std::vector<std::string> errors(2);
  std::promise<uint16_t> listening;
  const auto join = [&](TcpSettings settings) {
    settings.join.join_seconds = 1;
    try {
      connect_by_tcp(settings);
    } catch (const Error& error) {
      errors[static_cast<size_t>(settings.join.rank)] = error.what();
    }
  };
  std::thread zero([&] {
    TcpSettings settings = tcp_test_settings(0, 4);
    settings.join.on_listening = [&](uint16_t port) { listening.set_value(port); };
    join(settings);
  });
  join(tcp_test_settings(1, 4, listening.get_future().get()));
  zero.join();
  EXPECT_THAT(errors[0], HasSubstr("ranks 2, 3 of 4 did not join rank 0 (host h0) at 127.0.0.1:"));
  EXPECT_THAT(errors[0], HasSubstr(" within 1 s"));
  EXPECT_EQ(errors[1], errors[0]);
}

TEST(Join, SaysThatRankZeroIsNotThere) {
  FileDescriptor unused = listen_on(resolve_host("127.0.0.1", 0).front(), 1);
  const uint16_t port = port_of(local_address(unused.get()));
  unused.close();
  TcpSettings settings = tcp_test_settings(1, 2, port);
  settings.join.join_seconds = 0.3;
  try {
    connect_by_tcp(settings);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot reach rank 0 at 127.0.0.1:"));
    EXPECT_THAT(error.what(), HasSubstr("Connection refused"));
  }
}

TEST(Join, SaysThatAnotherProgramAnswers) {
  FileDescriptor listener = listen_on(resolve_host("127.0.0.1", 0).front(), 1);
  std::thread stranger([&] {
    FileDescriptor connection(-1);
    ASSERT_TRUE(becomes_true([&] {
      connection = accept_connection(listener.get());
      return connection.get() >= 0;
    }));
    send_all(connection.get(), "HTTP/1.1 400 Bad Request\r\n\r\n",
             Clock::now() + std::chrono::seconds(100));
    char byte;
    becomes_true([&] { return recv(connection.get(), &byte, 1, MSG_DONTWAIT) == 0; });
  });
  try {
    connect_by_tcp(tcp_test_settings(1, 2, port_of(local_address(listener.get()))));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("another program answers there"));
  }
  stranger.join();
}

TEST(Join, SaysThatThePortIsInUse) {
  FileDescriptor listener = listen_on(resolve_host("127.0.0.1", 0).front(), 1);
  const uint16_t port = port_of(local_address(listener.get()));
  try {
    connect_by_tcp(tcp_test_settings(0, 2, port));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(port) +
                                        ": Address already in use; choose another port"));
  }
}

// Strangers of all kinds come before rank 1 and while it is there.
TEST(Join, IgnoresStrangers) {
  std::promise<uint16_t> listening;
  std::thread zero([&] {
    TcpSettings settings = tcp_test_settings(0, 2);
    settings.join.on_listening = [&](uint16_t port) { listening.set_value(port); };
    const auto ranks = connect_by_tcp(settings);
    ranks->barrier();
  });
  const uint16_t port = listening.get_future().get();
  std::vector<FileDescriptor> strangers;
  std::string magic_then_noise(kConnectionMagic);
  magic_then_noise += std::string(64, '\xff');
  const std::string huge = std::string(kConnectionMagic) + std::string("\x01\xff\xff\xff\x7f", 5);
  const std::string wrong_kind = std::string(kConnectionMagic) + encode(DataHello{1, 1});
  std::string short_hello = encode(MessageKind::kHello, "abc");
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, 'x'), magic_then_noise, huge,
        wrong_kind, std::string(kConnectionMagic) + short_hello, std::string("EMB"),
        std::string()}) {
    strangers.push_back(connect_to_port(port));
    send_all(strangers.back().get(), bytes, Clock::now() + std::chrono::seconds(100));
  }
  strangers.back().close();
  connect_by_tcp(tcp_test_settings(1, 2, port))->barrier();
  zero.join();
}

// Each connection is silent; the first place is free when they have had a second.
TEST(Join, SilentStrangersMakeRoomForRanks) {
  Clock::time_point now = Clock::now();
  FileDescriptor listener = listen_on(resolve_host("127.0.0.1", 0).front(), 16);
  const uint16_t port = port_of(local_address(listener.get()));
  PendingConnections pending(std::move(listener), "", {4, [&] { return now; }});
  std::vector<FileDescriptor> connections;
  for (int i = 0; i < 4; ++i) connections.push_back(connect_to_port(port));
  const auto waiting = [&] {
    std::vector<pollfd> all;
    pending.add_to(all);
    return all.size();
  };
  ASSERT_TRUE(becomes_true([&] { return pending.collect().empty() && waiting() == 4; }));
  connections.push_back(connect_to_port(port));
  send_all(connections.back().get(),
           cat(kConnectionMagic, encode(Introduction{1, 2, 1, 1, "x", "tcp", kVersion, 0})),
           Clock::now() + std::chrono::seconds(100));
  EXPECT_TRUE(pending.collect().empty());
  EXPECT_EQ(waiting(), 4u);  // not for the listener, which would be ready at once again
  now += std::chrono::seconds(1);
  EXPECT_TRUE(becomes_true([&] { return pending.collect().size() == 1; }));
  EXPECT_EQ(waiting(), 1u);
}

// Rank 0 of a job of 2 with a secret, and rank 1 that comes after `strangers` have called.
std::vector<std::string> errors_after(const std::function<void(uint16_t port)>& strangers,
                                      const std::string& secret_of_one) {
  std::promise<uint16_t> listening;
  std::vector<std::string> errors(2);
  const auto join = [&](TcpSettings settings) {
    try {
      connect_by_tcp(settings)->barrier();
    } catch (const Error& error) {
      errors[static_cast<size_t>(settings.join.rank)] = error.what();
    }
  };
  std::thread zero([&] {
    TcpSettings settings = tcp_test_settings(0, 2);
    settings.join.secret = "open sesame";
    if (secret_of_one != settings.join.secret) settings.join.join_seconds = 2;
    settings.join.on_listening = [&](uint16_t port) { listening.set_value(port); };
    join(settings);
  });
  const uint16_t port = listening.get_future().get();
  strangers(port);
  TcpSettings settings = tcp_test_settings(1, 2, port);
  settings.join.secret = secret_of_one;
  join(settings);
  zero.join();
  return errors;
}

// What ends a job without a secret: another version, a problem, a second rank 1.
TEST(Join, WhoDoesNotKnowTheSecretCannotEndAJob) {
  std::vector<FileDescriptor> connections;
  const auto call = [&](uint16_t port, const std::string& bytes) {
    connections.push_back(connect_to_port(port));
    send_all(connections.back().get(), bytes, Clock::now() + std::chrono::seconds(100));
  };
  const auto strangers = [&](uint16_t port) {
    for (const Introduction& who : {Introduction{1, 2, 1, 1, "x", "tcp", "9.9.9", 0},
                                    Introduction{1, 2, 1, 1, "x", "tcp", kVersion, 0, "no disk"},
                                    Introduction{1, 2, 1, 1, "x", "tcp", kVersion, 0}}) {
      call(port, cat(kConnectionMagic, encode(who)));
      call(port, ConnectingProof("another secret", encode(who)).opening());
      call(port, ConnectingProof("another secret", encode(who)).opening() +
                     encode(MessageKind::kProof, std::string(32, 'x')));
      call(port, cat(kConnectionMagic, encode(MessageKind::kChallenge, "short"), encode(who)));
    }
    call(port, cat(kConnectionMagic, encode(MessageKind::kProof, "")));
  };
  EXPECT_THAT(errors_after(strangers, "open sesame"), Each(""));
}

TEST(Join, ARankWithoutTheSecretIsTold) {
  const auto no_client = [](uint16_t) {};
  const auto without = errors_after(no_client, ""),
             wrong = errors_after(no_client, "another secret");
  EXPECT_THAT(without[1], HasSubstr("start all ranks with the same EMBLEM_JOB_SECRET"));
  EXPECT_THAT(wrong[1], HasSubstr("does not know the secret of this job"));
  for (const auto& errors : {without, wrong})
    EXPECT_THAT(errors[0], HasSubstr("rank 1 of 2 did not join"));
}

TEST(Join, ARankDoesNotJoinWhoDoesNotKnowTheSecret) {
  const auto errors = errors_of_tcp_ranks(2, kNothing, [](TcpSettings& settings) {
    if (settings.join.rank == 1) settings.join.secret = "open sesame";
    settings.join.join_seconds = 2;
  });
  EXPECT_THAT(errors[1], HasSubstr("was started without the secret of a job"));
}

TEST(Join, RanksWithASecretExchangeData) {
  for (const int size : {2, 3, 5}) {
    const auto errors = errors_of_tcp_ranks(
        size, [](Communicator& ranks) { ranks.barrier(); },
        [](TcpSettings& settings) { settings.join.secret = "open sesame"; });
    EXPECT_THAT(errors, Each(""));
  }
}

// What an eavesdropper has heard is of no use for another connection.
TEST(Secret, ProofsAreOfOneConnection) {
  const std::string first = encode(DataHello{1, 1});
  MessageReader reader(MessageReader::Start::kMessage);
  reader.add(first);
  const Message message = *reader.next();
  const ConnectingProof connecting("s", first), again("s", first);
  const auto challenge_of = [&](const ConnectingProof& proof) {
    MessageReader opening(MessageReader::Start::kMagic);
    opening.add(proof.opening());
    return *opening.next();
  };
  const auto decoded = [](const std::string& bytes) {
    MessageReader one(MessageReader::Start::kMessage);
    one.add(bytes);
    return *one.next();
  };
  const ListeningProof listening("s", challenge_of(connecting), message),
      other("s", challenge_of(again), message), stranger("t", challenge_of(connecting), message);
  const Message answer = decoded(connecting.answer(decoded(listening.challenge())));
  EXPECT_TRUE(listening.is_proved(answer));
  EXPECT_FALSE(other.is_proved(answer));
  EXPECT_FALSE(listening.is_proved(decoded(listening.challenge())));
  EXPECT_THROW(connecting.answer(decoded(other.challenge())), Error);
  EXPECT_THROW(connecting.answer(decoded(stranger.challenge())), Error);
}

TEST(Join, AcceptsARankThatWasStartedAgain) {
  std::promise<uint16_t> listening;
  std::thread zero([&] {
    TcpSettings settings = tcp_test_settings(0, 3);
    settings.join.on_listening = [&](uint16_t port) { listening.set_value(port); };
    connect_by_tcp(settings)->barrier();
  });
  const uint16_t port = listening.get_future().get();
  {  // rank 1 introduces itself and ends
    FileDescriptor first = connect_to_port(port);
    const Introduction who{1, 3, 1, 1, "h1", "tcp", kVersion, 0};
    send_all(first.get(), cat(kConnectionMagic, encode(who)),
             Clock::now() + std::chrono::seconds(100));
  }
  std::thread again([&] { connect_by_tcp(tcp_test_settings(1, 3, port))->barrier(); });
  connect_by_tcp(tcp_test_settings(2, 3, port))->barrier();
  again.join();
  zero.join();
}

TEST(Join, CountsRanksByHost) {
  const auto errors = errors_of_tcp_ranks(
      4,
      [](Communicator& ranks) {
        const std::vector<RankHost> expected = {{"even", 0}, {"odd", 0}, {"even", 1}, {"odd", 1}};
        EXPECT_EQ(ranks.hosts(), expected);
      },
      [](TcpSettings& settings) {
        settings.join.host = settings.join.rank % 2 == 0 ? "even" : "odd";
      });
  EXPECT_THAT(errors, Each(std::string()));
}

TEST(Join, ListensWhereOtherHostsReachIt) {
  const SocketAddress loopback = resolve_host("127.0.1.1", 80).front();
  const SocketAddress outer = resolve_host("10.1.2.3", 80).front();
  EXPECT_EQ(text_of(listening_address(loopback, "node1")), "0.0.0.0:80");
  EXPECT_EQ(text_of(listening_address(loopback, "localhost")), "127.0.1.1:80");
  EXPECT_EQ(text_of(listening_address(loopback, "127.0.1.1")), "127.0.1.1:80");
  EXPECT_EQ(text_of(listening_address(outer, "node1")), "10.1.2.3:80");
}

TEST(Message, RoundTrips) {
  const Introduction who{3, 8, 123456789012, 40000, "host-b", "tcp", "1.2.3", ~0ull, "no"};
  const Roster roster{77, {{"a", 0, "10.0.0.1", 1}, {"", 1, "::1", 65535}}};
  MessageReader reader(MessageReader::Start::kMagic);
  const std::string bytes = cat(kConnectionMagic, encode(who), encode(roster),
                                encode(Failure{2, "rank 2: no"}), encode(MessageKind::kGoodbye));
  std::vector<Message> messages;
  for (const char byte : bytes) {
    reader.add({&byte, 1});
    while (auto message = reader.next()) messages.push_back(*message);
  }
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(decode_introduction(messages[0]), who);
  EXPECT_EQ(decode_roster(messages[1]), roster);
  EXPECT_EQ(decode_failure(messages[2]).line, "rank 2: no");
  EXPECT_EQ(messages[3].kind, MessageKind::kGoodbye);
}

// Anyone may send it, and many at once.
TEST(Message, TheFirstOneOfAConnectionIsSmall) {
  const auto read = [](MessageReader::Start start, size_t bytes) {
    MessageReader reader(start);
    if (start == MessageReader::Start::kMagic) reader.add(kConnectionMagic);
    reader.add(encode(MessageKind::kHello, std::string(bytes, 'x')));
    return reader.next().has_value();
  };
  EXPECT_TRUE(read(MessageReader::Start::kMagic, 70'000));
  EXPECT_THROW(read(MessageReader::Start::kMagic, 100'000), Error);
  EXPECT_TRUE(read(MessageReader::Start::kMessage, 100'000));
  const Introduction long_problem{1, 2, 1, 1, "x", "tcp", kVersion, 0, std::string(100'000, 'p')};
  EXPECT_LT(encode(long_problem).size(), 70'000u);
}

TEST(Message, RefusesEveryTruncation) {
  const std::string whole = encode(Roster{77, {{"a", 0, "10.0.0.1", 1}, {"b", 1, "::1", 65535}}});
  for (size_t size = 0; size < whole.size() - 5; ++size) {
    const Message cut{MessageKind::kRoster, whole.substr(5, size)};
    EXPECT_THROW(decode_roster(cut), Error) << size;
  }
  EXPECT_THROW(decode_roster({MessageKind::kRoster, whole.substr(5) + "x"}), Error);
}

}  // namespace
}  // namespace emblem
