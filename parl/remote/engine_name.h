// Names of engines, for whoever wants to refuse a wrong one before anything starts.
// Thread rule: any thread.
#pragma once

#include <string>

namespace parl {

// Throws parl::Error with the nearest names unless `name` is inline, thread, process, or an address of the tcp engine
// (tcp://host:port, unix:/path). Empty: what the program's options or PARL_ENGINE say, else thread.
void check_engine_name(const std::string& name);

}  // namespace parl
