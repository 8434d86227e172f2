// Plays a few games through the ALE so that a build with profiling counters learns what is hot: random actions, grey
// screens, saved and restored states, resets. Prints the processor seconds that playing took, to compare two builds.
// Used by build_ale.sh alone.  Argument: the directory with the ROMs.
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ale/ale_interface.hpp"

namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double play(const std::string& rom, uint32_t random) {
  ale::ALEInterface ale;
  ale.setInt("random_seed", 1);
  ale.setFloat("repeat_action_probability", 0.0f);
  ale.setInt("max_num_frames_per_episode", 108000);
  ale.loadROM(rom);
  const ale::ActionVect actions = ale.getMinimalActionSet();
  std::vector<unsigned char> grey;
  ale::ALEState saved = ale.cloneState(true);
  const int frames = 6000;
  const double start = processor_seconds();
  for (int frame = 0; frame < frames;) {
    random = random * 1664525u + 1013904223u;
    const ale::Action action = actions[(random >> 16) % actions.size()];
    for (int i = 0; i < 4; ++i, ++frame) {
      ale.act(action);
      ale.lives();
      if (ale.game_over()) ale.reset_game();
    }
    ale.getScreenGrayscale(grey);
    if (frame == 2000) saved = ale.cloneState(true);
    if (frame == 4000) ale.restoreState(saved);
  }
  return processor_seconds() - start;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s ROM_DIRECTORY\n", argv[0]);
    return 1;
  }
  ale::Logger::setMode(ale::Logger::Error);
  const char* const games[] = {"pong", "breakout", "seaquest", "qbert", "space_invaders", "beam_rider"};
  uint32_t seed = 1;
  double seconds = 0;
  for (const char* game : games) seconds += play(std::string(argv[1]) + "/" + game + ".bin", seed++);
  std::printf("%.4f\n", seconds);
  return 0;
}
