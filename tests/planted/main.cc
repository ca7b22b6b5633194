// idempotencyd_planted: idempotencyd with a fault; see planted.h.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/planted/planted.h"

// server/main.cc's, which is compiled under this name here.
int ServiceMain(int argc, char** argv);

int main(int argc, char** argv) {
  std::vector<char*> others;
  for (int i = 0; i < argc; ++i) {
    absl::string_view name = argv[i];
    if (!absl::ConsumePrefix(&name, "--planted=")) {
      others.push_back(argv[i]);
      continue;
    }
    if (name == "list") {
      for (const auto& fault : idempotency::planted::Faults()) {
        std::printf("%s\t%s\n", fault.name, fault.what);
      }
      return 0;
    }
    if (!idempotency::planted::Choose(name)) {
      std::fprintf(stderr, "--planted: there is no fault '%s'; --planted=list lists them\n",
                   std::string(name).c_str());
      return 2;
    }
  }
  const int count = static_cast<int>(others.size());
  others.push_back(nullptr);
  return ServiceMain(count, others.data());
}
