// core/self_checksum.h - JSON text with a checksum (core/checksum.h) of itself: the 16 hexadecimal
// digits after the first "checksum": ", computed while these digits are zeros.
#pragma once

#include <cstdint>
#include <string>

namespace emblem {

std::string checksum_digits(uint64_t checksum);
// Throws std::invalid_argument unless the text is 16 hexadecimal digits.
uint64_t parse_checksum_digits(const std::string& text);

// What the text has in place of its checksum before set_self_checksum.
std::string no_checksum();
// Writes the checksum into its place, which the text must have.
std::string set_self_checksum(std::string text);
// Whether the text has the checksum of its content. False without a place for one.
bool has_valid_self_checksum(const std::string& text);

}  // namespace emblem
