#include "parl/env/space.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "parl/core/check.h"
#include "parl/env/env.h"

namespace parl {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Box, SizeAndBytes) {
  const Box image{DType::kU8, {84, 84, 4}, {0.0}, {255.0}};
  EXPECT_EQ(image.size(), 84 * 84 * 4);
  EXPECT_EQ(image.bytes(), 84u * 84u * 4u);
  EXPECT_EQ((Box{DType::kF64, {3, 2}, {0.0}, {1.0}}).bytes(), 48u);
  EXPECT_EQ((Box{DType::kF32, {}, {0.0}, {1.0}}).size(), 1);  // a scalar
}

TEST(Box, ContainsChecksEveryElement) {
  const Box box{DType::kF32, {3}, {-1, -kInf, 0}, {1, kInf, 2}};
  float values[3] = {0.5f, 1e30f, 2.0f};
  EXPECT_TRUE(box.contains(values));
  for (size_t i : {0u, 2u}) {
    float outside[3] = {0.5f, 1e30f, 2.0f};
    outside[i] = 2.5f;
    EXPECT_FALSE(box.contains(outside)) << i;
  }
  values[1] = std::nanf("");
  EXPECT_FALSE(box.contains(values)) << "NaN is never inside, not even where there are no bounds";
}

TEST(Box, BoundsOfFloatsAreRoundedLikeTheValues) {
  const Box box{DType::kF32, {1}, {-0.1}, {0.1}};
  const float just_at = 0.1f;  // a little above the double 0.1
  EXPECT_TRUE(box.contains(&just_at));
  const float above = std::nextafter(0.1f, 1.0f);
  EXPECT_FALSE(box.contains(&above));
}

TEST(Box, ContainsReadsTheElementType) {
  const int16_t numbers[2] = {-300, 300};
  EXPECT_TRUE((Box{DType::kI16, {2}, {-300.0}, {300.0}}).contains(numbers));
  EXPECT_FALSE((Box{DType::kI16, {2}, {-300.0}, {299.0}}).contains(numbers));
  const uint8_t pixels[2] = {0, 255};
  EXPECT_TRUE((Box{DType::kU8, {2}, {0.0}, {255.0}}).contains(pixels));
  EXPECT_FALSE((Box{DType::kU8, {2}, {0.0}, {254.0}}).contains(pixels));
  const double values[1] = {3.0};
  EXPECT_FALSE((Box{DType::kF64, {1}, {0.0}, {2.0}}).contains(values));
}

TEST(Box, WrongNumberOfBoundsIsAnError) {
  const float values[3] = {};
  EXPECT_THROW((Box{DType::kF32, {3}, {0.0, 0.0}, {1.0}}).contains(values), Error);
}

TEST(Box, Bounded) {
  EXPECT_TRUE((Box{DType::kF32, {2}, {0, 1}, {5, 6}}).bounded());
  EXPECT_FALSE((Box{DType::kF32, {2}, {0, -kInf}, {5, 6}}).bounded());
  EXPECT_FALSE((Box{DType::kF32, {2}, {0, 1}, {kInf, 6}}).bounded());
}

TEST(Space, Text) {
  EXPECT_EQ(to_string(Space(Discrete{6})), "Discrete(6)");
  EXPECT_EQ(to_string(Space(Box{DType::kU8, {84, 84, 4}, {0.0}, {255.0}})), "Box(u1, [84,84,4], 0..255)");
  EXPECT_EQ(to_string(Space(Box{DType::kF32, {2}, {-1, -2}, {1, 2}})), "Box(f4, [2], [-1,-2]..[1,2])");
  EXPECT_EQ(to_string(MultiDiscrete{{3, 2}}), "MultiDiscrete([3,2])");
  EXPECT_EQ(to_string(Dict{{{"a", MultiBinary{4}}, {"b", Tuple{{Discrete{2}, Discrete{3}}}}}}),
            "Dict(a: MultiBinary(4), b: Tuple(Discrete(2), Discrete(3)))");
}

TEST(Space, ChoicesOfActions) {
  EXPECT_EQ(choices_of(Discrete{6}), std::vector<int64_t>{6});
  EXPECT_EQ(choices_of(MultiDiscrete{{3, 2}}), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(choices_of(MultiBinary{3}), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_TRUE(choices_of(Box{}).empty());
  EXPECT_THROW(choices_of(Tuple{{Discrete{2}}}), Error);
}

Dict robot() {
  return {{{"camera", Box{DType::kU8, {2, 3, 1}, {0.0}, {255.0}}},
           {"arm", Tuple{{Box{DType::kF32, {2}, {-1.0}, {1.0}}, Dict{{{"gear", Discrete{5}}}}}}},
           {"switches", MultiBinary{3}},
           {"wheels", MultiDiscrete{{4, 4}}}}};
}

TEST(Layout, NestedSpacesBecomeNamedAlignedParts) {
  const ObservationLayout layout = lay_out(robot());
  std::vector<std::string> names;
  std::vector<size_t> offsets;
  for (const SpacePart& part : layout.parts) {
    names.push_back(part.name);
    offsets.push_back(part.offset);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"camera", "arm/0", "arm/1/gear", "switches", "wheels"}));
  EXPECT_EQ(offsets, (std::vector<size_t>{0, 8, 16, 24, 32}));  // 6 bytes, 8, 8, 3, 16
  EXPECT_EQ(layout.block, (Box{DType::kU8, {48}, {0}, {255}}));
  EXPECT_EQ(layout.parts[2].dtype, DType::kI64);
  EXPECT_TRUE(layout.parts[2].shape.empty());
  EXPECT_EQ(layout.parts[3].dtype, DType::kU8);
}

