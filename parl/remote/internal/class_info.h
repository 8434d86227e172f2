// The description of a remote class that engines work with: no types, only tables of functions.
// One immutable ClassInfo per class in a program, made from PARL_REMOTE_CLASS; the factory table finds it by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parl/core/process.h"
#include "parl/wire/archive.h"

namespace parl::internal {

struct MethodInfo {
  const char* name;
  std::string signature;  // wire schema "(i4,i4)->i4"
  // Decodes the arguments, runs the method on `object` and encodes the result; what the result's attachments point at
  // is kept by the writer. Throws WireError (arguments did not decode: the object was not touched), or what the method
  // threw.
  void (*invoke_wire)(void* object, Reader& arguments, Writer& result);
  // Decodes and drops the arguments: for a call that was given up before it began (Versioned bookkeeping needs it).
  void (*skip_wire)(Reader& arguments);
};

struct ConstructorInfo {
  std::string signature;  // wire schema of the decayed arguments "(s,i4)"
  void* (*construct_wire)(Reader& arguments);
};

struct ClassInfo {
  std::string name;         // as listed, or as given to PARL_REMOTE_CLASS_AS
  std::string type;         // demangled
  std::string declared_at;  // "file:line" of the modifier
  std::vector<MethodInfo> methods;
  void (*destroy)(void* object);  // runs the destructor; may throw what that throws (if it is noexcept(false))
};

// What both ends must agree on before the first call: protocol version, class, methods with their schemas. Compared as
// text, so that a refusal can show the difference. Constructors are matched one by one, by their signatures: a program
// may offer more than another asks for.
inline constexpr int kProtocolVersion = 3;
std::string fingerprint(const ClassInfo& info);

// ---- the factory table: classes that this program can build by name ----

struct FactoryEntry {
  const ClassInfo* info;
  std::vector<ConstructorInfo> constructors;
};

// One constructor that create<T> or offer<T> asks for. Functions only: the tables behind them are made on first use.
struct FactorySeed {
  const ClassInfo& (*info)();
  std::string (*signature)();
  void* (*construct_wire)(Reader& arguments);
};
// Called during static initialisation. Always true.
bool enter_factory(FactorySeed seed);
// Null: no such class here. The pointer stays valid.
const FactoryEntry* find_class(std::string_view name);
std::vector<std::string> offered_classes();
// Throws parl::Error when two classes bear one name, with both places. init() calls it.
void check_factory();

}  // namespace parl::internal
