#include "ps/tables/database_notes.h"

#include <charconv>

namespace emblem {
namespace {

std::string sequence_note(const std::string& model) { return "sequence." + model; }

}  // namespace

std::string content_note(const std::string& table) { return "loaded." + table; }

std::optional<int64_t> delta_sequence(const KvStore& store, const std::string& model) {
  const auto text = store.note(sequence_note(model));
  if (!text) return std::nullopt;
  int64_t sequence = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), sequence);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return sequence;
}

void set_delta_sequence(KvStore& store, const std::string& model, int64_t sequence) {
  store.set_note(sequence_note(model), std::to_string(sequence));
}

}  // namespace emblem
