// What a learner and a worker say to each other about their connection: on its object 0. What they say about an object
// goes by that object's number, in the words of process_protocol.h.
//
//   worker -> learner   kHello      {Greeting}              first of all, and its first two fields never change
//   learner -> worker   kChallenge  {Greeting}
//   worker -> learner   kProof      {Proof}                 that it has the token, if there is one
//   learner -> worker   kWelcome    {Welcome}               with its own proof; or kRefuse {why}, and the end
//   worker -> learner   kOffer      {WorkerOffer}                what it can build, how many at once
//   both                kBeat                               a sign of life
//   both                kBye        {Bye}                   it ends because it wants to: no failure
//   worker -> learner   kOutput     {text}                  what it printed
// Until kWelcome a frame has at most 4 KiB. A worker's objects are numbered by the learner from 1 on, never twice;
// an object that dialled in (as_remote) is number 1 and begins with kTake {CreateHead} instead of kCreate.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "parl/core/fields.h"
#include "parl/remote/internal/process_protocol.h"
#include "parl/wire/wire.h"

namespace parl::internal {

enum class ControlKind : uint8_t { kHello = 64, kChallenge, kProof, kWelcome, kRefuse, kOffer, kBeat, kBye, kOutput };

// A machine whose kernel answers nothing for so long is lost, whatever its program does.
inline constexpr auto kKernelPatience = std::chrono::seconds(120);
inline constexpr int kMostSlots = 4096;  // of one worker
inline constexpr const char* kMark = "parl-remote";

// Its first two fields can be read by any version.
struct Greeting {
  std::string mark = kMark;
  int32_t protocol = 0;
  std::string nonce;       // 32 random bytes
  bool has_token = false;  // the learner: it asks for one
  int64_t pid = 0;
  std::string host;
};
PARL_FIELDS(Greeting, mark, protocol, nonce, has_token, pid, host);

struct Proof {
  std::string mac;  // empty: no token
};
PARL_FIELDS(Proof, mac);

struct Welcome {
  std::string mac;
  int64_t heartbeat_ms = 0;  // how long the worker may be silent
};
PARL_FIELDS(Welcome, mac, heartbeat_ms);

struct OfferedClass {
  std::string name, fingerprint;
  std::vector<std::string> constructors;  // their signatures; none for an object that exists already
};
PARL_FIELDS(OfferedClass, name, fingerprint, constructors);

struct WorkerOffer {
  int32_t slots = 0;
  bool is_object = false;  // as_remote: one object, which exists already
  std::vector<OfferedClass> classes;
};
PARL_FIELDS(WorkerOffer, slots, is_object, classes);

struct Bye {
  std::string why;
  bool leaves_work = false;  // learner: objects that did not end in time are left; end them by force
};
PARL_FIELDS(Bye, why, leaves_work);

}  // namespace parl::internal