TEST(Layout, ABoxStaysAsItIsAndASingleNumberIsOnePart) {
  const Box box{DType::kF32, {3}, {0.0}, {1.0}};
  EXPECT_EQ(lay_out(box).block, box);
  EXPECT_TRUE(lay_out(box).parts.empty());
  const ObservationLayout number = lay_out(Discrete{16});
  EXPECT_EQ(number.block.bytes(), 8u);
  EXPECT_EQ(number.parts.at(0).name, "obs");
}

TEST(Layout, WhatCannotBeNamedIsRefused) {
  EXPECT_THROW(lay_out(Dict{}), Error);
  EXPECT_THROW(lay_out(Dict{{{"", Discrete{2}}}}), Error);
  EXPECT_THROW(lay_out(Dict{{{"a", Discrete{2}}, {"a", Discrete{2}}}}), Error);
  EXPECT_THROW(lay_out(Dict{{{"a/0", Discrete{2}}, {"a", Tuple{{Discrete{2}}}}}}), Error);
}

TEST(Layout, ContainsLooksAtEveryPart) {
  EnvSpec spec;
  spec.id = "Robot";
  spec.set_observation(robot());
  alignas(8) std::byte obs[48];
  std::memset(obs, 0xFF, sizeof(obs));
  const std::span<std::byte> place(obs);
  write_padding(place, spec.parts);
  for (size_t i : {6u, 7u, 27u, 31u}) EXPECT_EQ(obs[i], std::byte{0}) << i;  // between the parts
  EXPECT_EQ(obs[47], std::byte{0xFF}) << "a part's own";
  part_of<float>(place, spec.part("arm/0"))[0] = 1.0f;
  part_of<float>(place, spec.part("arm/0"))[1] = -1.0f;
  part_of<int64_t>(place, spec.part("arm/1/gear"))[0] = 4;
  for (uint8_t& s : part_of<uint8_t>(place, spec.part("switches"))) s = 1;
  for (int64_t& w : part_of<int64_t>(place, spec.part("wheels"))) w = 3;
  EXPECT_EQ(spec.outside(obs), "");
  const auto with = [&](auto change) {
    std::byte before[48];
    std::memcpy(before, obs, 48);
    change();
    const std::string text = spec.outside(obs);
    std::memcpy(obs, before, 48);
    return text;
  };
  EXPECT_EQ(with([&] { part_of<int64_t>(place, spec.part("arm/1/gear"))[0] = 5; }),
            "the part 'arm/1/gear' of the observation is outside Discrete(5)");
  EXPECT_NE(with([&] { part_of<int64_t>(place, spec.part("wheels"))[1] = -1; }), "");
  EXPECT_NE(with([&] { part_of<uint8_t>(place, spec.part("switches"))[2] = 2; }), "");
  EXPECT_NE(with([&] { part_of<float>(place, spec.part("arm/0"))[0] = 1.5f; }), "");
  EXPECT_THROW(spec.part("cammera"), Error);
}

TEST(CheckAction, RefusesWhatIsNoAction) {
  EnvSpec spec;
  spec.id = "Robot";
  const int64_t good[] = {2, 1}, high[] = {3, 1}, low[] = {2, -1}, many[] = {2, 1, 0};
  spec.action = MultiDiscrete{{3, 2}};
  EXPECT_NO_THROW(check_action(spec, Action::multi(good)));
  for (std::span<const int64_t> bad : {std::span<const int64_t>(high), {low}, {many}, {}}) {
    EXPECT_THROW(check_action(spec, Action::multi(bad)), Error);
  }
  spec.action = MultiBinary{2};
  EXPECT_THROW(check_action(spec, Action::multi(good)), Error);  // 2 is no switch
  spec.action = Discrete{3};
  EXPECT_NO_THROW(check_action(spec, Action::discrete(2)));
  EXPECT_THROW(check_action(spec, Action::discrete(3)), Error);
  spec.action = Box{DType::kF32, {2}, {-1.0}, {1.0}};
  const float values[] = {0.5f, 7.0f}, nan[] = {0.5f, std::nanf("")};
  EXPECT_NO_THROW(check_action(spec, Action::continuous(values)));  // bounds are for the environment to clip
  EXPECT_THROW(check_action(spec, Action::continuous(nan)), Error);
}

}  // namespace
}  // namespace parl
