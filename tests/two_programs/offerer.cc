// The program that has the ledger. Its description of the class is its own: nothing but the wire is shared with
// caller.cc.
//   offerer --parl-worker ADDRESS    builds ledgers there
//   offerer ADDRESS                  offers one that it made (as_remote)
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "parl/remote/remote.h"

namespace bookkeeping {

struct Entry {
  std::string text;
  int64_t amount = 0;
};
PARL_FIELDS(Entry, text, amount);

class Accounts {
 public:
  explicit Accounts(std::string owner) : owner_(std::move(owner)) {}
  int64_t book(const Entry& entry) {
    entries_.push_back(entry);
    return total();
  }
  std::string owner() const { return owner_; }
  std::vector<Entry> entries() const { return entries_; }

 private:
  int64_t total() const {
    return std::accumulate(entries_.begin(), entries_.end(), int64_t{0},
                           [](int64_t sum, const Entry& entry) { return sum + entry.amount; });
  }
  std::string owner_;
  std::vector<Entry> entries_;
};
PARL_REMOTE_CLASS_AS("books.Ledger", Accounts, book, owner, entries);

}  // namespace bookkeeping

int main(int argc, char** argv) {
  parl::offer<bookkeeping::Accounts(std::string)>();
  parl::init(argc, argv);  // a worker does not come back
  if (argc != 2) return 2;
  parl::as_remote<bookkeeping::Accounts>(argv[1], "the offerer");
  return 0;
}
