#include "server/app/config_docs.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/app/contradiction.h"
#include "server/app/exit_code.h"
#include "server/app/setting_table.h"
#include "server/app/settings.h"

namespace idempotency {
namespace {

constexpr char kHead[] = R"(# Configuration

Written by `idempotencyd config docs` from the table in `server/app/setting_table.cc`; a test fails when they differ.

Each setting has one name, such as `queue.max_bytes`, and can be given in three ways. The first that gives it wins:

1. a flag: `--queue-max-bytes=134217728` (underscores are taken, too; of several the last counts);
2. an environment variable: `IDEMPOTENCY_QUEUE_MAX_BYTES=134217728`. An empty one counts as not set. A variable that
   begins with `IDEMPOTENCY_` and is no setting is refused, so that a typing error is not silently ignored; let through
   are `IDEMPOTENCY_GRPCURL`, which `./dev run` uses, and what Kubernetes adds for a Service named `idempotency…`
   (`…_SERVICE_HOST`, `…_SERVICE_PORT`, `…_PORT`, `…_PORT_50051_TCP` and the like);
3. the configuration file that `--config FILE` or `IDEMPOTENCY_CONFIG` names. It is [TOML](https://toml.io): texts and
   spans stand in quotes, numbers, `true` and `false` do not. What is no setting, stands there twice or has another type
   is refused with the file's line.

```toml
listen = "0.0.0.0:50051"
durability = "local"
insecure = true
database.url_file = "/run/secrets/database-url"

[queue]
max_bytes = 134217728

[lease]
default_duration = "30s"
```

All commands may share one environment and one file: each reads them whole, refuses what is wrong in them, and uses what
it needs. `idempotencyd config print` shows each value and where it comes from (`--format=json` for programs), secrets
masked; `idempotencyd config validate` runs every check of `serve` without connecting. A span is a number with a unit, such as
`1.5s`, `15m` or `24h`.

## Secrets

A secret is never printed or logged, nor repeated in a message. Each may be given as the content of a file instead, by
the setting of its name with `_file` behind it; giving both is refused. A newline at the file's end is left out, the file
holds at most 16 KiB, and it is read once, at the start. On a command line a secret can be read by every user of the machine:
prefer the file, the variable, or libpq's passfile.

## The database by libpq's own variables

Where `database.url` says nothing, libpq's environment variables, service file and passfile do: `PGHOST`, `PGPORT`,
`PGDATABASE`, `PGUSER`, `PGPASSWORD`, `PGPASSFILE`, `PGSERVICE`, `PGSSLMODE` and so on, as for psql. Without any
`database.url` at least one of PGSERVICE, PGHOST, PGHOSTADDR, PGPORT, PGDATABASE, PGUSER must be set: otherwise it has been
forgotten. See [operations/database.md](operations/database.md).

)";

std::string Escaped(absl::string_view text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

std::string NameCell(const SettingRow& row) {
  std::string cell = absl::StrCat("`", row.name, "`<br>`", FlagOf(row.name), "`");
  if (row.in_environment) absl::StrAppend(&cell, "<br>`", VariableOf(row.name), "`");
  if (!row.in_file) {
    absl::StrAppend(&cell, "<br>not in a file", row.in_environment ? "" : " or variable");
  }
  return cell;
}

// What is not set shows as –.
std::string DefaultCell(const SettingRow& row, const SettingRow& of_dev) {
  const std::string text = ValueText(row);
  std::string cell = text.empty() ? "–" : absl::StrCat("`", text, "`");
  if (ValueText(of_dev) != text) absl::StrAppend(&cell, "; dev: `", ValueText(of_dev), "`");
  return cell;
}

std::string CommandsCell(CommandSet commands) {
  std::string cell;
  const auto add = [&](CommandSet command, absl::string_view name) {
    if ((commands & command) != 0) absl::StrAppend(&cell, cell.empty() ? "" : ", ", name);
  };
  add(kServeCommand, "serve");
  add(kDevCommand, "dev");
  add(kMigrateCommand, "migrate");
  add(kHealthcheckCommand, "healthcheck");
  return cell;
}

std::string KindText(const SettingRow& row) {
  if (row.span != nullptr) return "span";
  if (row.size != nullptr || row.number != nullptr) return "number";
  if (row.toggle != nullptr) return "switch";
  return row.is_secret ? "secret text" : "text";
}

std::string SettingsTable() {
  Settings defaults;
  Settings dev_defaults = DevDefaults();
  const std::vector<SettingRow> table = SettingTable(&defaults);
  const std::vector<SettingRow> dev_table = SettingTable(&dev_defaults);
  std::string page =
      "## Settings\n\n"
      "| setting | type and bounds | default | meaning | used by |\n|---|---|---|---|---|\n";
  for (size_t i = 0; i < table.size(); ++i) {
    const SettingRow& row = table[i];
    const std::string bounds = BoundsText(row);
    absl::StrAppend(&page, "| ", NameCell(row), " | ", KindText(row), bounds.empty() ? "" : ", ",
                    bounds, " | ", DefaultCell(row, dev_table[i]), " | ", Escaped(row.meaning),
                    " | ", CommandsCell(row.commands), " |\n");
  }
  return page;
}

std::string RulesList() {
  std::string page = "\n## Settings that must go together\n\nChecked at the start:\n\n";
  for (const std::string& text : ContradictionTexts()) absl::StrAppend(&page, "- ", text, "\n");
  return page;
}

std::string ExitCodesTable() {
  std::string page = "\n## Exit status\n\n| status | meaning |\n|---|---|\n";
  for (const ExitCodeText& text : ExitCodes()) {
    absl::StrAppend(&page, "| ", static_cast<int>(text.code), " | ", text.meaning, " |\n");
  }
  return page;
}

}  // namespace

std::string ConfigurationPage() {
  return absl::StrCat(kHead, SettingsTable(), RulesList(), ExitCodesTable());
}

}  // namespace idempotency
