#include "parl/submit/plan.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <sstream>

#include "parl/core/check.h"
#include "parl/core/files.h"
#include "parl/submit/options.h"
#include "parl/submit/quote.h"

namespace parl::submit {
namespace {

constexpr int kMostWorkers = 4096, kMostSlots = 4096;

int parse_number(std::string_view text, const std::string& what, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  PARL_CHECK(error == std::errc() && end == text.data() + text.size() && value >= low && value <= high,
             "{} wants a number from {} to {}, not '{}'", what, low, high, text);
  return value;
}

// "host", "host:port", "[v6]:port"; tcp:// before it is allowed.
void parse_address(std::string text, std::string& host, int& port) {
  const std::string whole = text;
  if (text.starts_with("tcp://")) text.erase(0, 6);
  size_t colon = text.rfind(':');
  if (text.starts_with("[")) {
    const size_t end = text.find(']');
    PARL_CHECK(end != std::string::npos, "--address: '{}' has no ']'; write HOST, HOST:PORT or [V6]:PORT", whole);
    host = text.substr(1, end - 1);
    colon = end + 1 < text.size() && text[end + 1] == ':' ? end + 1 : std::string::npos;
  } else if (std::count(text.begin(), text.end(), ':') > 1) {
    raise("--address: write an IPv6 address in brackets, [{}] or [{}]:PORT", text, text);
  } else {
    host = text.substr(0, colon);
  }
  if (colon != std::string::npos) port = parse_number(text.substr(colon + 1), "the port of --address", 1, 65535);
  PARL_CHECK(!host.empty() && host.find_first_of(" /'\"\\") == std::string::npos, "--address: '{}' names no host",
             whole);
}

std::string safe_name(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const char lower = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    const bool is_plain = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (is_plain) out += lower;
    if (!is_plain && !out.empty() && out.back() != '-') out += '-';
  }
  out = out.substr(0, 40);
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out;
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

// Another program may take it before the learner listens: then the learner says so.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  const bool is_bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) ::close(fd);
  PARL_CHECK(is_bound, "no free port was found; name one: --address HOST:PORT");
  return ntohs(address.sin_port);
}

void check_numbers(const SubmitOptions& options) {
  PARL_CHECK(options.workers >= 0 && options.workers <= kMostWorkers, "--workers (-n) must be from 1 to {}, not {}",
             kMostWorkers, options.workers);
  PARL_CHECK(options.slots >= 1 && options.slots <= kMostSlots, "--slots must be from 1 to {}, not {}", kMostSlots,
             options.slots);
  PARL_CHECK(options.cpus >= 1, "--cpus must be at least 1, not {}", options.cpus);
  PARL_CHECK(options.gpus >= 0, "--gpus must not be negative, and is {}", options.gpus);
  PARL_CHECK(options.restarts >= 0, "--restarts must not be negative, and is {}", options.restarts);
  PARL_CHECK(options.patience >= 1, "--patience must be at least 1, not {}", options.patience);
  PARL_CHECK(options.start_with >= 0, "--start-with must not be negative, and is {}", options.start_with);
}

std::vector<std::pair<std::string, std::string>> parse_environment(const std::vector<std::string>& env) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& item : env) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const bool is_name =
        !name.empty() &&
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
    PARL_CHECK(equals != std::string::npos && is_name && !(name[0] >= '0' && name[0] <= '9'),
               "--env wants NAME=VALUE, not '{}'", item);
    PARL_CHECK(name != "PARL_TOKEN_FILE", "the token comes from --token-file, or from PARL_TOKEN_FILE here");
    out.emplace_back(name, item.substr(equals + 1));
  }
  return out;
}

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

void place_token(const SubmitOptions& options, SubmitPlan& plan) {
  std::string file = options.token_file;
  const char* environment = std::getenv("PARL_TOKEN_FILE");
  if (file.empty() && environment) file = environment;
  plan.token_is_new = file.empty();
  plan.token_file = plan.token_is_new ? plan.directory + "/token" : absolute(file);
  PARL_CHECK(plan.token_is_new || ::access(plan.token_file.c_str(), R_OK) == 0,
             "the token file '{}' cannot be read; make one: parl keygen token FILE", file);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses look_up(const std::string& host) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  return Addresses(::getaddrinfo(host.c_str(), "9", &hints, &list) == 0 ? list : nullptr);
}

}  // namespace

std::string SubmitPlan::dial() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("tcp://{}:{}", is_v6 ? "[" + host + "]" : host, port);
}

std::string SubmitPlan::listen() const {
  if (is_loopback(host)) return dial();
  return fmt::format("tcp://{}:{}", host.find(':') != std::string::npos ? "[::]" : "0.0.0.0", port);
}

std::vector<std::string> SubmitPlan::worker_command() const {
  return {program.at(0), "--parl-worker", dial(), "--slots", std::to_string(slots)};
}

