// The learning rooms from an installed parl.
#include <iostream>

#include "parl/train/program.h"
#include "parl/train/train_config.h"

int main() {
  parl::TrainConfig config;
  std::cout << "consumer " << config.algorithm << " " << parl::program().algorithms.size() << "\n";
}
