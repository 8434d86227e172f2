#include "parl/core/interrupt.h"

#include <gtest/gtest.h>

namespace parl {
namespace {

TEST(Interrupts, WhatWaitsSeesTheFlag) {
  EXPECT_FALSE(is_interrupted());
  std::atomic<bool> flag{false};
  set_interrupt_flag(&flag);
  EXPECT_FALSE(is_interrupted());
  flag = true;
  EXPECT_TRUE(is_interrupted());
  set_interrupt_flag(nullptr);
  EXPECT_FALSE(is_interrupted());
}

}  // namespace
}  // namespace parl
