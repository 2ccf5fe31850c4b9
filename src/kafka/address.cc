#include "kafka/address.h"

#include <algorithm>
#include <charconv>

#include "core/files/file.h"
#include "core/text/joined.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr std::string_view kScheme = "kafka://";
constexpr const char* kForm = "kafka://host:port,host:port/topic?property=value&...";

// Properties without which the reader could not say which messages it has given out.
constexpr std::string_view kReserved[] = {"bootstrap.servers", "metadata.broker.list",
                                          "enable.auto.commit", "enable.auto.offset.store",
                                          "enable.partition.eof"};

std::string decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

int64_t number(const std::string& name, const std::string& value, int64_t most) {
  const int64_t found = parse_number<int64_t>(value).value_or(-1);
  EMBLEM_REQUIRE(found >= 0 && found <= most, "kafka: ", name, " is \"", printable(value),
                 "\", expected a number from 0 to ", most);
  return found;
}

// The index of `value` in `choices`.
template <size_t kCount>
size_t choice(const std::string& name, const std::string& value,
              const std::string_view (&choices)[kCount]) {
  const auto found = std::find(std::begin(choices), std::end(choices), value);
  EMBLEM_REQUIRE(found != std::end(choices), "kafka: ", name, " is \"", printable(value),
                 "\", expected ", joined(choices, " or "));
  return static_cast<size_t>(found - std::begin(choices));
}

void add_property(const std::string& name, const std::string& value, KafkaAddress& address) {
  constexpr int64_t kMostMs = 24 * 3600 * 1000;
  if (name == "auto.offset.reset") {
    address.start = choice(name, value, {"earliest", "latest", "smallest", "largest"}) % 2 == 0
                        ? KafkaAddress::Start::kEarliest
                        : KafkaAddress::Start::kLatest;
  } else if (name == "start.timestamp.ms") {
    address.start_unix_ms = number(name, value, INT64_MAX);
  } else if (name == "until") {
    choice(name, value, {"now"});
    address.until_now = true;
  } else if (name == "max_wait_ms") {
    address.max_wait_ms = static_cast<int>(number(name, value, kMostMs));
  } else if (name == "retention_gap") {
    address.gap = choice(name, value, {"error", "skip"}) == 0 ? KafkaAddress::Gap::kError
                                                              : KafkaAddress::Gap::kSkip;
  } else if (name == "timeout_ms") {
    address.timeout_ms = static_cast<int>(number(name, value, kMostMs));
  } else {
    for (const std::string_view reserved : kReserved)
      EMBLEM_REQUIRE(name != reserved, "kafka: the property ", name,
                     " is set by Emblem itself; remove it from the address");
    address.properties.emplace_back(name, value);
  }
}

void read_properties(const std::string& file, KafkaAddress& address) {
  int64_t number = 0;
  for (const std::string& each : split(read_text_file(file), '\n')) {
    ++number;
    const std::string line(trim(each));
    if (line.empty() || line[0] == '#' || line[0] == '!') continue;
    const size_t equals = line.find('=');
    EMBLEM_REQUIRE(equals != std::string::npos && equals > 0, file, ":", number,
                   ": expected name=value");
    const std::string name(trim(line.substr(0, equals)));
    EMBLEM_REQUIRE(name != "properties", file, ":", number,
                   ": a file of properties cannot name another");
    add_property(name, std::string(trim(line.substr(equals + 1))), address);
  }
}

// The part of an address after the brokers, without its query.
std::string_view topic_of(std::string_view text) {
  text = text.substr(0, text.find('?'));
  const size_t slash = text.find('/', kScheme.size());
  return slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
}

}  // namespace

bool has_kafka() {
#ifdef EMBLEM_WITH_KAFKA
  return true;
#else
  return false;
#endif
}

bool is_secret_kafka_property(std::string_view name) {
  for (const std::string_view part :
       {"password", "secret", ".pem", "oauthbearer.config", "jaas.config"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

KafkaAddress parse_kafka_address(const std::string& text) {
  const std::string shown = printable(text.substr(0, text.find('?')));
  EMBLEM_REQUIRE(is_kafka_address(text), "\"", shown, "\" is not the address of a topic; expected ",
                 kForm);
  KafkaAddress address;
  const size_t slash = text.find('/', kScheme.size());
  address.brokers = text.substr(kScheme.size(), slash - kScheme.size());
  address.topic = topic_of(text);
  EMBLEM_REQUIRE(!address.brokers.empty() && !address.topic.empty() &&
                     address.topic.find('/') == std::string::npos,
                 "\"", shown, "\" does not name ",
                 address.brokers.empty() ? "brokers" : "one topic", "; expected ", kForm);
  const size_t query = text.find('?');
  if (query == std::string::npos) return address;
  for (const std::string& each : split(text.substr(query + 1), '&')) {
    if (each.empty()) continue;
    const size_t equals = each.find('=');
    const std::string name = decoded(each.substr(0, equals));
    EMBLEM_REQUIRE(equals != std::string::npos && equals > 0, shown, "?...: \"", printable(name),
                   "\" is not a setting; expected name=value");
    EMBLEM_REQUIRE(!is_secret_kafka_property(name), shown, "?...: ", name,
                   " is a secret, and addresses are stored and shown; write it into a file that "
                   "only you can read and give properties=FILE");
    const std::string value = decoded(each.substr(equals + 1));
    if (name == "properties")
      read_properties(value, address);
    else
      add_property(name, value, address);
  }
  return address;
}

bool is_same_kafka_topic(const std::string& address, const std::string& other) {
  return is_kafka_address(address) && is_kafka_address(other) &&
         topic_of(address) == topic_of(other);
}

}  // namespace emblem
