// What waits long for something else (a process that starts) looks here whether the program was asked to end meanwhile.
//
// The program that handles Ctrl-C says once where its flag is; without one nothing is ever interrupted.
// Thread rule: any thread.
#pragma once

#include <atomic>

#include "parl/core/check.h"

namespace parl {

// What gave up because the program was asked to end: no failure of its own.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// `flag` must outlive every wait; null: none.
void set_interrupt_flag(const std::atomic<bool>* flag);
bool is_interrupted();

}  // namespace parl
