// RemoteError: the one exception that a remote call throws, the same in every engine.
//
//   threw      the method (or constructor) threw; what() and type() tell of that exception. The object lives on.
//   lost       the object's process or connection ended under it
//   refused    the call or creation was not accepted: deadlock, no free slot, unknown class, forbidden place
//   timeout    a deadline passed; the late result is dropped
//   cancelled  the future was cancelled
//   closed     the handle, or its manager, was closed
//   serialize  an argument or result could not be coded; the connection and the object live on
// Thread rule: values.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "parl/core/check.h"
#include "parl/core/fields.h"
#include "parl/wire/archive.h"

namespace parl {

enum class RemoteErrorKind : uint8_t { kThrew, kLost, kRefused, kTimeout, kCancelled, kClosed, kSerialize };

std::string_view to_string(RemoteErrorKind kind);

// What went wrong, as it travels. Empty strings: unknown or not applicable.
struct RemoteFailure {
  RemoteErrorKind kind = RemoteErrorKind::kThrew;
  std::string message;             // what() of the far exception, or a sentence that says what to do
  std::string type;                // its demangled type
  std::string stack;               // where it was thrown, if recorded
  std::string class_name, method;  // of the call
  std::string object;              // "Greeter#3"
  std::string host;
  int64_t pid = 0;                // of the process where the object lives
  std::vector<std::string> path;  // the calls that led there, outermost first: "Greeter#3.sum"
};
PARL_FIELDS(RemoteFailure, kind, message, type, stack, class_name, method, object, host, pid, path);

class RemoteError : public Error {
 public:
  explicit RemoteError(RemoteFailure failure);
  RemoteErrorKind kind() const { return failure_.kind; }
  const std::string& message() const { return failure_.message; }  // what() without the context
  const std::string& type() const { return failure_.type; }
  const std::string& stack() const { return failure_.stack; }
  const std::string& class_name() const { return failure_.class_name; }
  const std::string& method() const { return failure_.method; }
  const std::string& object() const { return failure_.object; }
  const std::string& host() const { return failure_.host; }
  int64_t pid() const { return failure_.pid; }
  const std::vector<std::string>& path() const { return failure_.path; }
  const RemoteFailure& failure() const { return failure_; }

 private:
  RemoteFailure failure_;
};

namespace internal {

RemoteFailure make_failure(RemoteErrorKind kind, std::string message);
[[noreturn]] void throw_remote(RemoteErrorKind kind, std::string message);

// Thrown where arguments or results are coded, so that it is told apart from what user code throws.
class CodingError : public WireError {
 public:
  using WireError::WireError;
};
// The exception being handled becomes a CodingError about `what` ("the arguments"); call inside a catch block.
[[noreturn]] void rethrow_as_coding(std::string_view what);

// The exception being handled, in words; call inside a catch block. CodingError becomes `serialize`, all else `threw`.
// Never throws.
RemoteFailure describe_current_exception() noexcept;

// "std::runtime_error" for a mangled name.
std::string demangle(const char* mangled);

}  // namespace internal
}  // namespace parl
