// The program that uses a ledger, which it could not build itself: it knows what one can do.
//   caller create ADDRESS | caller take ADDRESS
// Built a second time with NEWER_LEDGER, as if one side had been changed.
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "parl/remote/remote.h"

struct Line {
  std::string text;
#ifdef NEWER_LEDGER
  double amount = 0;
#else
  int64_t amount = 0;
#endif
};
PARL_FIELDS(Line, text, amount);

class Ledger {
 public:
  explicit Ledger(const std::string&) { fail(); }
  int64_t book(const Line&) { return fail(); }
  std::string owner() const { return std::to_string(fail()); }
  std::vector<Line> entries() const { return std::vector<Line>(static_cast<size_t>(fail())); }

 private:
  static int fail() { throw std::logic_error("there are no ledgers in this program"); }
};
PARL_REMOTE_CLASS_AS("books.Ledger", Ledger, book, owner, entries);

int main(int argc, char** argv) {
  parl::init(argc, argv);
  if (argc != 3) return 2;
  parl::Options options;
  options.engine = argv[2];
#ifdef NEWER_LEDGER
  options.create_timeout = std::chrono::seconds(3);  // then it is said that no worker fits
#endif
  try {
    parl::RemoteManager manager(options);
    auto ledger =
        argv[1] == std::string("create") ? manager.create<Ledger>("the caller") : manager.get_remote<Ledger>();
    ledger->book({"rent", -700});
    const int64_t total = ledger->book({"wages", 2000});
    std::cout << ledger->owner() << " has " << total << " after " << ledger->entries().size() << " entries, the first "
              << ledger->entries().front().text << '\n';
  } catch (const parl::RemoteError& error) {
    std::cout << error.what() << '\n';
    return 1;
  }
  return 0;
}
