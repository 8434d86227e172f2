#include "parl/remote/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <vector>

#include "parl/core/check.h"
#include "parl/remote/remote.h"

namespace parl {
namespace {

// argv as main has it: one null more than argc.
struct Argv {
  explicit Argv(std::vector<std::string> all) : texts(std::move(all)) {
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    argc = static_cast<int>(texts.size());
  }
  std::string rest() const {
    std::string out;
    for (int i = 0; i < argc; ++i) out += std::string(pointers[static_cast<size_t>(i)]) + "|";
    return out;
  }
  std::vector<std::string> texts;
  std::vector<char*> pointers;
  int argc;
};

// The program's options are process-wide: each test that sets some runs in a child.
void in_child(const std::function<bool()>& f) {
  EXPECT_EXIT(
      {
        bool good = false;
        try {
          good = f();
        } catch (const std::exception& e) {
          fprintf(stderr, "%s\n", e.what());
        }
        std::_Exit(good ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Options, TakesItsOwnOptionsOutOfArgv) {
  in_child([] {
    Argv a({"prog", "--parl-engine", "inline", "--lr", "1", "--parl-slots=3", "--", "--parl-engine"});
    init(a.argc, a.pointers.data());
    const Options o = internal::resolve({});
    return a.rest() == "prog|--lr|1|--|--parl-engine|" && a.pointers[static_cast<size_t>(a.argc)] == nullptr &&
           o.engine == "inline" && o.slots == 3 && o.spares == 0;
  });
}

TEST(Options, ExplicitBeatsOptionBeatsEnvironment) {
  in_child([] {
    setenv("PARL_ENGINE", "process", 1);
    if (internal::resolve({}).engine != "process") return false;
    Argv a({"prog", "--parl-engine=inline"});
    init(a.argc, a.pointers.data());
    if (internal::resolve({}).engine != "inline") return false;
    return internal::resolve(Options{.engine = "thread"}).engine == "thread";
  });
  in_child([] {
    unsetenv("PARL_ENGINE");
    return internal::resolve({}).engine == "thread";
  });
}

TEST(Options, ErrorsSayWhatToDo) {
  const auto error_of = [](std::vector<std::string> all) {
    Argv a(std::move(all));
    try {
      init(a.argc, a.pointers.data());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_NE(error_of({"prog", "--parl-engin", "x"}).find("did you mean '--parl-engine'"), std::string::npos);
  EXPECT_NE(error_of({"prog", "--parl-slots"}).find("wants a value"), std::string::npos);
  EXPECT_NE(error_of({"prog", "--parl-worker", "nonsense"}).find("tcp://host:port"), std::string::npos);
  EXPECT_NE(error_of({"prog", "--parl-metrics", "garbage"}).find("--parl-metrics: "), std::string::npos);
  in_child([] {
    Argv a({"prog", "--parl-slots", "many"});
    try {
      init(a.argc, a.pointers.data());
    } catch (const Error&) {
      return true;
    }
    return false;
  });
}

// ---- two classes under one name ----

namespace one {
struct Twin {
  int f() { return 1; }
};
PARL_REMOTE_CLASS(Twin, f);
}  // namespace one
namespace two {
struct Twin {
  int f() { return 2; }
};
PARL_REMOTE_CLASS_AS("two.Twin", Twin, f);
struct Other {
  int f() { return 2; }
};
PARL_REMOTE_CLASS_AS("Twin", Other, f);
}  // namespace two

TEST(Factory, OneNameForEachClass) {
  RemoteManager manager("inline");
  EXPECT_EQ(manager.create<one::Twin>()->f(), 1);
  EXPECT_EQ(manager.create<two::Twin>()->f(), 2);
  EXPECT_NO_THROW(internal::check_factory());
  const auto* entry = internal::find_class("two.Twin");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(internal::fingerprint(*entry->info),
            fmt::format("parl-remote {}; class two.Twin; f()->i4", internal::kProtocolVersion));
}

namespace one {
struct Offered {
  explicit Offered(std::string, int64_t = 0) {}
  int f() { return 3; }
};
PARL_REMOTE_CLASS(Offered, f);
}  // namespace one

TEST(Factory, OfferEntersAClassThatNobodyCreates) {
  const auto* entry = internal::find_class("Offered");
  ASSERT_NE(entry, nullptr);
  ASSERT_EQ(entry->constructors.size(), 2u);
  offer<one::Offered(std::string)>();
  offer<one::Offered(const char*, int64_t)>();
  std::set<std::string> signatures;
  for (const auto& c : entry->constructors) signatures.insert(c.signature);
  EXPECT_EQ(signatures, (std::set<std::string>{"(s)", "(s,i8)"}));
  Writer w;
  wire::save(w, std::tuple<std::string>("x"));
  Reader r(w.head());
  const auto& by_name = entry->constructors[entry->constructors[0].signature == "(s)" ? 0 : 1];
  void* object = by_name.construct_wire(r);
  EXPECT_EQ(static_cast<one::Offered*>(object)->f(), 3);
  entry->info->destroy(object);
}

TEST(Factory, TwoClassesUnderOneNameAreRefused) {
  in_child([] {
    using C = internal::Constructor<two::Other>;
    internal::enter_factory({&internal::class_info<two::Other>, &C::signature, &C::from_wire});
    try {
      internal::check_factory();
    } catch (const Error& e) {
      const std::string text = e.what();
      return text.find("one::Twin at") != std::string::npos && text.find("two::Other at") != std::string::npos &&
             text.find("PARL_REMOTE_CLASS_AS") != std::string::npos;
    }
    return false;
  });
}

}  // namespace
}  // namespace parl
