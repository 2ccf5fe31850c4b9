// comm/tcp/secret.h - proofs that both ends of a connection know the secret of their job, which
// is never sent. What is sent afterwards is neither encrypted nor signed.
//
//   connecting end: kChallenge (its nonce), the first message (Introduction, DataHello)
//   listening end:  kChallenge (its nonce, its proof)
//   connecting end: kProof (its proof)
//
// A proof is an HMAC of the end's role, both nonces and the first message.
#pragma once

#include <string>
#include <string_view>

#include "comm/tcp/job_secret.h"
#include "comm/tcp/message.h"

namespace emblem {

// What a process says that connects to another, with or without a secret.
class ConnectingProof {
 public:
  // `first` is an encoded message.
  ConnectingProof(std::string secret, std::string first);

  bool is_needed() const { return !secret_.empty(); }
  std::string opening() const;  // to send when connected
  // What to send in answer to the other end's kChallenge. Throws kUnavailable where that end does
  // not know the secret.
  std::string answer(const Message& challenge) const;

 private:
  std::string secret_, first_, nonce_;
};

// What a process says to one that has connected.
class ListeningProof {
 public:
  // `challenge` and `first` are the first messages of the other end. Throws kCorruption.
  ListeningProof(std::string secret, const Message& challenge, const Message& first);

  std::string challenge() const;               // to send
  bool is_proved(const Message& proof) const;  // by its answer

 private:
  std::string proof_of(char role) const;

  std::string secret_, first_, their_nonce_, nonce_;
};

}  // namespace emblem
