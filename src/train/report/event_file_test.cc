#include "train/report/event_file.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

// A bit by bit CRC-32C, written apart from the one under test.
uint32_t slow_crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
  }
  return crc ^ 0xffffffffu;
}

struct Reader {
  std::string_view bytes;

  bool done() const { return bytes.empty(); }
  std::string_view take(size_t count) {
    if (count > bytes.size()) throw std::runtime_error("truncated");
    const std::string_view front = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return front;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
};

struct DecodedEvent {
  double wall_time = 0;
  int64_t step = -1;
  std::string version;
  std::string tag;
  std::optional<float> value;
  uint64_t session_status = 0;
};

// Calls on_field(number, reader of its content) for each field; varints and fixed fields come as
// they are.
template <class OnField>
void for_each_field(std::string_view message, OnField on_field) {
  Reader reader{message};
  while (!reader.done()) {
    const uint64_t key = reader.varint();
    const size_t before = reader.bytes.size();
    const char* start = reader.bytes.data();
    switch (key & 7) {
      case 0:
        reader.varint();
        break;
      case 1:
        reader.take(8);
        break;
      case 5:
        reader.take(4);
        break;
      case 2: {
        const std::string_view content = reader.take(reader.varint());
        on_field(static_cast<int>(key >> 3), Reader{content});
        continue;
      }
      default:
        throw std::runtime_error("unknown wire type");
    }
    on_field(static_cast<int>(key >> 3), Reader{{start, before - reader.bytes.size()}});
  }
}

DecodedEvent decode_event(std::string_view message) {
  DecodedEvent event;
  for_each_field(message, [&](int field, Reader content) {
    if (field == 1) event.wall_time = content.fixed<double>();
    if (field == 2) event.step = static_cast<int64_t>(content.varint());
    if (field == 3) event.version = content.bytes;
    if (field == 7)
      for_each_field(content.bytes,
                     [&](int, Reader status) { event.session_status = status.varint(); });
    if (field != 5) return;
    for_each_field(content.bytes, [&](int, Reader entry) {
      for_each_field(entry.bytes, [&](int inner, Reader leaf) {
        if (inner == 1) event.tag = leaf.bytes;
        if (inner == 2) event.value = leaf.fixed<float>();
      });
    });
  });
  return event;
}

std::string_view take_checked(Reader& reader, size_t count) {
  const std::string_view bytes = reader.take(count);
  const uint32_t crc = slow_crc32c(bytes);
  const uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  EXPECT_EQ(reader.fixed<uint32_t>(), masked) << "record checksum";
  return bytes;
}

std::vector<DecodedEvent> read_events(const std::string& path) {
  const std::string file = read_text_file(path);
  std::vector<DecodedEvent> events;
  for (Reader reader{file}; !reader.done();) {
    Reader length{take_checked(reader, 8)};
    events.push_back(decode_event(take_checked(reader, length.fixed<uint64_t>())));
  }
  return events;
}

class EventFileTest : public testing::Test {
 protected:
  const TempFolder temp_;
  const std::string folder_ = temp_.path("model");  // not made yet
};

TEST_F(EventFileTest, HoldsTheVersionAndThenScalars) {
  EventFile file(folder_ + "/run");
  file.add_scalar("loss/total", 100, 0.4567f, 1700000000.25);
  file.add_scalar("lr/g0", int64_t{1} << 40, -1.5f);
  file.flush();
  const auto events = read_events(file.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].tag, "loss/total");
  EXPECT_EQ(events[1].step, 100);
  EXPECT_EQ(events[1].value, 0.4567f);
  EXPECT_EQ(events[1].wall_time, 1700000000.25);
  EXPECT_EQ(events[2].step, int64_t{1} << 40);
  EXPECT_EQ(events[2].value, -1.5f);
  EXPECT_GT(events[2].wall_time, 1.7e9);
}

TEST_F(EventFileTest, FlushesWhenItIsDestroyed) {
  std::string path;
  {
    EventFile file(folder_);
    path = file.path();
    for (int step = 0; step < 5000; ++step) file.add_scalar("x", step, static_cast<float>(step));
  }
  const auto events = read_events(path);
  ASSERT_EQ(events.size(), 5001u);
  EXPECT_EQ(events.back().value, 4999.0f);
}

TEST_F(EventFileTest, CanCarryValuesThatAreNotFinite) {
  EventFile file(folder_);
  file.add_scalar("x", 1, NAN);
  file.flush();
  EXPECT_TRUE(std::isnan(*read_events(file.path())[1].value));
}

TEST_F(EventFileTest, MarksWhereARunGoesOn) {
  EventFile file(folder_);
  file.restart_at(700);
  file.flush();
  const auto events = read_events(file.path());
  EXPECT_EQ(events[1].step, 700);
  EXPECT_EQ(events[1].session_status, 1u);
}

TEST_F(EventFileTest, NeverSharesAFileWithAnotherRun) {
  const EventFile first(folder_), second(folder_);
  EXPECT_NE(first.path(), second.path());
  EXPECT_THAT(fs::path(second.path()).filename().string(), StartsWith("events.out.tfevents."));
}

TEST_F(EventFileTest, NamesThePathThatCannotBeWritten) {
  fs::create_directories(folder_);
  write_text_file_atomically(folder_ + "/plain", "a file");
  EXPECT_THAT([&] { EventFile{folder_ + "/plain"}; },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("cannot make the event file"), HasSubstr("/plain/events"))));
}

TEST(Crc32c, GivesThePublishedCheckValue) {
  EXPECT_EQ(detail::crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(detail::crc32c(""), 0u);
}

}  // namespace
}  // namespace emblem
