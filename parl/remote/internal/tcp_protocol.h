// What a learner and a worker say to each other about their connection: on its object 0. What they say about an object
// goes by that object's number, in the words of process_protocol.h.
//
// A worker dials in, or an observer, who asks one question.
//
//   worker -> learner   kHello      {Greeting}              first of all, and its first two fields never change
//   learner -> worker   kChallenge  {Greeting}
//   worker -> learner   kProof      {Proof}                 that it has the token, if there is one
//   learner -> worker   kWelcome    {Welcome}               with its own proof; or kRefuse {why}, and the end
//   worker -> learner   kOffer      {WorkerOffer}                what it can build, how many at once
//   worker -> learner   kFacts      {WorkerFacts}           about its process, and a sign of life
//   both                kBeat                               a sign of life
//   both                kBye        {Bye}                   it ends because it wants to: no failure
//   worker -> learner   kOutput     {text}                  what it printed
//   observer -> learner kAsk                                instead of kOffer
//   learner -> observer kStatus     {ManagerStatus}         and the end
// Until kWelcome a frame has at most 4 KiB, and an observer's always. A worker's objects are numbered by the learner
// from 1 on, never twice; an object that dialled in (as_remote) is number 1 and begins with kTake {CreateHead} instead
// of kCreate. The stream kVersions has the Versioned values that messages to objects name (version_library.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "parl/core/fields.h"
#include "parl/remote/internal/process_protocol.h"
#include "parl/wire/wire.h"

namespace parl::internal {

enum class ControlKind : uint8_t {
  kHello = 64,
  kChallenge,
  kProof,
  kWelcome,
  kRefuse,
  kOffer,
  kBeat,
  kBye,
  kOutput,
  kFacts,
  kAsk,
  kStatus
};

// A machine whose kernel answers nothing for so long is lost, whatever its program does.
inline constexpr auto kKernelPatience = std::chrono::seconds(120);
inline constexpr int kMostSlots = 4096;  // of one worker
// The stream of Versioned values, learner -> worker; a frame's id is the value's key.
inline constexpr uint32_t kVersions = UINT32_MAX;
enum class VersionKind : uint8_t { kValue = 96, kForget };
inline constexpr const char* kMark = "parl-remote";

// Who dials in.
enum class Role : uint8_t { kWorker, kObserver };

// Its first two fields can be read by any version.
struct Greeting {
  std::string mark = kMark;
  int32_t protocol = 0;
  std::string nonce;       // 32 random bytes
  bool has_token = false;  // the learner: it asks for one
  int64_t pid = 0;
  std::string host;
  Role role = Role::kWorker;  // of a guest
};
PARL_FIELDS(Greeting, mark, protocol, nonce, has_token, pid, host, role);

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
  std::vector<int32_t> gpus;     // by its machine's numbers
  std::vector<int32_t> devices;  // the same as its process numbers them
};
PARL_FIELDS(WorkerOffer, slots, is_object, classes, gpus, devices);

struct WorkerFacts {
  uint64_t memory_bytes = 0;  // resident
  double cpu_s = 0;           // processor time that it has used, all threads
};
PARL_FIELDS(WorkerFacts, memory_bytes, cpu_s);

struct Bye {
  std::string why;
  bool leaves_work = false;  // learner: objects that did not end in time are left; end them by force
  bool is_failure = false;   // worker: its last words, for it is dying
};
PARL_FIELDS(Bye, why, leaves_work, is_failure);

}  // namespace parl::internal
