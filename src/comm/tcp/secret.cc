#include "comm/tcp/secret.h"

#include <cstdlib>

#include "core/math/sha256.h"

namespace emblem {
namespace {

constexpr size_t kNonceBytes = 32, kProofBytes = 32;
constexpr char kListening = 'L', kConnecting = 'C';

// All parts but the last have one size.
std::string make_proof(std::string_view secret, char role, std::string_view connecting_nonce,
                       std::string_view listening_nonce, std::string_view first) {
  const Sha256 code =
      hmac_sha256(secret, cat("emblem ", role, connecting_nonce, listening_nonce, first));
  return {reinterpret_cast<const char*>(code.data()), code.size()};
}

}  // namespace

std::string job_secret() {
  const char* secret = std::getenv(kSecretVariable);
  return secret == nullptr ? "" : secret;
}

std::string make_job_secret() { return to_hex(random_bytes(32)); }

ConnectingProof::ConnectingProof(std::string secret, std::string first)
    : secret_(std::move(secret)),
      first_(std::move(first)),
      nonce_(secret_.empty() ? "" : random_bytes(kNonceBytes)) {}

std::string ConnectingProof::opening() const {
  if (!is_needed()) return cat(kConnectionMagic, first_);
  return cat(kConnectionMagic, encode(MessageKind::kChallenge, nonce_), first_);
}

std::string ConnectingProof::answer(const Message& challenge) const {
  const std::string_view body = challenge.body;
  const bool is_whole =
      challenge.kind == MessageKind::kChallenge && body.size() == kNonceBytes + kProofBytes;
  const std::string_view nonce = body.substr(0, is_whole ? kNonceBytes : 0);
  if (!is_whole || !equal_in_constant_time(body.substr(kNonceBytes),
                                           make_proof(secret_, kListening, nonce_, nonce, first_)))
    throw Error(ErrorCode::kUnavailable,
                cat("does not know the secret of this job; start all ranks with the same ",
                    kSecretVariable));
  return encode(MessageKind::kProof, make_proof(secret_, kConnecting, nonce_, nonce, first_));
}

ListeningProof::ListeningProof(std::string secret, const Message& challenge, const Message& first)
    : secret_(std::move(secret)),
      first_(encode(first.kind, first.body)),
      their_nonce_(challenge.body),
      nonce_(random_bytes(kNonceBytes)) {
  if (challenge.kind != MessageKind::kChallenge || their_nonce_.size() != kNonceBytes)
    throw Error(ErrorCode::kCorruption, "not a message of a rank: a challenge of the wrong size");
}

std::string ListeningProof::proof_of(char role) const {
  return make_proof(secret_, role, their_nonce_, nonce_, first_);
}

std::string ListeningProof::challenge() const {
  return encode(MessageKind::kChallenge, nonce_ + proof_of(kListening));
}

bool ListeningProof::is_proved(const Message& proof) const {
  return proof.kind == MessageKind::kProof &&
         equal_in_constant_time(proof.body, proof_of(kConnecting));
}

}  // namespace emblem
