#include "server/app/configuration.h"

#include <unistd.h>

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/app/config_file.h"
#include "server/app/file.h"
#include "server/app/setting_table.h"
#include "server/store/postgres/conninfo.h"

namespace idempotency {
namespace {

constexpr size_t kMaxSecretFileBytes = size_t{16} * 1024;
// Read by `dev` itself (run.cc), and no setting.
constexpr char kGrpcurlVariable[] = "IDEMPOTENCY_GRPCURL";
constexpr char kVariablePrefix[] = "IDEMPOTENCY_";

struct Given {
  std::string text;
  std::string source;
};

// Kubernetes gives every container of a namespace variables about each Service there; for one named
// idempotency… they begin as ours do.
bool IsOfKubernetesService(absl::string_view name) {
  const std::vector<absl::string_view> words = absl::StrSplit(name, '_');
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "SERVICE" && i + 1 < words.size() &&
        (words[i + 1] == "HOST" || words[i + 1] == "PORT")) {
      return true;
    }
    // …_PORT, and …_PORT_50051_TCP with what may follow.
    const bool is_number = i + 1 < words.size() && !words[i + 1].empty() &&
                           words[i + 1].find_first_not_of("0123456789") == absl::string_view::npos;
    if (words[i] == "PORT" && (i + 1 == words.size() || is_number)) return true;
  }
  return false;
}

absl::string_view NameOf(FileEntry::Kind kind) {
  switch (kind) {
    case FileEntry::Kind::kString:
      return "a text in quotes";
    case FileEntry::Kind::kInteger:
      return "a whole number without quotes";
    case FileEntry::Kind::kBoolean:
      return "true or false without quotes";
    case FileEntry::Kind::kOther:
      break;
  }
  return "a single value";
}

FileEntry::Kind KindOf(const SettingRow& row) {
  if (row.size != nullptr || row.number != nullptr) return FileEntry::Kind::kInteger;
  if (row.toggle != nullptr) return FileEntry::Kind::kBoolean;
  return FileEntry::Kind::kString;
}

// Gathers what each source says, then settles it row by row.
class Configurator {
 public:
  Configurator(Configuration* configuration, const std::map<std::string, std::string>& flags,
               const Environment& environment)
      : configuration_(configuration),
        table_(SettingTable(&configuration->settings)),
        environment_(environment) {
    for (const SettingRow& row : table_) {
      rows_[row.name] = &row;
      const auto flag = flags.find(row.name);
      if (flag != flags.end()) {
        given_[row.name] = {flag->second, absl::StrCat("flag ", FlagOf(row.name))};
        continue;
      }
      if (!row.in_environment) continue;
      const auto variable = environment.find(VariableOf(row.name));
      if (variable != environment.end() && !variable->second.empty()) {
        given_[row.name] = {variable->second, absl::StrCat("environment ", variable->first)};
      }
    }
  }

  void Run() {
    RefuseUnknownVariables();
    ReadFile();
    // It decides how the others are judged.
    Settle(*rows_[kUnsafeTestBoundsSetting]);
    for (const SettingRow& row : table_) {
      if (row.name != kUnsafeTestBoundsSetting) Settle(row);
    }
    for (const SettingRow& row : table_) Show(row);
  }

 private:
  void Mistake(absl::string_view name, absl::string_view source, absl::string_view why) {
    configuration_->mistakes.push_back(absl::StrCat(name, " (", source, "): ", why));
  }

  void RefuseUnknownVariables() {
    std::set<std::string> known = {kGrpcurlVariable};
    for (const SettingRow& row : table_) {
      if (row.in_environment) known.insert(VariableOf(row.name));
    }
    for (const auto& [name, value] : environment_) {
      if (!absl::StartsWith(name, kVariablePrefix) || known.count(name) > 0 ||
          IsOfKubernetesService(name)) {
        continue;
      }
      configuration_->mistakes.push_back(absl::StrCat(
          name, " (environment): there is no such setting; idempotencyd config print lists them"));
    }
  }

  void ReadFile() {
    const auto path = given_.find(kConfigSetting);
    if (path == given_.end()) return;
    const absl::StatusOr<std::vector<FileEntry>> entries = ReadConfigFile(path->second.text);
    if (!entries.ok()) {
      configuration_->mistakes.emplace_back(entries.status().message());
      return;
    }
    for (const FileEntry& entry : *entries) TakeFromFile(entry, path->second.text);
  }

  void TakeFromFile(const FileEntry& entry, const std::string& path) {
    const std::string source = absl::StrCat("file ", path, ":", entry.line);
    const auto row = rows_.find(entry.name);
    if (row == rows_.end()) {
      const std::string name = ShownName(entry.name);
      if (!IsEmptyTable(entry)) {
        Mistake(name.empty() ? "a name" : name, source, "there is no such setting");
      }
      return;
    }
    if (!row->second->in_file) {
      Mistake(entry.name, source, "cannot be set in a file");
      return;
    }
    if (entry.kind != KindOf(*row->second)) {
      Mistake(entry.name, source, absl::StrCat("must be ", NameOf(KindOf(*row->second))));
      return;
    }
    // Whoever was asked before the file has said it already.
    given_.emplace(entry.name, Given{entry.text, source});
  }

