// The client built without the rest of the project, installed, moved, and used by a program that
// knows nothing of our build: by find_package and by pkg-config, against the real service.
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/client_cpp/client_fixture.h"

namespace idempotency {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The files below `directory`, by their paths in it.
std::set<std::string> FilesBelow(const fs::path& directory) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), directory).string());
  }
  return files;
}

class InstallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string path = (fs::temp_directory_path() / "idempotency-client-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = new fs::path(path);
    // Kept between runs of the test: the second build takes no time.
    const std::string build = IDEM_ALONE_DIR;
    ASSERT_TRUE(Run(
        absl::StrCat("cmake -S ", IDEM_CLIENT_SOURCE_DIR, " -B ", build,
                     " -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=", IDEM_CXX_COMPILER,
                     " -DCMAKE_CXX_COMPILER_LAUNCHER=", IDEM_CXX_LAUNCHER)));
    ASSERT_TRUE(Run(absl::StrCat("cmake --build ", build, " --parallel 2")));
    ASSERT_TRUE(Run(absl::StrCat("cmake --install ", build, " --prefix ", path, "/installed")));
    fs::rename(*directory_ / "installed", Prefix());
  }
  static void TearDownTestSuite() {
    fs::remove_all(*directory_);
    delete directory_;
  }

  static fs::path Prefix() { return *directory_ / "prefix"; }

  // By a shell. False, and a failure that shows what it printed, if it does not succeed.
  static bool Run(const std::string& command) {
    const std::string log = (*directory_ / "log").string();
    if (system(absl::StrCat("(", command, ") >", log, " 2>&1").c_str()) == 0) return true;
    ADD_FAILURE() << command << "\n" << ReadFile(log);
    return false;
  }
  static std::string Output() { return ReadFile(*directory_ / "log"); }

  // Runs the consumer at `program` and expects it to have paid once and been replayed once.
  static void ExpectWorks(const fs::path& program) {
    ASSERT_TRUE(Run(absl::StrCat(program.string(), " ", SharedService().address(0), " ",
                                 NewKey().idempotency_key)));
    EXPECT_EQ(Output(), "0.1.0 1 1 paid\n");
  }

  static fs::path* directory_;
};

fs::path* InstallTest::directory_ = nullptr;

TEST_F(InstallTest, IsFoundByCMake) {
  const fs::path build = *directory_ / "by-cmake";
  ASSERT_TRUE(Run(absl::StrCat("cmake -S ", IDEM_CONSUMER_DIR, " -B ", build.string(),
                               " -G Ninja -DCMAKE_PREFIX_PATH=", Prefix().string(),
                               " -DCMAKE_CXX_COMPILER=", IDEM_CXX_COMPILER)));
  ASSERT_TRUE(Run(absl::StrCat("cmake --build ", build.string())));
  ExpectWorks(build / "consumer");
}

TEST_F(InstallTest, IsFoundByPkgConfig) {
  const fs::path program = *directory_ / "by-pkg-config";
  ASSERT_TRUE(
      Run(absl::StrCat("PKG_CONFIG_PATH=$(dirname $(find ", Prefix().string(),
                       " -name idempotency_client.pc)) && export PKG_CONFIG_PATH && ",
                       IDEM_CXX_COMPILER, " -std=c++20 ", IDEM_CONSUMER_DIR, "/consumer.cc -o ",
                       program.string(), " $(pkg-config --cflags --libs idempotency_client)")));
  ExpectWorks(program);
}

TEST_F(InstallTest, OtherVersionsAreRefused) {
  const fs::path source = *directory_ / "newer";
  fs::create_directory(source);
  std::ofstream(source / "CMakeLists.txt")
      << "cmake_minimum_required(VERSION 3.16)\nproject(newer LANGUAGES CXX)\n"
         "find_package(idempotency_client 0.2 QUIET)\n"
         "if(idempotency_client_FOUND)\n  message(FATAL_ERROR found)\nendif()\n";
  EXPECT_TRUE(Run(absl::StrCat("cmake -S ", source.string(), " -B ", source.string(),
                               "/build -DCMAKE_PREFIX_PATH=", Prefix().string())));
}

TEST_F(InstallTest, BuildOfTheWholeProjectInstallsTheSameFiles) {
  const fs::path other = *directory_ / "component";
  ASSERT_TRUE(Run(absl::StrCat("cmake --install ", IDEM_BINARY_DIR,
                               " --component idempotency_client --prefix ", other.string())));
  std::set<std::string> alone = FilesBelow(Prefix());
  std::set<std::string> component = FilesBelow(other);
  // The names of the files with the settings of a build type differ.
  const auto is_of_build_type = [](const std::string& name) {
    return name.find("-targets-") != std::string::npos;
  };
  std::erase_if(alone, is_of_build_type);
  std::erase_if(component, is_of_build_type);
  EXPECT_EQ(alone, component);
  EXPECT_TRUE(alone.contains("include/idempotency/client/client.h"));
  EXPECT_TRUE(alone.contains("include/idempotency/v1/idempotency_service.grpc.pb.h"));
  EXPECT_FALSE(alone.contains("include/idempotency/client/v1/status_details.pb.h"));
}

}  // namespace
}  // namespace idempotency
