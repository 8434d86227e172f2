// For tests: what a parl::Error says.
#pragma once

#include <string>

#include "parl/core/check.h"

namespace parl {

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace parl
