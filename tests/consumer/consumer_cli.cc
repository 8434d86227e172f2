// A command line with an environment of its own, from an installed parl.
#include <memory>

#include "cli/command_line.h"
#include "parl/env/dummy_env.h"
#include "parl/train/program.h"

int main(int argc, char** argv) {
  parl::set_program([](parl::Program& program) {
    program.envs.add("Dummy-v0", "a corridor of nine cells",
                     [](const parl::EnvRequest&) { return std::make_unique<parl::DummyEnv>(); });
  });
  return parl::command_line(argc, argv);
}
