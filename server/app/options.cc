#include "server/app/options.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/app/address.h"
#include "server/app/contradiction.h"
#include "server/app/exit_code.h"
#include "server/app/setting_table.h"
#include "server/store/postgres/sql.h"

namespace idempotency {
namespace {

ExitText Mistakes(const std::vector<std::string>& texts) {
  ExitText exit_text{static_cast<int>(ExitCode::kUsage), ""};
  for (const std::string& text : texts) {
    absl::StrAppend(&exit_text.text, "idempotencyd: ", text, "\n");
  }
  return exit_text;
}

ExitText Mistake(absl::string_view text) { return Mistakes({std::string(text)}); }

// --queue_max_bytes=1 as --queue-max-bytes=1.
std::string WithDashes(const std::string& argument) {
  if (!absl::StartsWith(argument, "--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  std::string flag = argument.substr(0, end);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag + argument.substr(end);
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

std::string HelpOf(const SettingRow& row) {
  std::string help = row.meaning;
  const std::string bounds = BoundsText(row);
  // A default address is worth knowing, a secret has none.
  absl::StrAppend(&help, " (", row.is_secret ? "" : ValueText(row));
  if (!bounds.empty()) absl::StrAppend(&help, help.back() == '(' ? "" : "; ", bounds);
  if (row.in_environment) {
    absl::StrAppend(&help, help.back() == '(' ? "" : "; ", VariableOf(row.name));
  }
  absl::StrAppend(&help, ")");
  return absl::EndsWith(help, " ()") ? row.meaning : help;
}

std::string TypeName(const SettingRow& row) {
  if (row.span != nullptr) return "SPAN";
  if (row.size != nullptr || row.number != nullptr) return "NUMBER";
  return row.file_of.empty() && row.name != kConfigSetting ? "TEXT" : "FILE";
}

// The flags of one command that are settings, before it is known whether their values are good.
class SettingFlags {
 public:
  // Adds those of `commands`; their defaults, for the help, are `settings`'.
  SettingFlags(CLI::App* app, CommandSet commands, Settings* settings) {
    for (const SettingRow& row : SettingTable(settings)) {
      if ((row.commands & commands) == 0) continue;
      flags_.push_back(std::make_unique<Flag>());
      Flag& flag = *flags_.back();
      flag.name = row.name;
      flag.is_toggle = row.toggle != nullptr;
      if (flag.is_toggle) {
        flag.option = app->add_flag(FlagOf(row.name), flag.toggle, HelpOf(row));
      } else {
        flag.option = app->add_option(FlagOf(row.name), flag.text, HelpOf(row));
        flag.option->type_name(TypeName(row));
      }
      // Given twice, as by a wrapper's defaults and a person: the last one counts.
      flag.option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }

  std::map<std::string, std::string> Given() const {
    std::map<std::string, std::string> given;
    for (const auto& flag : flags_) {
      if (flag->option->count() == 0) continue;
      given[flag->name] = !flag->is_toggle ? flag->text : flag->toggle ? "true" : "false";
    }
    return given;
  }

 private:
  struct Flag {
    std::string name;
    CLI::Option* option = nullptr;
    bool is_toggle = false;
    std::string text;
    bool toggle = false;
  };
  // They stay where CLI11 writes to.
  std::vector<std::unique_ptr<Flag>> flags_;
};

// Every command with its own arguments; settings are added by SettingFlags.
struct Commands {
  CLI::App app{"Idempotency keys for payment systems, over gRPC and PostgreSQL", "idempotencyd"};
  CLI::App* serve = app.add_subcommand("serve", "run a replica on your PostgreSQL");
  CLI::App* dev =
      app.add_subcommand("dev", "try it: on a private PostgreSQL, on this machine only");
  CLI::App* migrate =
      app.add_subcommand("migrate", "the database's schema; without a further word: up");
  CLI::App* migrate_up = migrate->add_subcommand("up", "bring it to this version");
  CLI::App* migrate_status =
      migrate->add_subcommand("status", "list what was applied, what is pending and what differs");
  CLI::App* migrate_print = migrate->add_subcommand(
      "print", "print the SQL, for psql; needs no database, and leaves the same state as up");
  CLI::App* healthcheck = app.add_subcommand(
      "healthcheck", "ask a replica on this machine whether it serves: for container probes");
  CLI::App* config = app.add_subcommand("config", "the configuration that serve would run with");
  CLI::App* config_print =
      config->add_subcommand("print", "each value and where it comes from, secrets masked");
  CLI::App* config_validate =
      config->add_subcommand("validate", "run every check of serve's, without connecting");
  CLI::App* config_docs = config->add_subcommand("docs", "print docs/configuration.md");
  CLI::App* version = app.add_subcommand("version", "print the version");

  DevSettings dev_settings;
  MigrateArguments migrate_arguments;
  std::string healthcheck_address;
  std::string healthcheck_timeout;
  std::string format = "text";

  Commands() {
    app.require_subcommand(1);
    dev->add_flag("--ephemeral", dev_settings.ephemeral, "forget everything at the end");
    dev->add_option("--directory", dev_settings.directory,
                    "where the private PostgreSQL keeps its data");
    migrate->require_subcommand(0, 1);
    config->require_subcommand(1);
    for (CLI::App* const sub :
         {migrate_up, migrate_status, migrate_print, config_print, config_validate, config_docs}) {
      sub->fallthrough();
    }
    migrate
        ->add_option("--grant-to", migrate_arguments.grant_to,
                     "up and print: the role that serve connects as; it gets what the service "
                     "needs, and nothing more")
        ->type_name("ROLE");
    migrate_print->add_option("--from", migrate_arguments.from, "the first migration to print (1)")
        ->type_name("NUMBER");
    healthcheck
        ->add_option("--address", healthcheck_address,
                     "host:port of the replica (the listen setting, any address over loopback)")
        ->type_name("TEXT");
    healthcheck
        ->add_option("--timeout", healthcheck_timeout, "for the whole of it (3s; 100ms to 1m)")
        ->type_name("SPAN");
    config_print->add_option("--format", format, "text or json (text)");
  }

  // Of the command that was named: what is its own, then what it has from the one around it.
  std::string Help() const {
    std::string help;
    std::string name;
    for (const CLI::App* named = &app; named != nullptr;) {
      absl::StrAppend(&name, name.empty() ? "" : " ", named->get_name());
      const std::vector<CLI::App*> inner = named->get_subcommands();
      const bool is_whole = named != &app || inner.empty();
      if (is_whole) {
        help = absl::StrCat(
            named->get_formatter()->make_help(named, name, CLI::AppFormatMode::Normal), help);
      }
      named = inner.empty() ? nullptr : inner.front();
    }
    return absl::StrCat(help, "\n", ExitCodesHelp());
  }
};

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
         "false; --from is a number";
}

// Which settings a command checks beyond each value's own bounds.
CommandSet CheckedAs(Command command) {
  switch (command) {
    case Command::kServe:
    case Command::kConfigValidate:
      return kServeCommand;
    case Command::kDev:
      return kDevCommand;
    case Command::kMigrateUp:
    case Command::kMigrateStatus:
      return kMigrateCommand;
    default:
      return 0;
  }
}

Command CommandOf(const Commands& commands) {
  const std::pair<const CLI::App*, Command> all[] = {
      {commands.serve, Command::kServe},
      {commands.dev, Command::kDev},
      {commands.migrate_status, Command::kMigrateStatus},
      {commands.migrate_print, Command::kMigratePrint},
      {commands.migrate, Command::kMigrateUp},
      {commands.healthcheck, Command::kHealthcheck},
      {commands.config_print, Command::kConfigPrint},
      {commands.config_validate, Command::kConfigValidate},
      {commands.config_docs, Command::kConfigDocs},
  };
  for (const auto& [app, command] : all) {
    if (app->parsed()) return command;
  }
  return Command::kVersion;
}

// What the commands' own arguments must be. An empty text: all is well.
std::string CheckArguments(const Commands& commands, CommandLine* line) {
  line->dev = commands.dev_settings;
  line->migrate = commands.migrate_arguments;
  line->json = commands.format == "json";
  if (line->dev.ephemeral && !line->dev.directory.empty()) {
    return "--ephemeral: keeps nothing, so --directory does not go with it";
  }
  if (line->command == Command::kMigrateStatus && !line->migrate.grant_to.empty()) {
    return "--grant-to: goes with migrate up and migrate print";
  }
  if (line->migrate.from < 1 || line->migrate.from > kNewestSchema) {
    return absl::StrCat("--from: must be the number of a migration: 1 to ", kNewestSchema);
  }
  if (commands.format != "text" && commands.format != "json") {
    return "--format: must be text or json";
  }
  if (line->command != Command::kHealthcheck) return "";
  const bool is_given = !commands.healthcheck_address.empty();
  const absl::StatusOr<std::string> address =
      DialAddress(is_given ? commands.healthcheck_address : line->settings.listen);
  if (!address.ok()) {
    return absl::StrCat(is_given ? "--address: " : "listen: ", address.status().message());
  }
  line->healthcheck.address = *address;
  if (commands.healthcheck_timeout.empty()) return "";
  absl::Duration& timeout = line->healthcheck.timeout;
  if (!absl::ParseDuration(commands.healthcheck_timeout, &timeout) ||
      timeout < absl::Milliseconds(100) || timeout > absl::Minutes(1)) {
    return "--timeout: must be a span such as 3s: 100ms to 1m";
  }
  return "";
}

}  // namespace

std::variant<CommandLine, ExitText> ParseCommandLine(const std::vector<std::string>& arguments,
                                                     const Environment& environment) {
  Settings defaults;
  Settings dev_defaults = DevDefaults();

  Commands commands;
  const SettingFlags serve_flags(commands.serve, kServeCommand, &defaults);
  const SettingFlags dev_flags(commands.dev, kDevCommand, &dev_defaults);
  const SettingFlags migrate_flags(commands.migrate, kMigrateCommand, &defaults);
  const SettingFlags healthcheck_flags(commands.healthcheck, kHealthcheckCommand, &defaults);
  const SettingFlags config_flags(commands.config, kServeCommand, &defaults);

  std::vector<std::string> reversed(arguments.size());
  std::transform(arguments.rbegin(), arguments.rend(), reversed.begin(), WithDashes);
  for (const std::string& argument : reversed) {
    // CLI11 would take the next argument for the value.
    if (absl::StartsWith(argument, "--") && argument.find('=') == argument.size() - 1) {
      return Mistake(absl::StrCat(Unexpected(argument), ": must not be empty"));
    }
  }
  try {
    commands.app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return ExitText{0, commands.Help()};
  } catch (const CLI::ParseError& error) {
    return Mistake(
        absl::StrCat(Describe(error, commands.app), "\nRun with --help for what there is."));
  }

  CommandLine line;
  line.command = CommandOf(commands);
  // They need no configuration, and must work beside a broken one.
  if (line.command == Command::kVersion || line.command == Command::kConfigDocs) return line;
  std::map<std::string, std::string> flags;
  for (const SettingFlags* const some :
       {&serve_flags, &dev_flags, &migrate_flags, &healthcheck_flags, &config_flags}) {
    flags.merge(some->Given());
  }
  Configuration configuration =
      Configure(line.command == Command::kDev ? dev_defaults : defaults, flags, environment);
  if (configuration.mistakes.empty()) {
    configuration.mistakes = CheckFor(CheckedAs(line.command), configuration);
  }
  if (!configuration.mistakes.empty()) return Mistakes(configuration.mistakes);
  line.settings = std::move(configuration.settings);
  line.effective = std::move(configuration.effective);
  const std::string mistake = CheckArguments(commands, &line);
  if (!mistake.empty()) return Mistake(mistake);
  line.dev.is_listen_given = IsGiven(line.effective, kListenSetting);
  return line;
}

}  // namespace idempotency
