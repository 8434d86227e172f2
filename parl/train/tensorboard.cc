#include "parl/train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "parl/core/check.h"
#include "parl/core/files.h"

namespace parl {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are written in little-endian order");

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78U : 0U);
    table[i] = crc;
  }
  return table;
}

uint32_t masked_crc(std::string_view data) {
  const uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void put_key(std::string& out, uint32_t field, WireType type) { put_varint(out, field << 3 | type); }

void put_bytes(std::string& out, uint32_t field, std::string_view data) {
  put_key(out, field, kLengthDelimited);
  put_varint(out, data.size());
  out.append(data);
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string event_head(double wall_time, int64_t step) {
  std::string event;
  put_key(event, 1, kFixed64);
  put(event, wall_time);
  if (step != 0) {
    put_key(event, 2, kVarint);
    put_varint(event, static_cast<uint64_t>(step));
  }
  return event;
}

std::string new_name() {
  static std::atomic<int> count{0};
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(now()), host, ::getpid(), count++);
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr auto kTable = crc_table();
  uint32_t crc = ~0U;
  for (const char c : data) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const std::string& folder, int64_t first_step) : path_(folder + "/" + new_name()) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(file_error("create the folder", folder, error.value()));
  file_.reset(std::fopen(path_.c_str(), "wbe"));
  if (!file_) throw Error(file_error("write", path_, errno));

  std::string version = event_head(now(), 0);
  put_bytes(version, 3, "brain.Event:2");
  record(version);
  if (first_step > 0) {
    std::string start;  // SessionLog{status: START}
    put_key(start, 1, kVarint);
    put_varint(start, 1);
    std::string event = event_head(now(), first_step);
    put_bytes(event, 7, start);
    record(event);
  }
  flush();
}

void EventFile::scalar(const std::string& tag, int64_t step, double value, double wall_time) {
  std::string entry;  // Summary.Value{tag = 1, simple_value = 2}
  put_bytes(entry, 1, tag);
  put_key(entry, 2, kFixed32);
  put(entry, static_cast<float>(value));
  std::string summary;
  put_bytes(summary, 1, entry);
  std::string event = event_head(wall_time < 0 ? now() : wall_time, step);
  put_bytes(event, 5, summary);
  record(event);
}

void EventFile::record(const std::string& event) {
  std::string out;
  put(out, static_cast<uint64_t>(event.size()));
  const uint32_t length_crc = masked_crc(out);
  put(out, length_crc);
  out += event;
  put(out, masked_crc(event));
  if (std::fwrite(out.data(), 1, out.size(), file_.get()) != out.size()) throw Error(file_error("write", path_, errno));
}

void EventFile::flush() {
  if (std::fflush(file_.get()) != 0) throw Error(file_error("write", path_, errno));
}

}  // namespace parl
