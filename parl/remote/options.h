// How a manager works, and the program's --parl-* options.
//
// parl::init(argc, argv) is the first statement of main (a RemoteManager's constructor calls it if nobody did). It
// takes every --parl-* option out of argv; in a worker process it serves that worker's object and does not return.
//   --parl-engine inline|thread|process|tcp://host:port   where objects live (default: PARL_ENGINE, then thread)
//   --parl-slots N                        at most N objects at once (default: no limit)
//   --parl-spares N                       process: N processes ready in advance
//   --parl-dir DIR                        directory for the objects' own directories and logs
//   --parl-gpus 0,1|auto|none             the GPUs that objects may be given (default: auto, all that are visible)
//   --parl-metrics 127.0.0.1:9100         counters for Prometheus there, over HTTP (default: nowhere)
//   --parl-token-file FILE                tcp: the secret that both sides share (default: PARL_TOKEN_FILE)
//   --parl-certificates DIR               tcp: TLS with the certificates there (default: PARL_CERTIFICATES)
//   --parl-insecure                       tcp: open to everybody who can reach the port
//   --parl-worker tcp://host:port         this program is a worker: with --slots N (default 1) it serves N objects at
//                                         once for the learner there; --gpus 0,1 (default: --parl-gpus) are its GPUs
// What the program says itself beats the option, which beats the environment.
// An unknown --parl-* option is an error that names the nearest one.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace parl {

struct Options {
  std::string engine = {};     // empty: option, environment, "thread"
  int slots = -1;              // -1: option, else 0; 0: no limit
  int spares = -1;             // -1: option, else 0
  std::string directory = {};  // empty: option, else a temporary one that is removed with the manager
  std::string gpus = {};       // "0,1", "auto", "none"; empty: option, else "auto". tcp: workers have their own
  std::string metrics = {};    // "127.0.0.1:9100"; empty: option, else no HTTP. Beyond loopback: insecure only
  size_t max_calls = 256;      // waiting in one object's mailbox
  size_t max_bytes = size_t{64} << 20;  // of their arguments (one larger call alone is taken)
  std::chrono::milliseconds create_timeout{60000};
  std::chrono::milliseconds hello_timeout{20000};    // process: from start to the first sign of life
  std::chrono::milliseconds shutdown_timeout{5000};  // the manager's end: SIGKILL, or a leaked object, after it
  size_t slab_bytes = size_t{256} << 20;             // process: shared memory per direction and object, taken as needed
  // tcp:
  std::string token_file = {};                         // empty: option, environment, else no token
  std::string certificates = {};                       // a folder for TLS (parl keygen); empty: as above, else no TLS
  bool insecure = false;                               // or the option: no guard at all
  std::chrono::milliseconds heartbeat_timeout{10000};  // a worker that is silent for this long is lost
  std::chrono::milliseconds handshake_timeout{10000};  // for a connection to say and prove who it is
  int max_connections = 4096;                          // workers and strangers together
};

void init(int& argc, char** argv);

namespace internal {
// The option, environment and defaults filled in.
Options resolve(Options explicit_options);
bool initialised();
}  // namespace internal

}  // namespace parl
