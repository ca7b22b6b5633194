#include "server/app/contradiction.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/app/address.h"
#include "server/app/config_view.h"
#include "server/app/setting_table.h"
#include "server/engine/admission.h"
#include "server/engine/call.h"
#include "server/record/limit.h"

namespace idempotency {
namespace {

// One of them is kept for Complete, Fail and Renew.
constexpr size_t kFewestItemsOfALane = 4;

// A setting as messages name it: with where its value comes from.
std::string Named(const Configuration& configuration, absl::string_view name) {
  const EffectiveSetting* const setting = FindSetting(configuration.effective, name);
  if (setting == nullptr) return std::string(name);
  return absl::StrCat(name, " (", setting->source, ": ", setting->value, ")");
}

// What a value would have to be, or nothing when all is well.
using Check = std::optional<std::string> (*)(const Configuration& configuration);

struct Rule {
  // For the docs page.
  absl::string_view text;
  Check check;
  CommandSet commands = kServingCommands;
};

std::optional<std::string> CheckNotAbove(const Configuration& configuration, bool is_above,
                                         absl::string_view lower, absl::string_view upper) {
  if (!is_above) return std::nullopt;
  return absl::StrCat(Named(configuration, lower), " must not be above ",
                      Named(configuration, upper));
}

std::optional<std::string> CheckWaits(const Configuration& configuration) {
  const EngineOptions& engine = configuration.settings.engine;
  if (engine.waits_max <= engine.calls_in_flight_max / 2) return std::nullopt;
  return absl::StrCat(Named(configuration, "waits.max"), " must be at most half of ",
                      Named(configuration, "calls_in_flight.max"), ": ",
                      engine.calls_in_flight_max / 2);
}

std::optional<std::string> CheckItemsOfALane(const Configuration& configuration) {
  const EngineOptions& engine = configuration.settings.engine;
  const size_t fewest = kFewestItemsOfALane * static_cast<size_t>(engine.lanes);
  if (engine.queue_max_items >= fewest) return std::nullopt;
  return absl::StrCat(Named(configuration, "queue.max_items"), " must be at least ",
                      kFewestItemsOfALane, " for each of ", Named(configuration, "lanes"), ": ",
                      fewest);
}

// A lane has its share of the queue, and of that a quarter is kept for Complete, Fail and Renew:
// the largest of them must fit, or it would be refused for ever while Begins fill the rest.
std::optional<std::string> CheckBytesOfALane(const Configuration& configuration) {
  const Settings& settings = configuration.settings;
  const auto lanes = static_cast<size_t>(settings.engine.lanes);
  const size_t share = settings.engine.queue_max_bytes / lanes;
  const size_t largest = LargestOwnerCallBytes(settings.bounds.max_outcome_body_bytes);
  if (share - LimitOf(Room::kShared, share) >= largest) return std::nullopt;
  return absl::StrCat(Named(configuration, "queue.max_bytes"),
                      " must be at least four times the largest Complete for each of ",
                      Named(configuration, "lanes"), ", with ",
                      Named(configuration, "outcome.max_body_bytes"), ": ", 4 * largest * lanes);
}

absl::Span<const Rule> Rules() {
  static constexpr Rule kRules[] = {
      {"`ttl.min` is not above `ttl.default`.",
       [](const Configuration& all) {
         const DurationBounds& ttl = all.settings.bounds.ttl;
         return CheckNotAbove(all, ttl.shortest > ttl.standard, "ttl.min", "ttl.default");
       }},
      {"`ttl.default` is not above `ttl.max`.",
       [](const Configuration& all) {
         const DurationBounds& ttl = all.settings.bounds.ttl;
         return CheckNotAbove(all, ttl.standard > ttl.longest, "ttl.default", "ttl.max");
       }},
      {"`lease.min_duration` is not above `lease.default_duration`.",
       [](const Configuration& all) {
         const DurationBounds& lease = all.settings.bounds.lease;
         return CheckNotAbove(all, lease.shortest > lease.standard, "lease.min_duration",
                              "lease.default_duration");
       }},
      {"`lease.default_duration` is not above `lease.max_duration`.",
       [](const Configuration& all) {
         const DurationBounds& lease = all.settings.bounds.lease;
         return CheckNotAbove(all, lease.standard > lease.longest, "lease.default_duration",
                              "lease.max_duration");
       }},
      {"`lease.max_duration` is not above `takeover_window`: nobody could take over what the first "
       "attempt left.",
       [](const Configuration& all) {
         // Tests end windows early.
         const bool is_above =
             !all.settings.unsafe_test_bounds &&
             all.settings.bounds.lease.longest > all.settings.engine.policy.takeover_window;
         return CheckNotAbove(all, is_above, "lease.max_duration", "takeover_window");
       }},
      {"`waits.max` is at most half of `calls_in_flight.max`.", CheckWaits},
      {"`merchant.burst` is 0 without `merchant.max_rate`: it would mean nothing.",
       [](const Configuration& all) -> std::optional<std::string> {
         const MerchantLimitOptions& merchants = all.settings.merchants;
         if (merchants.burst == 0 || merchants.max_rate > 0) return std::nullopt;
         return absl::StrCat(Named(all, "merchant.burst"), " means nothing without ",
                             Named(all, "merchant.max_rate"));
       }},
      {"`queue.max_items` has room for 4 calls in each of `lanes`.", CheckItemsOfALane},
      {"`queue.max_bytes` has, in each of `lanes`, room for four of the largest Completes that "
       "`outcome.max_body_bytes` allows.",
       CheckBytesOfALane},
      {"`serve` needs `durability`.",
       [](const Configuration& all) -> std::optional<std::string> {
         if (!all.settings.durability.empty()) return std::nullopt;
         return "durability (--durability, IDEMPOTENCY_DURABILITY): say how durable an answer is: "
                "local means the primary's own disk, and a standby that is promoted may have lost "
                "it; replicated means a synchronous standby's as well";
       },
       kServeCommand},
      {"`serve` needs `insecure`, as long as there is no authentication.",
       [](const Configuration& all) -> std::optional<std::string> {
         if (all.settings.insecure) return std::nullopt;
         return "insecure (--insecure, IDEMPOTENCY_INSECURE): this version has no authentication: "
                "whoever reaches the port may do everything. Say --insecure if the network is "
                "trusted";
       },
       kServeCommand},
      {"`serve` and `migrate` need a database: `database.url`, `database.url_file`, or one of "
       "libpq's PGSERVICE, PGHOST, PGHOSTADDR, PGPORT, PGDATABASE, PGUSER.",
       [](const Configuration& all) -> std::optional<std::string> {
         if (IsGiven(all.effective, kDatabaseUrlSetting)) return std::nullopt;
         return "database.url (--database-url, IDEMPOTENCY_DATABASE_URL): is required, or "
                "database.url_file, or one of libpq's PGSERVICE, PGHOST, PGHOSTADDR, PGPORT, "
                "PGDATABASE, PGUSER";
       },
       kServeCommand | kMigrateCommand},
      {"`dev` listens on loopback only.",
       [](const Configuration& all) -> std::optional<std::string> {
         const absl::StatusOr<Address> address = ParseAddress(all.settings.listen);
         if (address.ok() && IsLoopback(*address)) return std::nullopt;
         return absl::StrCat(Named(all, kListenSetting),
                             ": dev has no authentication and listens on loopback only, such as "
                             "127.0.0.1:50051");
       },
       kDevCommand},
  };
  return kRules;
}

}  // namespace

std::vector<std::string> CheckFor(CommandSet command, const Configuration& configuration) {
  std::vector<std::string> mistakes;
  for (const Rule& rule : Rules()) {
    if ((rule.commands & command) == 0) continue;
    if (std::optional<std::string> mistake = rule.check(configuration)) {
      mistakes.push_back(*std::move(mistake));
    }
  }
  return mistakes;
}

std::vector<std::string> ContradictionTexts() {
  std::vector<std::string> texts;
  for (const Rule& rule : Rules()) texts.emplace_back(rule.text);
  return texts;
}

}  // namespace idempotency
