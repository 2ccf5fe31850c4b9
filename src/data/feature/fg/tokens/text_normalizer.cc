#include "data/feature/fg/tokens/text_normalizer.h"

#include <fstream>
#include <sstream>

#include "core/text/utf8.h"
#include "data/feature/fg/tokens/unicode.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// U+FF01 ... U+FF5E are the wide forms of ASCII.
uint32_t narrow(uint32_t c) {
  if (c == 0x3000) return ' ';
  return c >= 0xFF01 && c <= 0xFF5E ? c - 0xFEE0 : c;
}

bool is_symbol(uint32_t c) {
  if (c < 0x80) return c > ' ' && c != 0x7F && !is_letter(c) && !is_numeric(c);
  return (c >= 0xA1 && c <= 0xBF && !is_letter(c) && !is_numeric(c)) || c == 0xD7 || c == 0xF7 ||
         (c >= 0x2010 && c <= 0x206F) || (c >= 0x20A0 && c <= 0x20BF) ||
         (c >= 0x2190 && c <= 0x2BFF) || (c >= 0x3001 && c <= 0x303F) ||
         (c >= 0xFF01 && c <= 0xFF0F) || (c >= 0xFF1A && c <= 0xFF20) ||
         (c >= 0xFF3B && c <= 0xFF40) || (c >= 0xFF5B && c <= 0xFF65);
}

}  // namespace

TextNormalizer::TextNormalizer(const config::TextNormalizer& config, const std::string& folder,
                               const std::string& feature) {
  EMBLEM_REQUIRE(
      config.norm_options_size() > 0, "feature \"", feature,
      "\": text_normalizer has no norm_options; its default includes TEXT_CHT2CHS, which "
      "is not supported: list the others");
  for (const int option : config.norm_options()) {
    EMBLEM_REQUIRE(option != config::TEXT_CHT2CHS, "feature \"", feature,
                   "\": TEXT_CHT2CHS is not supported; convert texts to simplified Chinese before "
                   "training and remove it");
    options_ |= 1u << option;
  }
  if (config.has_max_length()) max_length_ = config.max_length();
  if (config.stop_char_file().empty()) return;
  const std::string file =
      folder.empty() ? config.stop_char_file() : folder + "/" + config.stop_char_file();
  std::ifstream stream(file, std::ios::binary);
  EMBLEM_REQUIRE(stream.good(), "feature \"", feature, "\": stop_char_file ", file,
                 " cannot be opened");
  std::stringstream text;
  text << stream.rdbuf();
  for (const Character& character : characters_of(text.str()))
    if (character.code != '\n' && character.code != '\r') stop_characters_.insert(character.code);
}

bool TextNormalizer::is_removed(uint32_t c) const {
  if (has(config::TEXT_REMOVE_SPACE) && is_white_space(c)) return true;
  if (!has(config::TEXT_FILTER)) return false;
  return stop_characters_.empty() ? is_symbol(c) : stop_characters_.contains(c);
}

std::string TextNormalizer::apply(std::string_view text) const {
  const std::vector<Character> characters = characters_of(text);
  if (characters.size() > max_length_) return std::string(text);
  std::string result;
  for (const Character& character : characters) {
    uint32_t c = has(config::TEXT_SBC2DBC) ? narrow(character.code) : character.code;
    if (has(config::TEXT_LOWER2UPPER) && c >= 'a' && c <= 'z') c -= 32;
    if (has(config::TEXT_UPPER2LOWER) && c >= 'A' && c <= 'Z') c += 32;
    if (is_removed(c)) continue;
    const bool is_split = has(config::TEXT_SPLITCHRS) && is_ideograph(c);
    if (is_split && !result.empty() && result.back() != ' ') result += ' ';
    append_utf8(c, result);
    if (is_split) result += ' ';
  }
  if (has(config::TEXT_SPLITCHRS) && !result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace emblem
