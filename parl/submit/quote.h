// Text that a shell, a YAML reader or a person's terminal shall take literally. Thread rule: any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace parl::submit {

// One word of a POSIX shell: plain where that is safe, else in single quotes.
std::string shell_quote(std::string_view word);
std::string shell_join(const std::vector<std::string>& words);

// The words of a command line, cut as a shell does it: blanks separate, '...' and "..." hold together, \ takes the next
// character literally. No variables, no patterns. Throws parl::Error for a quote that does not end.
std::vector<std::string> shell_split(std::string_view text);

// A YAML scalar in double quotes (a JSON string).
std::string yaml_quote(std::string_view text);

}  // namespace parl::submit
