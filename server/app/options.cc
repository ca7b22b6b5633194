#include "server/app/options.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/app/tuning.h"

namespace idempotency {
namespace {

std::string EnvironmentName(absl::string_view name) {
  return absl::StrCat("IDEMPOTENCY_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

ExitText Mistake(absl::string_view text) { return {2, absl::StrCat("idempotencyd: ", text, "\n")}; }

// --queue_max_bytes=1 as --queue-max-bytes=1.
std::string WithDashes(const std::string& argument) {
  if (!absl::StartsWith(argument, "--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  std::string flag = argument.substr(0, end);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag + argument.substr(end);
}

// What the flags of one subcommand are written into before it is known whether they are good.
struct Raw {
  std::string durability;
  std::string log_level;
  bool insecure = false;
  bool unsafe_test_bounds = false;
  // By the tunable's name.
  std::map<std::string, std::string> tunables;
};

CLI::Option* AddText(CLI::App* app, const std::string& name, std::string& value,
                     const std::string& meaning) {
  return app->add_option(absl::StrCat("--", name), value, meaning)
      ->envname(EnvironmentName(name))
      // Given twice, as by a wrapper's defaults and a person: the last one counts.
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void AddDatabaseUrl(CLI::App* app, Settings& settings) {
  AddText(app, "database-url", settings.database_url,
          "PostgreSQL, as libpq's URI or keyword=value pairs; several hosts may be named. Keep the "
          "password out of the command line: use the variable, or a passfile");
}

void AddServing(CLI::App* app, CommandLine& line, Raw& raw, const std::string& log_level) {
  app->add_option_function<std::string>(
         "--listen",
         [&line](const std::string& address) {
           line.settings.listen = address;
           line.dev.is_listen_given = true;
         },
         "host:port to listen on; port 0 is a free one")
      ->envname("IDEMPOTENCY_LISTEN");
  AddText(app, "log-level", raw.log_level,
          absl::StrCat("debug, info, warn or error (", log_level,
                       "); takeovers, conflicts and the like are always written"));
  raw.log_level = log_level;
  for (const Tunable& tunable : Tunables(&line.settings)) {
    const std::string meaning =
        absl::StrCat(tunable.meaning, " (", ValueText(tunable), "; ", BoundsText(tunable), ")");
    AddText(app, tunable.name, raw.tunables[tunable.name], meaning)
        ->type_name(tunable.span != nullptr ? "SPAN" : "NUMBER");
  }
  app->add_flag("--unsafe-test-bounds", raw.unsafe_test_bounds,
                "FOR TESTS ONLY: the settings above may be shorter than is safe with money");
}

// Moves what was given into the settings.
std::optional<ExitText> Settle(CommandLine& line, const Raw& raw) {
  const std::optional<LogLevel> level = ParseLogLevel(raw.log_level);
  if (!level.has_value()) return Mistake("--log-level: must be debug, info, warn or error");
  line.settings.log_level = *level;
  for (const Tunable& tunable : Tunables(&line.settings)) {
    const std::string& text = raw.tunables.at(tunable.name);
    if (text.empty()) continue;
    const absl::Status set = SetFromText(tunable, text, raw.unsafe_test_bounds);
    if (!set.ok()) {
      return Mistake(absl::StrCat("--", tunable.name, " (", EnvironmentName(tunable.name),
                                  "): ", set.message()));
    }
  }
  const absl::Status together = CheckTogether(line.settings);
  if (!together.ok()) return Mistake(together.message());
  line.settings.engine.policy.shortest_lease = line.settings.bounds.lease.shortest;
  return std::nullopt;
}

std::optional<ExitText> CheckServe(const CommandLine& line, const Raw& raw) {
  if (raw.durability.empty()) {
    return Mistake(
        "--durability: say how durable an answer is: --durability=local means the primary's own "
        "disk, and a standby that is promoted may have lost it");
  }
  if (raw.durability == "replicated") {
    return Mistake("--durability: replicated is not in this version; local is");
  }
  if (raw.durability != "local") return Mistake("--durability: must be local");
  if (!raw.insecure) {
    return Mistake(
        "--insecure: this version has no authentication: whoever reaches the port may do "
        "everything. Say --insecure if the network is trusted");
  }
  if (line.settings.database_url.empty()) {
    return Mistake("--database-url (IDEMPOTENCY_DATABASE_URL): is required");
  }
  return std::nullopt;
}

bool IsLoopback(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.rfind(':'));
  // By number, or by the one name that is always this machine's: 127.example.com may be anybody's.
  return host == "localhost" || host == "[::1]" ||
         (absl::StartsWith(host, "127.") &&
          host.find_first_not_of("0123456789.") == absl::string_view::npos);
}

std::optional<ExitText> CheckDev(const CommandLine& line) {
  if (!IsLoopback(line.settings.listen)) {
    return Mistake(
        "--listen: dev has no authentication and listens on loopback only, such as "
        "127.0.0.1:50051");
  }
  if (line.dev.ephemeral && !line.dev.directory.empty()) {
    return Mistake("--ephemeral: keeps nothing, so --directory does not go with it");
  }
  return std::nullopt;
}

// An argument that nobody asked for, without what may be a secret: of a flag its name, of anything
// else (a database URL, say) nothing.
std::string Unexpected(const std::string& argument) {
  constexpr char kName[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
  if (absl::StartsWith(argument, "--")) {
    return argument.substr(0, argument.find_first_not_of(kName));
  }
  // The value may stand right behind the letter.
  if (absl::StartsWith(argument, "-")) return argument.substr(0, 2);
  return "an argument that is no flag (it is not repeated here: it may hold a password)";
}

// In our own words: the parser's repeat values.
std::string Describe(const CLI::ParseError& error, const CLI::App& app) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> unexpected = app.remaining(/*recurse=*/true);
    std::transform(unexpected.begin(), unexpected.end(), unexpected.begin(), Unexpected);
    return absl::StrCat("not expected: ", absl::StrJoin(unexpected, ", "));
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
      dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return error.what();
  }
  // Only these are parsed by it; all others it takes as text.
  return "--insecure, --ephemeral and --unsafe-test-bounds: each is given alone, or is true or "
         "false";
}

}  // namespace

std::variant<CommandLine, ExitText> ParseCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  Raw serve_raw;
  Raw dev_raw;
  CommandLine dev_line;
  dev_line.command = Command::kDev;
  // Nobody's load balancer watches a developer's machine.
  dev_line.settings.drain_delay = absl::ZeroDuration();

  CLI::App app("Idempotency keys for payment systems, over gRPC and PostgreSQL", "idempotencyd");
  app.require_subcommand(1);
  CLI::App* const serve = app.add_subcommand("serve", "run a replica on your PostgreSQL");
  AddDatabaseUrl(serve, line.settings);
  AddText(serve, "durability", serve_raw.durability,
          "required: what an answer has waited for; local: the primary's own disk");
  serve
      ->add_flag("--insecure", serve_raw.insecure,
                 "required in this version: without authentication and encryption")
      ->envname("IDEMPOTENCY_INSECURE");
  AddServing(serve, line, serve_raw, "info");

  CLI::App* const dev =
      app.add_subcommand("dev", "try it: on a private PostgreSQL, on this machine only");
  dev->add_flag("--ephemeral", dev_line.dev.ephemeral, "forget everything at the end");
  dev->add_option("--directory", dev_line.dev.directory,
                  "where the private PostgreSQL keeps its data");
  AddServing(dev, dev_line, dev_raw, "warn");

  CLI::App* const migrate =
      app.add_subcommand("migrate", "bring the database's schema to this version");
  std::string migrate_url;
  Settings migrate_settings;
  AddDatabaseUrl(migrate, migrate_settings);
  CLI::App* const version = app.add_subcommand("version", "print the version");

  std::vector<std::string> reversed(arguments.size());
  std::transform(arguments.rbegin(), arguments.rend(), reversed.begin(), WithDashes);
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    return ExitText{0, chosen.empty() ? app.help() : chosen.front()->help("idempotencyd")};
  } catch (const CLI::ParseError& error) {
    return Mistake(absl::StrCat(Describe(error, app), "\nRun with --help for what there is."));
  }
  std::optional<ExitText> mistake;
  if (serve->parsed()) {
    line.command = Command::kServe;
    mistake = CheckServe(line, serve_raw);
    if (!mistake.has_value()) mistake = Settle(line, serve_raw);
  } else if (dev->parsed()) {
    mistake = CheckDev(dev_line);
    if (!mistake.has_value()) mistake = Settle(dev_line, dev_raw);
    line = std::move(dev_line);
  } else if (migrate->parsed()) {
    line.command = Command::kMigrate;
    line.settings.database_url = migrate_settings.database_url;
    if (line.settings.database_url.empty()) {
      mistake = Mistake("--database-url (IDEMPOTENCY_DATABASE_URL): is required");
    }
  } else if (version->parsed()) {
    line.command = Command::kVersion;
  }
  if (mistake.has_value()) return *std::move(mistake);
  return line;
}

}  // namespace idempotency
