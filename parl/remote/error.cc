#include "parl/remote/error.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

namespace parl {
namespace {

std::string describe(const RemoteFailure& f) {
  std::string out = f.object.empty() ? f.class_name : f.object;
  if (!f.method.empty()) out += (out.empty() ? "" : ".") + f.method;
  if (!out.empty()) out += ": ";
  out += to_string(f.kind);
  if (!f.type.empty()) out += " " + f.type;
  out += ": " + f.message;
  if (f.pid) out += fmt::format(" (process {}{}{})", f.pid, f.host.empty() ? "" : " on ", f.host);
  if (f.path.size() > 1) out += fmt::format("\n  call path: {}", fmt::join(f.path, " -> "));
  if (!f.stack.empty()) out += "\n  stack:\n" + f.stack;
  return out;
}

}  // namespace

std::string_view to_string(RemoteErrorKind kind) {
  constexpr std::string_view kNames[] = {"threw", "lost", "refused", "timeout", "cancelled", "closed", "serialize"};
  const auto i = static_cast<size_t>(kind);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

RemoteError::RemoteError(RemoteFailure failure) : Error(describe(failure)), failure_(std::move(failure)) {}

namespace internal {

RemoteFailure make_failure(RemoteErrorKind kind, std::string message) {
  RemoteFailure failure;
  failure.kind = kind;
  failure.message = std::move(message);
  return failure;
}

void throw_remote(RemoteErrorKind kind, std::string message) {
  throw RemoteError(make_failure(kind, std::move(message)));
}

std::string demangle(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : mangled;
}

void rethrow_as_coding(std::string_view what) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw CodingError(fmt::format("no memory for {}", what));
  } catch (const std::exception& e) {
    throw CodingError(fmt::format("{} could not be coded: {}", what, e.what()));
  } catch (...) {
    throw CodingError(fmt::format("{} could not be coded: unknown exception", what));
  }
}

RemoteFailure describe_current_exception() noexcept {
  RemoteFailure failure;
  try {
    if (const std::type_info* type = abi::__cxa_current_exception_type()) failure.type = demangle(type->name());
    try {
      throw;
    } catch (const RemoteError& e) {
      failure.message = e.what();
      failure.stack = e.stack();
      failure.path = e.path();
    } catch (const CodingError& e) {
      failure.kind = RemoteErrorKind::kSerialize;
      failure.message = e.what();
    } catch (const Error& e) {
      failure.message = e.what();
      failure.stack = e.stack();
    } catch (const std::exception& e) {
      failure.message = e.what();
    } catch (...) {
      failure.message = "unknown exception";
    }
  } catch (...) {  // no memory for the words
  }
  return failure;
}

}  // namespace internal
}  // namespace parl
