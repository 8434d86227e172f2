// Misuse is a compile error with a plain message: each snippet here must fail to compile, and the compiler must say the
// sentence. The good snippet beside them must compile, so that a broken header cannot pass for a refusal.
// One precompiled header serves all snippets; a case takes about half a second.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Case {
  const char* name;
  const char* code;
  const char* message;
};

const Case kCases[] = {
    {"qualified name", "namespace a { struct X { int f(); }; }\nPARL_REMOTE_CLASS(a::X, f);", "without '::'"},
    {"template name", "template <class T> struct X { int f(); };\nPARL_REMOTE_CLASS(X<int>, f);",
     "give a class template an alias"},
    {"data member", "struct X { int f = 0; };\nPARL_REMOTE_CLASS(X, f);", "this is a data member; list a getter"},
    {"static method", "struct X { static int f(); };\nPARL_REMOTE_CLASS(X, f);", "this method is static"},
    {"overloaded method", "struct X { int f(int); int f(double); };\nPARL_REMOTE_CLASS(X, f);",
     "this method is overloaded"},
    {"overloaded in arity", "struct X { int f(); int f(int); };\nPARL_REMOTE_CLASS(X, f);",
     "this method is overloaded"},
    {"template method", "struct X { template <class T> int f(T); };\nPARL_REMOTE_CLASS(X, f);",
     "this method is a template"},
    {"private method", "class X { int f(); };\nPARL_REMOTE_CLASS(X, f);", "this method is private or protected"},
    {"protected method", "class X { protected: int f(int); };\nPARL_REMOTE_CLASS(X, f);",
     "this method is private or protected"},
    {"absent method", "struct X { int f(); };\nPARL_REMOTE_CLASS(X, g);", "the class has no method of this name"},
    {"rvalue-qualified", "struct X { int f() &&; };\nPARL_REMOTE_CLASS(X, f);", "this method is &&-qualified"},
    {"volatile", "struct X { int f() volatile; };\nPARL_REMOTE_CLASS(X, f);", "form that cannot be listed"},
    {"non-const reference", "struct X { void f(int& a); };\nPARL_REMOTE_CLASS(X, f);", "return the value instead"},
    {"pointer parameter", "struct X { void f(int* a); };\nPARL_REMOTE_CLASS(X, f);",
     "a parameter of this method cannot travel"},
    {"const char*", "struct X { void f(const char* a); };\nPARL_REMOTE_CLASS(X, f);",
     "a parameter of this method cannot travel"},
    {"string_view", "struct X { void f(std::string_view a); };\nPARL_REMOTE_CLASS(X, f);",
     "a parameter of this method cannot travel"},
    {"span", "struct X { void f(std::span<float> a); };\nPARL_REMOTE_CLASS(X, f);",
     "a parameter of this method cannot travel"},
    {"shared_ptr", "struct X { void f(std::shared_ptr<int> a); };\nPARL_REMOTE_CLASS(X, f);",
     "a parameter of this method cannot travel"},
    {"function", "struct X { void f(std::function<void()> a); };\nPARL_REMOTE_CLASS(X, f);",
     "a parameter of this method cannot travel"},
    {"reference_wrapper", "struct X { void f(std::reference_wrapper<int>); };\nPARL_REMOTE_CLASS(X, f);",
     "cannot travel"},
    {"trivially copyable", "struct P { int x; }; struct X { void f(P); };\nPARL_REMOTE_CLASS(X, f);",
     "needs a PARL_FIELDS list"},
    {"class with a lock", "struct P { std::mutex m; }; struct X { void f(const P&); };\nPARL_REMOTE_CLASS(X, f);",
     "cannot travel"},
    {"pointer result", "struct X { X* f(); };\nPARL_REMOTE_CLASS(X, f);", "the result of this method cannot travel"},
    {"self by reference", "struct X { X& f(); };\nPARL_REMOTE_CLASS(X, f);", "the result of this method cannot travel"},
    {"handle parameter", "struct X { void f(parl::Remote<X> a); };\nPARL_REMOTE_CLASS(X, f);",
     "handles and futures cannot be arguments"},
    {"future result", "struct X { parl::Future<int> f(); };\nPARL_REMOTE_CLASS(X, f);",
     "handles and futures cannot be arguments"},
    {"function", "int helper(int);\nPARL_REMOTE_CLASS(helper, f);", "helper"},
    {"not a class", "using N = int;\nPARL_REMOTE_CLASS(N, f);", "this is not a class"},
    {"class not listed", "struct X { int f(); };\nvoid g(parl::RemoteManager& m) { m.create<X>(); }",
     "T has no PARL_REMOTE_CLASS line"},
    {"derived class not listed",
     "struct B { int f(); };\nPARL_REMOTE_CLASS(B, f);\nstruct D : B {};\nvoid g(parl::RemoteManager& m) { "
     "m.create<D>(); }",
     "a derived class needs its own"},
    {"missing method called", "void g(parl::Remote<Good>& r) { r->absent(); }", "absent"},
    {"missing setter called", "void g(parl::Remote<Good>& r) { r->set_absent(3); }", "set_absent"},
    {"wrong argument type", "void g(parl::Remote<Good>& r) { r->add(std::string(\"x\"), 1); }", "cannot convert"},
    {"vector from a number", "void g(parl::Remote<Good>& r) { r->total(5); }", "cannot convert"},
    {"wrong argument count", "void g(parl::Remote<Good>& r) { r->add(1); }", "no matching function"},
    {"local missing method", "void g(Good& r) { r.absent(); }", "absent"},
    {"wrong constructor", "void g(parl::RemoteManager& m) { m.create<Good>(std::vector<int>{1}); }",
     "no public constructor for these"},
    {"pointer to a constructor", "void g(parl::RemoteManager& m, int* p) { m.create<Good>(p); }",
     "an argument cannot travel"},
    {"handle to a constructor",
     "void g(parl::RemoteManager& m, parl::Remote<Good>& r) { m.create<Good>(std::move(r)); }",
     "handles and futures cannot be arguments"},
    {"copied handle", "parl::Remote<Good> g(const parl::Remote<Good>& r) { return r; }", "deleted"},
    {"unknown option", "parl::Place g() { return parl::Place{.is_wait = false}; }", "is_wait"},
};