  // `[queue]` with nothing below it.
  bool IsEmptyTable(const FileEntry& entry) const {
    if (entry.kind != FileEntry::Kind::kOther) return false;
    const auto next = rows_.lower_bound(absl::StrCat(entry.name, "."));
    return next != rows_.end() && absl::StartsWith(next->first, absl::StrCat(entry.name, "."));
  }

  void Settle(const SettingRow& row) {
    const auto given = given_.find(row.name);
    if (given == given_.end()) return;
    if (!row.file_of.empty()) {
      SettleSecret(row, given->second);
      return;
    }
    const absl::Status set =
        SetFromText(row, given->second.text, configuration_->settings.unsafe_test_bounds);
    if (!set.ok()) Mistake(row.name, given->second.source, set.message());
  }

  void SettleSecret(const SettingRow& row, const Given& path) {
    const auto beside = given_.find(row.file_of);
    if (beside != given_.end()) {
      Mistake(row.name, path.source,
              absl::StrCat("does not go with ", row.file_of, " (", beside->second.source,
                           "): give the one or the other"));
      return;
    }
    const absl::StatusOr<std::string> secret = ReadSecret(path.text);
    absl::Status set = secret.status();
    if (set.ok()) {
      set = SetFromText(*rows_[row.file_of], *secret, configuration_->settings.unsafe_test_bounds);
      if (!set.ok()) {
        set = absl::InvalidArgumentError(
            absl::StrCat("file ", path.text, ": the ", row.file_of, " in it ", set.message()));
      }
    }
    if (!set.ok()) Mistake(row.name, path.source, set.message());
  }

  static absl::StatusOr<std::string> ReadSecret(const std::string& path) {
    if (path.empty()) return absl::InvalidArgumentError("must not be empty");
    absl::StatusOr<std::string> content = ReadBounded(path, kMaxSecretFileBytes);
    if (!content.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", path, ": ", content.status().message()));
    }
    absl::string_view secret = *content;
    // As editors and `echo` leave it.
    if (absl::ConsumeSuffix(&secret, "\n")) absl::ConsumeSuffix(&secret, "\r");
    if (secret.empty())
      return absl::InvalidArgumentError(absl::StrCat("file ", path, ": is empty"));
    return std::string(secret);
  }

  void Show(const SettingRow& row) {
    EffectiveSetting shown{row.name, ValueText(row), kDefaultSource};
    const auto given = given_.find(row.name);
    const auto file = given_.find(absl::StrCat(row.name, "_file"));
    if (given != given_.end()) {
      shown.source = given->second.source;
      if (!row.file_of.empty()) shown.value = given->second.text;
    }
    if (row.is_secret && !shown.value.empty()) {
      const bool is_from_file = given == given_.end() && file != given_.end();
      shown.value = row.mask == nullptr || is_from_file ? kMasked : row.mask(shown.value);
      if (is_from_file) {
        shown.source = absl::StrCat("file ", file->second.text, " (", file->second.source, ")");
      }
    }
    configuration_->effective.push_back(std::move(shown));
  }

  Configuration* const configuration_;
  const std::vector<SettingRow> table_;
  const Environment& environment_;
  std::map<std::string, const SettingRow*> rows_;
  std::map<std::string, Given> given_;
};

// Without a connection string libpq asks its own variables.
void ShowLibpqVariables(const Environment& environment, Configuration* configuration) {
  if (!configuration->settings.database_url.empty()) return;
  std::vector<absl::string_view> names;
  for (const absl::string_view name : LibpqDatabaseVariables()) {
    const auto variable = environment.find(std::string(name));
    if (variable != environment.end() && !variable->second.empty()) names.push_back(name);
  }
  for (EffectiveSetting& setting : configuration->effective) {
    if (setting.name == kDatabaseUrlSetting && setting.source == kDefaultSource && !names.empty()) {
      setting.source = absl::StrCat("environment ", absl::StrJoin(names, ", "));
    }
  }
}

}  // namespace

Environment ProcessEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::pair<absl::string_view, absl::string_view> variable =
        absl::StrSplit(absl::string_view(*entry), absl::MaxSplits('=', 1));
    environment.emplace(variable.first, variable.second);
  }
  return environment;
}

Configuration Configure(const Settings& defaults, const std::map<std::string, std::string>& flags,
                        const Environment& environment) {
  Configuration configuration;
  configuration.settings = defaults;
  Configurator(&configuration, flags, environment).Run();
  ShowLibpqVariables(environment, &configuration);
  configuration.settings.engine.policy.shortest_lease =
      configuration.settings.bounds.lease.shortest;
  return configuration;
}

}  // namespace idempotency