std::vector<std::string> SubmitPlan::learner_command() const {
  constexpr std::string_view kEngine = "{engine}";
  std::vector<std::string> out = program;
  for (std::string& argument : out) {
    if (const size_t at = argument.find(kEngine); at != std::string::npos)
      argument.replace(at, kEngine.size(), listen());
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> SubmitPlan::worker_environment() const {
  // Until all workers run there is no learner, and a site may take hours for that.
  std::vector<std::pair<std::string, std::string>> out = {{"PARL_WORKER_PATIENCE", std::to_string(patience)},
                                                          {"PARL_WORKER_FIRST_PATIENCE", "0"}};
  out.insert(out.end(), environment.begin(), environment.end());
  return out;
}

std::string SubmitPlan::log_file(int worker) const { return fmt::format("{}/worker-{}.log", directory, worker); }

SubmitPlan make_plan(const SubmitOptions& options, const std::string& default_host, bool has_local_learner) {
  check_numbers(options);
  PARL_CHECK(!options.program.empty(), "no program is given: parl submit --on SITE -n N -- ./my_program ...");
  PARL_CHECK(options.workers > 0, "how many workers? -n N");
  SubmitPlan plan;
  plan.program = options.program;
  const std::string program_name = std::filesystem::path(options.program[0]).filename().string();
  plan.name = safe_name(options.name.empty() ? fmt::format("parl-{}-{}", program_name.substr(0, 20), ::getpid())
                                             : options.name);
  PARL_CHECK(!plan.name.empty() && plan.name[0] >= 'a' && plan.name[0] <= 'z',
             "--name '{}' must begin with a letter, and have letters, digits and dashes", options.name);
  plan.workers = options.workers;
  plan.slots = options.slots;
  plan.cpus = options.cpus;
  plan.gpus = options.gpus;
  plan.memory = parse_memory(options.mem);
  plan.host = default_host;
  if (!options.address.empty()) parse_address(options.address, plan.host, plan.port);
  if (plan.host.empty()) plan.host = plan.name + "-learner";  // a name that the site makes
  if (plan.port == 0) plan.port = has_local_learner ? free_port() : 8037;
  plan.directory =
      absolute(options.dir.empty() ? fmt::format("runs/submit-{}-{}", time_stamp(), ::getpid()) : options.dir);
  plan.work_directory = options.chdir;
  if (plan.work_directory.empty() && has_local_learner) plan.work_directory = std::filesystem::current_path().string();
  plan.start_with = options.start_with == 0 ? plan.workers : std::min(options.start_with, plan.workers);
  plan.restarts = options.restarts;
  plan.patience = options.patience;
  plan.is_quiet = options.quiet;
  plan.environment = parse_environment(options.env);
  plan.site_options = shell_split(options.site_options);
  place_token(options, plan);
  return plan;
}

int64_t parse_memory(const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  std::string number = text;
  if (number.size() > 1 && (number.back() == 'i' || number.back() == 'B')) number.pop_back();
  if (number.size() > 1 && number.back() == 'i') number.pop_back();
  int64_t factor = 1;
  if (!number.empty()) {
    if (const size_t unit = kUnits.find(number.back()); unit != std::string_view::npos) {
      factor = int64_t{1} << (10 * (unit + 1));
      number.pop_back();
    }
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  PARL_CHECK(error == std::errc() && end == number.data() + number.size() && value > 0 &&
                 value <= (int64_t{1} << 60) / factor && value * factor >= (1 << 20),
             "--mem wants a size from 1M on, as in 512M or 2G, not '{}'", text);
  return value * factor;
}

std::vector<Host> parse_hosts(const std::vector<std::string>& hosts, const std::string& file) {
  std::vector<Host> out;
  const auto add = [&](const std::string& text) {
    const size_t colon = text.rfind(':');
    const bool has_slots = colon != std::string::npos && text.find(':') == colon;  // two colons: an IPv6 address
    Host host{text.substr(0, has_slots ? colon : std::string::npos), 0};
    if (has_slots) host.slots = parse_number(text.substr(colon + 1), "the slots of host '" + text + "'", 1, 4096);
    PARL_CHECK(!host.name.empty() && host.name[0] != '-', "'{}' is no host", text);
    out.push_back(host);
  };
  for (const std::string& text : hosts) add(text);
  if (!file.empty()) {
    std::istringstream lines(read_file(file));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      std::string word, more;
      if (!(words >> word)) continue;
      PARL_CHECK(!(words >> more), "'{}': a line has one host or host:slots, not '{}'", file, line);
      add(word);
    }
  }
  PARL_CHECK(!out.empty(), "--on ssh wants hosts: --hosts a,b:4 or --host-file FILE");
  return out;
}

std::vector<std::string> deal_hosts(const std::vector<Host>& hosts, int workers) {
  int room = 0;
  const bool is_bounded = std::all_of(hosts.begin(), hosts.end(), [](const Host& h) { return h.slots > 0; });
  for (const Host& host : hosts) room += std::max(host.slots, 1);
  if (workers == 0) workers = room;
  PARL_CHECK(!is_bounded || workers <= room, "-n {}: the hosts have {} slots together", workers, room);
  std::vector<int> taken(hosts.size(), 0);
  std::vector<std::string> out;
  for (size_t i = 0; static_cast<int>(out.size()) < workers; i = (i + 1) % hosts.size()) {
    if (hosts[i].slots > 0 && taken[i] == hosts[i].slots) continue;
    ++taken[i];
    out.push_back(hosts[i].name);
  }
  return out;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string address_towards(const std::string& host) {
  const Addresses list = look_up(host);
  for (const addrinfo* a = list.get(); a; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST] = "";
    // Connecting a datagram socket sends nothing; it asks the routing table.
    if (::connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0)
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    ::close(fd);
    if (*text) return text;
  }
  return "";
}

}  // namespace parl::submit
