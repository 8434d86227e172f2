// The tests' program is also what the process engine's workers run: parl::init comes first.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <stdexcept>

#include "parl/env/env.h"
#include "parl/remote/remote.h"
#include "parl/train/program.h"
#include "parl/train/test_envs.h"

int main(int argc, char** argv) {
  parl::set_program(parl::testing::register_test_envs);
  parl::init(argc, argv);
  at::set_num_threads(1);  // two beside other busy threads would cost a hundred times as much
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
