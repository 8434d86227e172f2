// The whole command line of `parl` in a program of your own: train, eval, list, bench with your environments, networks
// and algorithms beside the built-in ones.
//
//   int main(int argc, char** argv) {
//     parl::set_program([](parl::Program& p) {
//       p.envs.add("Maze-v0", "a maze", [](const parl::EnvRequest&) { return std::make_unique<Maze>(); });
//     });
//     return parl::command_line(argc, argv);   // my_program train ppo --env Maze-v0
//   }
//
// Link parl::cli. It calls parl::init first, so that the program is also its own worker. Errors are printed to stderr;
// the value is the exit code: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Thread rule: main's.
#pragma once

namespace parl {

int command_line(int argc, char** argv);

}  // namespace parl