const char* kPrelude = R"(
#include <functional>
#include <mutex>
#include <span>
#include "parl/remote/remote.h"
)";

const char* kGood = R"(
struct Good {
  explicit Good(int start = 0);
  int add(int a, int b);
  double total(const std::vector<double>& v);
};
PARL_REMOTE_CLASS(Good, add, total);
)";

// Everything that is supported, in one place.
const char* kMustCompile = R"(
struct Item { int a = 0; std::vector<float> b; };
PARL_FIELDS(Item, a, b);
struct Base { virtual ~Base() = default; int inherited(int a); };
struct X : Base {
  int plain();
  int constant() const;
  int quiet() noexcept;
  int both() const noexcept;
  int left() &;
  void by_value(std::vector<int> v);
  void by_const(const Item& i);
  void by_rvalue(parl::Array&& a);
  std::unique_ptr<Item> owner(std::unique_ptr<Item> i);
  const std::string& reference() const;
  std::map<std::string, std::optional<Item>> nested(std::variant<int, std::string> v, std::tuple<bool, char> t);
};
PARL_REMOTE_CLASS(X, plain, constant, quiet, both, left, by_value, by_const, by_rvalue, owner, reference, nested, inherited);
namespace deep::er { class Y { public: void f(); }; PARL_REMOTE_CLASS_AS("deep.Y", Y, f); }
namespace { struct Hidden { int f(); }; PARL_REMOTE_CLASS(Hidden, f); }
template <typename T> struct Box { T get() const; };
using IntBox = Box<int>;
PARL_REMOTE_CLASS(IntBox, get);
struct Final final { int f(); };
PARL_REMOTE_CLASS(Final, f);
struct None {};
PARL_REMOTE_CLASS(None);
void use(parl::RemoteManager& m, parl::Remote<X>& x, parl::Remote<IntBox>& b) {
  using namespace std::chrono_literals;
  x->by_value({1, 2});
  x.async()->by_const(Item{});
  x.within(5s)->by_rvalue(parl::Array::of<float>({2}));
  std::string s = x->reference();
  int i = b->get() + x->inherited(1) + x.async()->plain().get();
  (void)i;
  auto g = m.create<Good>(parl::Place{.name = "left"}, 4);
  parl::offer<Good(int)>();
}
)";

class MustNotCompile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = std::filesystem::temp_directory_path() / ("parl_must_not_compile_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder());
    write("prelude.h", kPrelude);
    std::string output;
    ASSERT_EQ(run(compiler() + " -x c++-header " + path("prelude.h") + " -o " + path("prelude.h.gch"), output), 0)
        << output;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }

  static std::filesystem::path& folder() {
    static std::filesystem::path value;
    return value;
  }
  static std::string path(const std::string& name) { return (folder() / name).string(); }
  static void write(const std::string& name, const std::string& text) { std::ofstream(path(name)) << text; }
  static std::string compiler() {
    return std::string("LC_ALL=C " PARL_CXX_COMPILER " -std=c++20 -Wall -Wextra -Werror -I" PARL_SOURCE_DIR " -I") +
           folder().string();
  }
  static int run(const std::string& command, std::string& output) {
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    if (!pipe) return -1;
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
    return pclose(pipe);
  }
  static int compile(const std::string& code, std::string& output) {
    write("snippet.cc", "#include \"prelude.h\"\n" + std::string(kGood) + code + "\n");
    return run(compiler() + " -fsyntax-only " + path("snippet.cc"), output);
  }
};

TEST_F(MustNotCompile, TheGoodOneCompiles) {
  std::string output;
  EXPECT_EQ(compile(kMustCompile, output), 0) << output;
}

TEST_F(MustNotCompile, EachMisuseWithItsMessage) {
  for (const Case& c : kCases) {
    std::string output;
    EXPECT_NE(compile(c.code, output), 0) << c.name << " compiled";
    EXPECT_NE(output.find(c.message), std::string::npos) << c.name << ": expected \"" << c.message << "\" in\n"
                                                         << output;
  }
}

}  // namespace
