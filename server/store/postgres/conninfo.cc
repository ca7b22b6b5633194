#include "server/store/postgres/conninfo.h"

#include <libpq-fe.h>

#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace idempotency {
namespace {

constexpr char kHidden[] = "****";

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using Options = std::unique_ptr<PQconninfoOption, FreeOptions>;

Options Parse(const std::string& conninfo) {
  char* error = nullptr;
  Options options(PQconninfoParse(conninfo.c_str(), &error));
  // libpq's reason repeats parts of the string.
  PQfreemem(error);
  return options;
}

std::string Quoted(absl::string_view value) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:/_-@%+*";
  if (!value.empty() && value.find_first_not_of(kPlain) == absl::string_view::npos) {
    return std::string(value);
  }
  return absl::StrCat("'", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

}  // namespace

absl::Status CheckConninfo(absl::string_view conninfo) {
  if (Parse(std::string(conninfo)) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "must be a connection string of libpq's, such as postgresql://user@host/database or "
      "'host=… dbname=… user=…'; it is not repeated here: it may hold a password");
}

std::string MaskedConninfo(const std::string& conninfo) {
  const Options options = Parse(conninfo);
  if (options == nullptr) return kHidden;
  std::string masked;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr) continue;
    // libpq marks what a form would show as stars.
    const bool is_secret = absl::string_view(option->dispchar) == "*";
    absl::StrAppend(&masked, masked.empty() ? "" : " ", option->keyword, "=",
                    is_secret ? kHidden : Quoted(option->val));
  }
  return masked;
}

std::map<std::string, std::string> ValuesSetOutside(const std::string& conninfo) {
  const Options given = Parse(conninfo);
  if (given == nullptr) return {};
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  std::set<absl::string_view> inside;
  for (const PQconninfoOption* option = given.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr || absl::string_view(option->keyword) == "sslmode") continue;
    keywords.push_back(option->keyword);
    values.push_back(option->val);
    inside.insert(option->keyword);
  }
  // libpq tells what it has put together only of a connection. With this one it gives up after it
  // has read the environment and the service file, and before it opens a socket.
  for (const char* const text : {"sslmode", static_cast<const char*>(nullptr)}) {
    keywords.push_back(text);
    values.push_back(text == nullptr ? nullptr : "none of these");
  }
  const std::unique_ptr<PGconn, void (*)(PGconn*)> unopened(
      PQconnectStartParams(keywords.data(), values.data(), 0), PQfinish);
  const Options all(PQconninfo(unopened.get()));
  std::map<std::string, std::string> outside;
  for (const PQconninfoOption* option = all.get(); option != nullptr && option->keyword != nullptr;
       ++option) {
    if (option->val == nullptr || inside.count(option->keyword) > 0) continue;
    const absl::string_view compiled = option->compiled == nullptr ? "" : option->compiled;
    if (option->val != compiled) outside[option->keyword] = option->val;
  }
  return outside;
}

absl::Span<const absl::string_view> LibpqDatabaseVariables() {
  static constexpr absl::string_view kNames[] = {"PGSERVICE", "PGHOST",     "PGHOSTADDR",
                                                 "PGPORT",    "PGDATABASE", "PGUSER"};
  return kNames;
}

}  // namespace idempotency
