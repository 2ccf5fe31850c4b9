#include "cli/main.h"

int main(int argc, char** argv) { return emblem::run_command_line(argc, argv); }
