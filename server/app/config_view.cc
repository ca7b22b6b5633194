#include "server/app/config_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace idempotency {

const EffectiveSetting* FindSetting(const std::vector<EffectiveSetting>& settings,
                                    absl::string_view name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const auto& setting) { return setting.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

bool IsGiven(const std::vector<EffectiveSetting>& settings, absl::string_view name) {
  const EffectiveSetting* const setting = FindSetting(settings, name);
  return setting != nullptr && setting->source != kDefaultSource;
}

std::string EffectiveText(const std::vector<EffectiveSetting>& settings) {
  size_t name_width = 0;
  size_t value_width = 0;
  for (const EffectiveSetting& setting : settings) {
    name_width = std::max(name_width, setting.name.size());
    value_width = std::max(value_width, setting.value.size());
  }
  // One long database URL must not push every source out of sight.
  value_width = std::min<size_t>(value_width, 40);
  std::string text;
  for (const EffectiveSetting& setting : settings) {
    absl::StrAppendFormat(&text, "%-*s  %-*s  # %s\n", static_cast<int>(name_width), setting.name,
                          static_cast<int>(value_width), setting.value, setting.source);
  }
  return text;
}

std::string EffectiveJson(const std::vector<EffectiveSetting>& settings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EffectiveSetting& setting : settings) {
    list.push_back({{"name", setting.name}, {"value", setting.value}, {"source", setting.source}});
  }
  nlohmann::ordered_json document;
  document["settings"] = std::move(list);
  // A source names a path, which need not be UTF-8.
  return absl::StrCat(
      document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace), "\n");
}

}  // namespace idempotency
