// main() of test programs whose processes may become workers: parl::init comes first.
#include <gmock/gmock.h>

#include "parl/remote/options.h"

int main(int argc, char** argv) {
  parl::init(argc, argv);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
