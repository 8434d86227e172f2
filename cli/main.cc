#include "cli/command_line.h"

int main(int argc, char** argv) { return parl::command_line(argc, argv); }
