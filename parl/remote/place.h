// Where an object lives: what the creator asks for (Place) and what the object is told (Placement).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parl/core/fields.h"

namespace parl {

struct Place {
  std::string name = {};        // for logs and errors; default: the class's name and a number
  std::vector<int> gpus = {};   // these, by their machine's numbers; or
  int gpu_count = 0;            // so many, whichever are free: create waits for them as for a slot
  bool share_gpus = false;      // others that say so too may have the same ones; else they are this object's alone
  std::vector<int> cores = {};  // processors its thread (and what it starts) may run on; empty: all
  std::optional<std::chrono::milliseconds> timeout = {};  // for create; default: Options::create_timeout
  int max_restarts = 0;  // how often a lost object is built again (see Remote<T>::on_restart)
};

struct Placement {
  int32_t index = 0;  // 0, 1, 2... in the order of creation by its manager
  std::string name;   // "Greeter#0", or the Place's name
  std::string engine;
  std::vector<int> gpus;     // by the machine's numbers
  std::vector<int> devices;  // the same as this process numbers them: "cuda:N"
  std::vector<int> cores;
  std::string directory;   // the object's own; exists from the first call of placement() on
  int32_t generation = 0;  // how often it was built again after a loss
};
PARL_FIELDS(Placement, index, name, engine, gpus, devices, cores, directory, generation);

// Of the object whose constructor, method or destructor runs on this thread. Throws parl::Error elsewhere.
const Placement& placement();

// True once the caller of the running method has given it up (deadline, cancel) or the manager is closing. A long
// method may poll it and return early. False outside a remote object.
bool stop_requested();

// True while a constructor, method or destructor of a remote object runs on this thread.
bool on_remote_object();

// `hook` runs first on every object's thread, before the constructor. Register before parl::init (a worker process does
// not come back from it), or at namespace scope: the result is always true.
bool on_object_thread(std::function<void()> hook);

}  // namespace parl
