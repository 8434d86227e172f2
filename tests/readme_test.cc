// The README's code is the code that is compiled: examples/hello_remote.cc, to the letter, and every page's other
// blocks that name a file are parts of that file.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "parl/core/files.h"

namespace {

using parl::read_file;

std::string path(const std::string& name) { return std::string(PARL_SOURCE_DIR) + "/" + name; }

struct Block {
  std::string file;  // named by "<!-- from FILE -->" above the block
  std::string code;
};

std::vector<Block> quoted_blocks(const std::string& page) {
  std::vector<Block> blocks;
  static const std::regex kMark("<!-- from ([^ ]+) -->");
  std::istringstream in(page);
  std::string file;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kMark)) {
      file = match[1];
    } else if (line.starts_with("```") && !file.empty()) {
      Block block{file, ""};
      while (std::getline(in, line) && line != "```") block.code += line + "\n";
      blocks.push_back(block);
      file.clear();
    } else if (!line.empty()) {
      file.clear();
    }
  }
  return blocks;
}

std::string without_first_comment(std::string text) {
  while (text.starts_with("//")) text.erase(0, text.find('\n') + 1);
  return text;
}

TEST(Readme, TheExampleIsHelloRemote) {
  const auto blocks = quoted_blocks(read_file(path("README.md")));
  const auto hello =
      std::find_if(blocks.begin(), blocks.end(), [](const Block& b) { return b.file == "examples/hello_remote.cc"; });
  ASSERT_NE(hello, blocks.end()) << "the README has no block under <!-- from examples/hello_remote.cc -->";
  EXPECT_EQ(hello->code, without_first_comment(read_file(path("examples/hello_remote.cc"))));
}

TEST(Readme, HelloRemoteStaysShort) {
  const std::string code = read_file(path("examples/hello_remote.cc"));
  EXPECT_LE(std::count(code.begin(), code.end(), '\n'), 40);
}

TEST(Docs, EveryQuotedBlockIsPartOfItsFile) {
  std::vector<std::string> pages = {path("README.md"), path("CONTRIBUTING.md")};
  for (const auto& entry : std::filesystem::directory_iterator(path("docs"))) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path().string());
  }
  for (const std::string& page : pages) {
    for (const Block& block : quoted_blocks(read_file(page))) {
      EXPECT_NE(read_file(path(block.file)).find(block.code), std::string::npos)
          << page << " quotes code that is not in " << block.file << ":\n"
          << block.code;
    }
  }
}

std::string without_code(const std::string& page) {
  std::istringstream in(page);
  std::string out;
  bool code = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```"))
      code = !code;
    else if (!code)
      out += line + "\n";
  }
  return std::regex_replace(out, std::regex("`[^`]*`"), "");
}

TEST(Docs, LinksLeadToFiles) {
  static const std::regex kLink(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  std::vector<std::filesystem::path> pages = {path("README.md"), path("CONTRIBUTING.md")};
  for (const auto& entry : std::filesystem::directory_iterator(path("docs"))) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  for (const auto& page : pages) {
    const std::string text = without_code(read_file(page.string()));
    for (std::sregex_iterator link(text.begin(), text.end(), kLink), end; link != end; ++link) {
      EXPECT_TRUE(std::filesystem::exists(page.parent_path() / std::string((*link)[1])))
          << page << " links to " << (*link)[1];
    }
  }
}

}  // namespace
