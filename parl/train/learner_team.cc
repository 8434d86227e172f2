#include "parl/train/learner_team.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "parl/core/check.h"
#include "parl/core/config.h"
#include "parl/train/byte_string.h"

namespace parl {
namespace {

// Settings that are each learner's own.
const std::set<std::string> kOwnSettings = {
    "run",          "init_from",        "engine",       "device", "learner_rank", "learner_address", "status_seconds",
    "pool_threads", "max_replacements", "actor_timeout"};

ConfigFields shared_fields(TrainConfig& config) {
  ConfigFields fields = config_fields(config);
  std::erase_if(fields, [](const ConfigField& field) { return kOwnSettings.count(field.path) > 0; });
  return fields;
}

uint64_t hash_of(const Weights& weights) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a over words
  for (const NamedArray& entry : weights.entries) {
    const std::byte* data = entry.array.data();
    for (size_t at = 0; at < entry.array.bytes(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, data + at, std::min(sizeof(word), entry.array.bytes() - at));
      hash = (hash ^ word) * 0x100000001b3;
    }
  }
  return hash;
}

// What a checkpoint has of one learner's actors.
struct ActorsPart {
  std::vector<ActorState> actors;
  std::vector<Rollout> waiting;
};
PARL_FIELDS(ActorsPart, actors, waiting);

constexpr const char* kFromAnother = "a message of another learner";

}  // namespace

void LearnerTeam::require_same(const TrainConfig& config) {
  if (alone()) return;
  TrainConfig mine = config;
  TrainConfig first = train_config_of(group_->from_first(config_to_json(config_fields(mine))), "learner 0's settings");
  std::string differences;
  if (first.algorithm != mine.algorithm) {
    differences = fmt::format("algorithm: {} -> {}", first.algorithm, mine.algorithm);
  } else {
    differences = fmt::format("{}", fmt::join(config_differences(shared_fields(first), shared_fields(mine)), "; "));
  }
  const std::vector<std::string> all = group_->gather(differences);
  for (size_t r = 0; r < all.size(); ++r) {
    PARL_CHECK(all[r].empty(), "learner {} was started with other settings than learner 0: {}", r, all[r]);
  }
}

LearnerRound LearnerTeam::exchange(LearnerNews mine) {
  LearnerRound round;
  if (alone()) {
    round.news.push_back(std::move(mine));
  } else {
    for (const std::string& bytes : group_->gather(to_byte_string(mine)))
      round.news.push_back(from_byte_string<LearnerNews>(bytes, kFromAnother));
  }
  round.seconds = round.news[0].seconds;
  for (size_t r = 0; r < round.news.size(); ++r) {
    const LearnerNews& news = round.news[r];
    round.whole = round.whole && news.whole;
    round.stop = round.stop || news.stop;
    round.actors_replaced += news.actors_replaced;
    if (!round.failure.empty() || news.failure.empty()) continue;
    round.failure = alone() ? news.failure : fmt::format("learner {}: {}", r, news.failure);
  }
  return round;
}

bool LearnerTeam::decide(bool value) { return alone() ? value : group_->from_first(value ? "1" : "0") == "1"; }

void LearnerTeam::share(std::optional<Checkpoint>& checkpoint) {
  if (alone()) return;
  const std::string bytes = group_->from_first(leads() ? to_byte_string(checkpoint) : "");
  if (!leads()) checkpoint = from_byte_string<std::optional<Checkpoint>>(bytes, kFromAnother);
}

Weights LearnerTeam::share(const Weights& weights) {
  if (alone()) return weights;
  return from_byte_string<Weights>(group_->from_first(leads() ? to_byte_string(weights) : ""), kFromAnother);
}

void LearnerTeam::gather(Checkpoint& checkpoint, int64_t actors_each) {
  if (alone()) return;
  ActorsPart mine{std::move(checkpoint.actors), std::move(checkpoint.waiting)};
  checkpoint.actors.clear();
  checkpoint.waiting.clear();
  int64_t first = 0;
  for (const std::string& bytes : group_->gather(to_byte_string(mine))) {
    auto part = from_byte_string<ActorsPart>(bytes, kFromAnother);
    for (ActorState& state : part.actors) checkpoint.actors.push_back(std::move(state));
    for (Rollout& rollout : part.waiting) {
      rollout.actor += first;
      checkpoint.waiting.push_back(std::move(rollout));
    }
    first += actors_each;
  }
}

void LearnerTeam::take_part(Checkpoint& checkpoint, int64_t actors_each) const {
  PARL_CHECK_EQ(static_cast<int64_t>(checkpoint.actors.size()), actors_each * size(),
                "the checkpoint was written with another number of actors: keep --learners times --actors");
  const int64_t first = rank() * actors_each;
  std::vector<ActorState> actors;
  for (int64_t i = 0; i < actors_each; ++i)
    actors.push_back(std::move(checkpoint.actors[static_cast<size_t>(first + i)]));
  checkpoint.actors = std::move(actors);
  std::erase_if(checkpoint.waiting,
                [&](const Rollout& r) { return r.actor < first || r.actor >= first + actors_each; });
  for (Rollout& rollout : checkpoint.waiting) rollout.actor -= first;
}

void LearnerTeam::require_equal(const Weights& weights) {
  if (alone()) return;
  const std::vector<std::string> all = group_->gather(fmt::format("{:016x}", hash_of(weights)));
  for (size_t r = 1; r < all.size(); ++r) {
    PARL_CHECK(all[r] == all[0],
               "the weights of learner {} are not those of learner 0: its machine computes differently (another "
               "processor, another build of this program) or has a fault; the last checkpoint is good",
               group_->name_of(static_cast<int>(r)));
  }
}

}  // namespace parl
