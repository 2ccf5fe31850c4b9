// core/text/text.h - small things about text that messages and options need.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

// The candidate closest to `name` by edit distance, when it is close enough to be what was meant.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

// "4GiB", "512 MB", "1.5k", "1000000" -> a count. Throws Error naming `what`.
int64_t parse_size(std::string_view text, std::string_view what);

std::string format_bytes(double bytes);       // "1.50 GiB"
std::string format_count(double count);       // "1.23 M"
std::string format_duration(double seconds);  // "1:02:03", "4.2 s", "31 ms"
std::string format_metric(double value);      // "0.802534"; "n/a" for NaN

// For messages that show data: control characters and bytes that are not UTF-8 as \\xNN.
std::string printable(std::string_view text);

// Whether an input is a topic, "kafka://BROKERS/TOPIC", and not files.
constexpr bool is_kafka_address(std::string_view text) { return text.starts_with("kafka://"); }

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

}  // namespace emblem
