#include "parl/core/interrupt.h"

namespace parl {
namespace {
std::atomic<const std::atomic<bool>*> interrupt_flag{nullptr};
}  // namespace

void set_interrupt_flag(const std::atomic<bool>* flag) { interrupt_flag = flag; }

bool is_interrupted() {
  const std::atomic<bool>* flag = interrupt_flag;
  return flag && *flag;
}

}  // namespace parl
