// Decodes an input as one of the types that travel. What decodes is encoded, decoded and encoded again: the two
// encodings are equal, and nothing is left over.
#include <deque>
#include <exception>

#include "parl/remote/error.h"
#include "parl/remote/fuzz/fuzz.h"
#include "parl/remote/internal/tcp_protocol.h"
#include "parl/wire/footprint.h"
#include "parl/wire/unshare.h"
#include "parl/wire/versioned.h"
#include "parl/wire/wire.h"

namespace parl::fuzz {
namespace {

enum class Colour : uint16_t { kRed, kBlue };

struct Point {
  double x = 0;
  bool is_set = false;
};
PARL_FIELDS(Point, x, is_set);

struct Tree {
  int32_t value = 0;
  std::vector<Tree> children;
  std::unique_ptr<Tree> next;
};
PARL_FIELDS(Tree, value, children, next);

struct Empty {};
PARL_FIELDS(Empty);

struct Numbers {
  bool b = false;
  int8_t i1 = 0;
  uint16_t u2 = 0;
  int32_t i4 = 0;
  uint64_t u8 = 0;
  float f4 = 0;
  double f8 = 0;
  char c = 0;
  Colour colour = Colour::kRed;
};
PARL_FIELDS(Numbers, b, i1, u2, i4, u8, f4, f8, c, colour);

struct Containers {
  std::string text;
  std::vector<float> floats;
  std::vector<bool> bits;
  std::vector<std::string> texts;
  std::array<int32_t, 3> three{};
  std::array<bool, 2> two{};
  std::array<Colour, 2> colours{};
  std::optional<Point> maybe;
  std::pair<int8_t, std::string> pair;
  std::tuple<> nothing;
  std::map<std::string, std::optional<Colour>> map;
  std::set<std::vector<int16_t>> set;
  std::variant<std::monostate, int32_t, std::string, std::vector<Empty>> either;
};
PARL_FIELDS(Containers, text, floats, bits, texts, three, two, colours, maybe, pair, nothing, map, set, either);

struct Arrays {
  Array one;
  std::vector<Array> many;
  std::vector<double> large;
  std::string text;
  std::array<float, 20000> fixed{};
};
PARL_FIELDS(Arrays, one, many, large, text, fixed);

// A message in transit: the head, and each attachment in a block of its own.
struct Message {
  explicit Message(const Writer& writer) : head(writer.head().begin(), writer.head().end()) {
    for (const Attachment& a : writer.attachments()) {
      attachments.push_back({exact_block(a.bytes, 0), a.bytes});
      std::memcpy(attachments.back().block.data(), a.data, a.bytes);
    }
  }
  std::vector<std::byte> head;
  std::vector<ReceivedAttachment> attachments;
};

bool equal(const Writer& a, const Writer& b) {
  const auto same = [](const Attachment& x, const Attachment& y) {
    return x.bytes == y.bytes && std::memcmp(x.data, y.data, x.bytes) == 0;
  };
  return std::equal(a.head().begin(), a.head().end(), b.head().begin(), b.head().end()) &&
         std::equal(a.attachments().begin(), a.attachments().end(), b.attachments().begin(), b.attachments().end(),
                    same);
}

template <typename T>
void check_round_trip(const T& value) {
  Writer first, second;
  wire::save(first, value);
  Message message(first);
  Reader reader(message.head, message.attachments);
  T again = wire::load<T>(reader);
  reader.finish();
  wire::save(second, again);
  require(equal(first, second), "what was decoded is encoded as it was");
}

enum class Order { kKept, kAnyway };  // unordered containers, and sets of numbers that may be NaN, keep none

template <typename T, Order order = Order::kKept>
void decode_as(Reader& reader) {
  T value = wire::load<T>(reader);
  reader.finish();
  wire::unshare(value);
  (void)wire::footprint(value);
  if constexpr (order == Order::kKept) check_round_trip(value);
}

template <typename T>
constexpr auto kOrdered = &decode_as<T, Order::kKept>;
template <typename T>
constexpr auto kUnordered = &decode_as<T, Order::kAnyway>;

// Several messages of one connection: later ones refer to values of the earlier.
void decode_versioned(Reader& reader) {
  for (int i = 0; i < 32 && reader.remaining() > 0; ++i) {
    const auto value = wire::load<Versioned<Array>>(reader);
    if (value.has_value()) (void)value->size();
    if (reader.remaining() > 0) (void)wire::load<Versioned<std::string>>(reader);
  }
  reader.finish();
}

using Decode = void(Reader&);
constexpr Decode* kDecoders[] = {
    kOrdered<Numbers>,
    kOrdered<Containers>,
    kOrdered<Arrays>,
    kOrdered<Tree>,
    kOrdered<Array>,
    kOrdered<std::string>,
    kOrdered<std::vector<std::vector<float>>>,
    kOrdered<std::unique_ptr<std::optional<std::unique_ptr<int32_t>>>>,
    kUnordered<std::unordered_map<std::string, std::vector<Point>>>,
    kUnordered<std::unordered_set<int32_t>>,
    kUnordered<std::set<double>>,
    kUnordered<std::map<float, Array>>,
    decode_versioned,
    kOrdered<internal::WorkerOffer>,
    kOrdered<internal::CreateHead>,
    kOrdered<RemoteFailure>,
};

}  // namespace

void archive(Input data) {
  Source source(data);
  Decode* const decode = kDecoders[source.byte() % std::size(kDecoders)];
  std::vector<ReceivedAttachment> attachments = take_attachments(source);
  const std::vector<std::byte> head = copy_bytes(source.rest());  // a block of its own: reading on is seen
  VersionBook versions;
  Reader reader(head, attachments, &versions);
  try {
    decode(reader);
  } catch (const WireError&) {  // it does not fit: all is well
  }
}

}  // namespace parl::fuzz
